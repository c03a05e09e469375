// SPDX-License-Identifier: Apache-2.0
// Ranges of a file read without the engine, for tests of the arrow room.
import { closeSync, openSync, readSync } from "node:fs";

export function readRanges(path: string, offsets: Float64Array, lengths: Float64Array): Promise<Uint8Array> {
    const file = openSync(path, "r");
    try {
        const pieces = Array.from(offsets, (offset, i) => {
            const piece = Buffer.alloc(lengths[i] ?? 0);
            if (readSync(file, piece, 0, piece.length, offset) !== piece.length) throw new Error("a short read");
            return piece;
        });
        return Promise.resolve(Buffer.concat(pieces));
    } finally {
        closeSync(file);
    }
}
