// SPDX-License-Identifier: Apache-2.0
// Files as the arrow room reads them, by an engine of its own.
import { tmpdir } from "node:os";
import type { FileReader } from "../../src/arrow/ipc-messages.js";
import { toSpillwayError } from "../../src/errors.js";
import type { EngineHandle } from "../../src/native/binding.js";
import { binding } from "../node/addon/support.js";

async function asOurs<T>(done: Promise<T>): Promise<T> {
    try {
        return await done;
    } catch (error) {
        throw toSpillwayError(error);
    }
}

/** `engine`: its budget counts what relations hold. No file is known to be unchanged. */
export function fileReaderOf(engine: EngineHandle): FileReader {
    return {
        ends: async (...wanted) => ({ ...(await asOurs(binding.readEnds(engine, ...wanted))), identity: null }),
        ranges: async (...wanted) => await asOurs(binding.readRanges(engine, ...wanted)),
        footer: async (path) => await asOurs(binding.readFooter(engine, path)),
        batches: async (spec) => await asOurs(binding.openFileBatches(engine, spec))
    };
}

export const fileReader = fileReaderOf(
    binding.createEngine({ memoryBytes: 2 ** 30, spillDirectory: tmpdir(), threads: 2 })
);
