// SPDX-License-Identifier: Apache-2.0
import { DamagedMetadata, FlatbufferChecker } from "./flatbuffer-check.js";

// Field numbers of format/Schema.fbs, Message.fbs and File.fbs of the Arrow specification.
const schemaHeader = 1;
const blockBytes = 24; // Block: int64, int32 with padding, int64
const unionTypeId = 14;
// Types that Arrow JS does not know, with the way out.
const unreadTypes: Readonly<Record<number, { name: string; wayOut: string }>> = {
    22: { name: "RunEndEncoded", wayOut: "decode it and write the plain column (pyarrow: pc.run_end_decode)" },
    25: { name: "ListView", wayOut: "cast it to List (pyarrow: column.cast(pa.list_(...)))" },
    26: { name: "LargeListView", wayOut: "cast it to LargeList (pyarrow: column.cast(pa.large_list(...)))" }
};
const typeCount = 27;

/** A type in the schema that cannot be read; becomes UNSUPPORTED_TYPE. */
export class UnreadType extends Error {
    public constructor(
        public readonly column: string,
        public readonly type: string,
        public readonly wayOut: string
    ) {
        super(`column \`${column}\` has type ${type}`);
    }
}

export interface SchemaFacts {
    bigEndian: boolean;
    hasUnion: boolean;
}

class MetadataChecker extends FlatbufferChecker {
    readonly #bytes: Uint8Array;
    public readonly facts: SchemaFacts = { bigEndian: false, hasUnion: false };

    public constructor(bytes: Uint8Array) {
        super(bytes);
        this.#bytes = bytes;
    }

    #text(field: number): string {
        const { first, count } = this.vector(field, 1);
        return Buffer.from(this.#bytes.buffer, this.#bytes.byteOffset + first, count).toString("utf8");
    }

    readonly #keyValue = (position: number): void => {
        const { fields } = this.table(position, 2);
        this.string(fields[0] ?? 0);
        this.string(fields[1] ?? 0);
    };

    #field(position: number, depth: number, column: string | undefined): void {
        const { fields } = this.table(position, 7);
        const [name = 0, , typeType = 0, type = 0, dictionary = 0, children = 0, metadata = 0] = fields;
        const topLevel = column ?? this.#text(name);
        const typeId = typeType === 0 ? 0 : this.int8(typeType);
        const unread = unreadTypes[typeId];
        if (unread !== undefined) throw new UnreadType(topLevel, unread.name, unread.wayOut);
        if (typeId < 0 || typeId >= typeCount) throw new DamagedMetadata(`type number ${typeId} is unknown`);
        this.string(name);
        if (type === 0) {
            // Null has an (empty) table too; without one Arrow JS would dereference null.
            if (typeId > 1) throw new DamagedMetadata(`a field of type number ${typeId} has no type table`);
        } else {
            // No type table has more than three fields; only Union's second is a vector.
            const table = this.table(this.reference(type), 3);
            if (typeId === unionTypeId) {
                this.facts.hasUnion = true;
                this.vector(table.fields[1] ?? 0, 4);
            }
            if (typeId === 10) this.string(table.fields[1] ?? 0); // time zone of Timestamp
        }
        if (dictionary !== 0) {
            const encoding = this.table(this.reference(dictionary), 4);
            const indexType = encoding.fields[1] ?? 0;
            if (indexType !== 0) this.table(this.reference(indexType), 2);
        }
        this.tables(children, depth, (child, childDepth) => this.#field(child, childDepth, topLevel));
        this.tables(metadata, 0, this.#keyValue);
    }

    public schema(position: number): void {
        const { fields } = this.table(position, 4);
        const [endianness = 0, columns = 0, metadata = 0] = fields;
        this.facts.bigEndian = endianness !== 0 && this.int16(endianness) !== 0;
        this.tables(columns, 0, (field, depth) => this.#field(field, depth, undefined));
        this.tables(metadata, 0, this.#keyValue);
    }

    public schemaMessage(): void {
        const { fields } = this.table(this.root(), 5);
        const [, headerType = 0, header = 0, , metadata = 0] = fields;
        if (header === 0) throw new DamagedMetadata("a message has no header");
        const position = this.reference(header);
        const type = headerType === 0 ? 0 : this.int8(headerType);
        if (type !== schemaHeader) throw new DamagedMetadata("it has no schema: its first message is another one");
        this.schema(position);
        this.tables(metadata, 0, this.#keyValue);
    }

    public footer(): void {
        const { fields } = this.table(this.root(), 5);
        const [, schema = 0, dictionaries = 0, recordBatches = 0, metadata = 0] = fields;
        if (schema === 0) throw new DamagedMetadata("the footer has no schema");
        this.schema(this.reference(schema));
        this.vector(dictionaries, blockBytes);
        this.vector(recordBatches, blockBytes);
        this.tables(metadata, 0, this.#keyValue);
    }
}

/** Throws DamagedMetadata or UnreadType unless this message is a schema that Arrow JS can decode safely. */
export function checkSchemaMessage(bytes: Uint8Array): SchemaFacts {
    const checker = new MetadataChecker(bytes);
    checker.schemaMessage();
    return checker.facts;
}

/** The same for a footer. */
export function checkFooter(bytes: Uint8Array): SchemaFacts {
    const checker = new MetadataChecker(bytes);
    checker.footer();
    return checker.facts;
}
