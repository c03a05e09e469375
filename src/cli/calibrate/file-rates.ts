// SPDX-License-Identifier: Apache-2.0
import { closeSync, fsyncSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";

const pieceBytes = 1024 * 1024;

/** Bytes per ms of one thread that writes a file and reads it back from the page cache; the fastest of some passes. */
export function fileRates(folder: string, bytes: number): { write: number; read: number } {
    const path = join(folder, "rate");
    const piece = Buffer.alloc(pieceBytes, 7);
    const pieces = Math.max(1, Math.ceil(bytes / pieceBytes));
    const file = openSync(path, "w+");
    try {
        const pass = (step: (at: number) => void): number => {
            const start = performance.now();
            for (let i = 0; i < pieces; i++) step(i * pieceBytes);
            return (pieces * pieceBytes) / Math.max(1e-3, performance.now() - start);
        };
        let [write, read] = [0, 0];
        for (let i = 0; i < 3; i++)
            write = Math.max(
                write,
                pass((at) => writeSync(file, piece, 0, pieceBytes, at))
            );
        // What is still on its way to the disk takes memory bandwidth from the reads.
        fsyncSync(file);
        for (let i = 0; i < 3; i++)
            read = Math.max(
                read,
                pass((at) => readSync(file, piece, 0, pieceBytes, at))
            );
        return { write, read };
    } finally {
        closeSync(file);
        rmSync(path, { force: true });
    }
}
