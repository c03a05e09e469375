// SPDX-License-Identifier: Apache-2.0
import { isAscii } from "node:buffer";

/**
 * Characters that a terminal obeys or hides instead of showing: control characters (ESC and U+009B begin its commands),
 * separators of lines and paragraphs, marks that turn the direction of text, characters without width, tags and lone
 * surrogates. A joiner does something between letters of some scripts and in emoji; behind ASCII it only makes two
 * names look the same.
 */
const hidden = new RegExp(
    [
        "[\\p{Cc}\\p{Zl}\\p{Zp}\\p{Cs}\\u00ad\\u061c\\u180e\\u200b\\u200e\\u200f\\u202a-\\u202e\\u2060-\\u206f]",
        "[\\ufeff\\ufff9-\\ufffb\\u{e0000}-\\u{e007f}]",
        "(?<![^\\0-\\x7f\\u200c\\u200d])[\\u200c\\u200d]"
    ].join("|"),
    "gu"
);
// Most text has nothing but these, and is found to have so at 1 GB/s.
const suspect = /[^ -~]/;

function escaped(characters: string): string {
    const short = JSON.stringify(characters).slice(1, -1);
    if (short !== characters) return short;
    return Array.from({ length: characters.length }, (_, index) => {
        return `\\u${characters.charCodeAt(index).toString(16).padStart(4, "0")}`;
    }).join("");
}

/**
 * `text` as one line that a terminal shows and does not obey: what it would obey or hide, line feeds too, is written as
 * JSON escapes it (`\u001b`, `\n`). Names and values of files and command lines come from anybody.
 */
export function printable(text: string): string {
    return suspect.test(text) ? text.replace(hidden, escaped) : text;
}

// JSON itself escapes the control characters of ASCII in its texts, all but one.
const deleteCharacter = 0x7f;

/**
 * JSON, as text or as whole characters of UTF-8, that means the same and that a terminal does not obey. Outside of its
 * texts JSON has no such character but line feeds, which stay.
 */
export function printableJson(json: string | Uint8Array): string | Uint8Array {
    if (typeof json !== "string" && isAscii(json) && !json.includes(deleteCharacter)) return json;
    const text = typeof json === "string" ? json : Buffer.from(json.buffer, json.byteOffset, json.length).toString();
    return text.replace(hidden, (characters) => (characters === "\n" ? characters : escaped(characters)));
}
