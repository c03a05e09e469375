// SPDX-License-Identifier: Apache-2.0
import { readSync, rmSync, writeSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { Turns } from "../interruption.js";
import type { Settler } from "./settler.js";

const pieceBytes = 1024 * 1024;

/** Bytes per ms of one thread that writes a file and reads it back from the page cache; the fastest pass. */
export async function fileRates(
    folder: string,
    bytes: number,
    settler: Settler,
    signal: AbortSignal
): Promise<{ write: number; read: number }> {
    const path = join(folder, "rate");
    const piece = Buffer.alloc(pieceBytes, 7);
    const pieces = Math.max(1, Math.ceil(bytes / pieceBytes));
    const turns = new Turns();
    const file = await open(path, "w+");
    /** Only the calls count, not what the event loop does between them. */
    const passMs = async (call: (at: number) => void): Promise<number> => {
        let elapsedMs = 0;
        for (let i = 0; i < pieces; i++) {
            const start = performance.now();
            call(i * pieceBytes);
            elapsedMs += performance.now() - start;
            await turns.next(signal);
        }
        return elapsedMs;
    };
    const fastest = async (call: (at: number) => void): Promise<number> => {
        const ms = await settler.least(
            async () => await passMs(call),
            (pass) => pass
        );
        return (pieces * pieceBytes) / Math.max(1e-3, ms);
    };
    try {
        const write = await fastest((at) => writeSync(file.fd, piece, 0, pieceBytes, at));
        // What is still on its way to the disk takes memory bandwidth from the reads.
        await file.sync();
        const read = await fastest((at) => readSync(file.fd, piece, 0, pieceBytes, at));
        return { write, read };
    } finally {
        await file.close();
        rmSync(path, { force: true });
    }
}
