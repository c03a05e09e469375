// SPDX-License-Identifier: Apache-2.0
import { closeSync, constants, lstatSync, openSync, readlinkSync, statSync, writeFileSync, type Stats } from "node:fs";
import { dirname, resolve } from "node:path";
import { SpillwayError } from "../index.js";

const linksMax = 40; // as the kernel follows
const forEverybody = 0o1002; // sticky, and anybody may write to it

/** As Linux decides by fs.protected_symlinks, and as the engine does for its own output files. */
function isForeign(link: Stats, folder: Stats): boolean {
    if (link.uid === process.geteuid?.() || (folder.mode & forEverybody) !== forEverybody) return false;
    return folder.uid !== link.uid;
}

/** The file behind symbolic links, unless one of them is another user's in a folder for everybody. */
function resolveLinks(path: string): string {
    let last = resolve(path);
    for (let links = 0; links < linksMax; links++) {
        const found = lstatSync(last, { throwIfNoEntry: false });
        if (found === undefined || !found.isSymbolicLink()) return last;
        if (isForeign(found, statSync(dirname(last)))) {
            throw new SpillwayError(
                "OUTPUT_FAILED",
                `Cannot write "${path}": "${last}" is a symbolic link of another user in a folder that everybody may ` +
                    "write to; name the file that it leads to, or another",
                { path, link: last }
            );
        }
        last = resolve(dirname(last), readlinkSync(last));
    }
    return last;
}

/** Writes a small text file, new or over an old one. */
export function writeOutput(path: string, text: string): void {
    const { O_WRONLY, O_CREAT, O_TRUNC, O_NOFOLLOW } = constants;
    // A link that takes the name's place meanwhile is not followed either.
    const file = openSync(resolveLinks(path), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0o666);
    try {
        writeFileSync(file, text);
    } finally {
        closeSync(file);
    }
}
