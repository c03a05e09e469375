// SPDX-License-Identifier: Apache-2.0
// Files read without the engine, for tests of the arrow room.
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import type { FileReader } from "../../src/arrow/ipc-messages.js";

function withFile<T>(path: string, use: (read: (offset: number, bytes: number) => Buffer, fileBytes: number) => T): T {
    const file = openSync(path, "r");
    try {
        const read = (offset: number, bytes: number) => {
            const piece = Buffer.alloc(bytes);
            if (readSync(file, piece, 0, bytes, offset) !== bytes) throw new Error("a short read");
            return piece;
        };
        return use(read, fstatSync(file).size);
    } finally {
        closeSync(file);
    }
}

export const fileReader: FileReader = {
    ends: (path, headBytes, tailBytes) =>
        Promise.resolve(
            withFile(path, (read, fileBytes) => ({
                fileBytes,
                identity: null,
                stamp: "",
                head: read(0, Math.min(fileBytes, headBytes)),
                tail: read(Math.max(0, fileBytes - tailBytes), Math.min(fileBytes, tailBytes))
            }))
        ),
    ranges: (path, offsets, lengths) =>
        Promise.resolve(
            withFile(path, (read) => Buffer.concat(Array.from(offsets, (offset, i) => read(offset, lengths[i] ?? 0))))
        )
};
