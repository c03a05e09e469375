// SPDX-License-Identifier: Apache-2.0
// Where a sound Arrow file has each number of its metadata, so that tests can write another one there.
import { FlatbufferChecker } from "../../src/arrow/flatbuffer-check.js";

/** Positions in the file; 0 where a field was left out. */
export interface MessagePlaces {
    offset: number;
    kind: "schema" | "dictionary" | "record";
    body: number;
    bodyBytes: number;
    version: number;
    headerType: number;
    bodyLength: number;
    id: number;
    isDelta: number;
    rows: number;
    /** Of each: length and NULL count, or offset and length, 8 bytes apart. */
    nodes: number[];
    buffers: number[];
    variadicCounts: number[];
}

const kinds = ["", "schema", "dictionary", "record"] as const;

function numberAt(bytes: Uint8Array, position: number, width: 1 | 4 | 8): number {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (width === 1) return view.getUint8(position);
    return width === 4 ? view.getUint32(position, true) : Number(view.getBigInt64(position, true));
}

function elements(checker: FlatbufferChecker, field: number, bytes: number, begin: number): number[] {
    const { first, count } = checker.vector(field, bytes);
    return Array.from({ length: count }, (_, i) => begin + first + i * bytes);
}

function placesOf(bytes: Uint8Array, offset: number, begin: number, length: number): MessagePlaces {
    const checker = new FlatbufferChecker(bytes.subarray(begin, begin + length));
    const at = (field: number | undefined): number => (field === undefined || field === 0 ? 0 : begin + field);
    const message = checker.table(checker.root(), 4).fields;
    const kind = kinds[numberAt(bytes, at(message[1]), 1)] as MessagePlaces["kind"];
    const header = checker.reference(message[2]!);
    const [id, data, isDelta] = kind === "dictionary" ? checker.table(header, 3).fields : [];
    const batch = kind === "dictionary" ? checker.reference(data!) : header;
    const [rows, nodes, buffers, , variadicCounts] = kind === "schema" ? [] : checker.table(batch, 5).fields;
    return {
        ...{ offset, kind, body: begin + length, bodyBytes: message[3] ? numberAt(bytes, at(message[3]), 8) : 0 },
        ...{ version: at(message[0]), headerType: at(message[1]), bodyLength: at(message[3]) },
        ...{ id: at(id), isDelta: at(isDelta), rows: at(rows) },
        nodes: elements(checker, nodes ?? 0, 16, begin),
        buffers: elements(checker, buffers ?? 0, 16, begin),
        variadicCounts: elements(checker, variadicCounts ?? 0, 8, begin)
    };
}

/** The messages of a file or stream that Arrow JS wrote. */
export function messagesOf(bytes: Uint8Array): MessagePlaces[] {
    const messages: MessagePlaces[] = [];
    let offset = Buffer.from(bytes.subarray(0, 6)).toString("latin1") === "ARROW1" ? 8 : 0;
    for (;;) {
        const length = numberAt(bytes, offset + 4, 4);
        if (length === 0) return messages;
        const message = placesOf(bytes, offset, offset + 8, length);
        messages.push(message);
        offset = message.body + message.bodyBytes;
    }
}

/** Where the footer of a file has its blocks: offset, length of the metadata 8 bytes behind it, of the body 16. */
export function footerPlaces(bytes: Uint8Array): { dictionaries: number[]; records: number[] } {
    const end = bytes.length - 10;
    const begin = end - numberAt(bytes, end, 4);
    const checker = new FlatbufferChecker(bytes.subarray(begin, end));
    const [, , dictionaries = 0, records = 0] = checker.table(checker.root(), 4).fields;
    return {
        dictionaries: elements(checker, dictionaries, 24, begin),
        records: elements(checker, records, 24, begin)
    };
}

export function putInt64(bytes: Uint8Array, position: number, value: bigint | number): void {
    new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).setBigInt64(position, BigInt(value), true);
}
