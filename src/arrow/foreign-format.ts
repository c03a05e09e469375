// SPDX-License-Identifier: Apache-2.0
// What a file is that is no Arrow file: by its first and last bytes, for text by its name too.
import { SpillwayError } from "../errors.js";
import { conversion, type ForeignFormat } from "./foreign-conversion.js";

/** How many of its first bytes tell what a file is. */
export const startBytes = 4 * 1024;

/** Some of the bytes of a file, as text of one character a byte. */
interface Bytes {
    readonly start: string;
    readonly end: string;
}

function startsWith(mark: string): (bytes: Bytes) => boolean {
    return ({ start }) => start.startsWith(mark);
}

const binaryFormats: readonly (readonly [ForeignFormat, (bytes: Bytes) => boolean])[] = [
    // "PARE": the footer is encrypted.
    ["Parquet", ({ start, end }) => /^PAR[1E]/.test(start) && /PAR[1E]$/.test(end)],
    ["Feather version 1", ({ start, end }) => start.startsWith("FEA1") && end.endsWith("FEA1")],
    // The last byte is the length of the postscript.
    ["ORC", ({ start, end }) => start.startsWith("ORC") && end.slice(-4, -1) === "ORC"],
    ["Avro", startsWith("Obj\x01")],
    ["SQLite", startsWith("SQLite format 3\0")],
    // Behind a checksum.
    ["DuckDB", ({ start }) => start.startsWith("DUCK", 8)],
    ["Excel", ({ start }) => start.startsWith("PK\x03\x04") && start.includes("xl/")],
    ["ZIP", startsWith("PK\x03\x04")],
    ["gzip", startsWith("\x1f\x8b\x08")],
    ["Zstandard", startsWith("\x28\xb5\x2f\xfd")],
    ["LZ4", startsWith("\x04\x22\x4d\x18")],
    ["xz", startsWith("\xfd7zXZ\0")],
    ["bzip2", ({ start }) => /^BZh[1-9]1AY&SY/.test(start)]
];

// Formats whose end is known: what begins as one, is no text and does not end so was cut off.
const closedFormats = [
    ["PAR1", "Parquet"],
    ["FEA1", "Feather version 1"]
] as const;

function isUtf8(bytes: Uint8Array): boolean {
    try {
        new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true }); // may end inside a character
        return true;
    } catch {
        return false;
    }
}

/** Has it no control characters, and is it UTF-8 or mostly ASCII, as text in the older encodings is? */
function isText(bytes: Uint8Array): boolean {
    const isControl = (byte: number): boolean => (byte < 0x20 && ![9, 10, 12, 13].includes(byte)) || byte === 0x7f;
    if (bytes.length === 0 || bytes.some(isControl)) return false;
    return isUtf8(bytes) || bytes.filter((byte) => byte < 0x80).length * 2 > bytes.length;
}

/** Do its first two lines fall into equally many columns? */
function hasColumns(text: string): boolean {
    const [first = "", second = ""] = text.split(/\r?\n/, 2);
    const counts = [",", ";", "\t", "|"].map((mark) => [first.split(mark).length, second.split(mark).length] as const);
    return counts.some(([one, other]) => one > 1 && one === other);
}

const textExtensions: readonly (readonly [RegExp, ForeignFormat])[] = [
    [/\.(csv|tsv|psv|tab)$/i, "CSV"],
    [/\.(json|jsonl|ndjson|geojson)$/i, "JSON"]
];

function textFormat(path: string, text: string): ForeignFormat {
    const content = text.replace(/^\xef\xbb\xbf/, "").trimStart();
    if (content.startsWith("version https://git-lfs.github.com/")) return "Git LFS pointer";
    if (/^<(!doctype html|html)/i.test(content)) return "HTML";
    const named = textExtensions.find(([extension]) => extension.test(path));
    if (named !== undefined) return named[1];
    if (/^[[{]/.test(content)) return "JSON";
    return hasColumns(content) ? "CSV" : "text";
}

/**
 * The error for a file that begins as no Arrow file does, or undefined where it is none of the known formats: then it
 * is a damaged Arrow file or nothing known. `start`: its first `startBytes`; `tail`: its last bytes.
 */
export function foreignFileError(path: string, start: Uint8Array, tail: Uint8Array): SpillwayError | undefined {
    const latin1 = (bytes: Uint8Array): string =>
        Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
    const first = start.subarray(0, startBytes);
    const bytes = { start: latin1(first), end: latin1(tail.subarray(-8)) };
    const refused = (format: ForeignFormat): SpillwayError => {
        const { what, wayOut } = conversion(format, path, isUtf8(first));
        const message = `'${path}' is ${what}, and only Arrow IPC files are read; ${wayOut}`;
        return new SpillwayError("UNSUPPORTED_TYPE", message, { path, format });
    };
    const found = binaryFormats.find(([, matches]) => matches(bytes));
    if (found !== undefined) return refused(found[0]);
    if (isText(first)) return refused(textFormat(path, bytes.start));
    const cut = closedFormats.find(([mark]) => bytes.start.startsWith(mark));
    if (cut === undefined) return undefined;
    const [mark, format] = cut;
    const { what } = conversion(format, path);
    return new SpillwayError(
        "FILE_TRUNCATED",
        `'${path}' begins as ${what} but does not end with "${mark}"; write or copy it again, and convert it then`,
        { path, format }
    );
}
