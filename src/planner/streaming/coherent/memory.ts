// SPDX-License-Identifier: Apache-2.0
import { formatCount } from "../../../model/sizes.js";
import { deviceConstants } from "../../../model/device-constants.js";
import type { CoherentJoinMemory, CoherentJoinOptions } from "../../../plan/device-memory-model.js";
import type { OutOfCoreSizes } from "../../../plan/out-of-core-stage.js";
import { NotOnDevice } from "../../device-support.js";
import { noSizes, type JoinMemory } from "../device-memory.js";

/** What counts for a GPU that is not known yet: a large one, with all partitioners that there are. */
const computeMajorUnknown = 9;
const multiprocessorsMost = 160;

/** Kernels number no more pages. */
const pagesMax = deviceConstants.farPagesMax;

export interface CoherentRequest {
    /** Chunks and result rows are those of joins by copy engines. */
    readonly memory: JoinMemory;
    readonly buildRows: number;
    readonly probeRows: number;
    readonly limitBytes: number;
    /** Shared memory of a block of the GPU. */
    readonly blockBytes: number;
    /** The GPU has so many; undefined: not known yet. */
    readonly multiprocessors?: number | undefined;
    /** Its compute capability begins with it; undefined: not known yet. */
    readonly computeMajor?: number | undefined;
}

type Partitioning = Pick<CoherentJoinOptions, "partitioner" | "partitionBlocks" | "secondRadixBits">;

/** What the GPU would choose by itself. */
const bestPasses: Partitioning = { partitioner: "auto", partitionBlocks: 0, secondRadixBits: null };

function requirePages(pages: number): void {
    if (pages <= pagesMax) return;
    throw new NotOnDevice(`it takes ${formatCount(pages)} pages, ${formatCount(pagesMax)} at most`);
}

/** What a join by kernels takes. Throws NotOnDevice where it takes more pages than kernels can have. */
export function coherentMemory(
    { memory: { model, shape }, buildRows, probeRows, limitBytes, blockBytes, ...gpu }: CoherentRequest,
    sizes: OutOfCoreSizes,
    passes: Partitioning
): CoherentJoinMemory {
    const rows = Math.max(buildRows, probeRows);
    const chunks = Math.max(1, Math.ceil(rows / sizes.chunkRows));
    // The model counts no more than 2^48 rows and 2^31 chunks: far more than there are pages for.
    requirePages(Math.max(chunks, Math.ceil(rows / Math.max(1, sizes.pageRows))));
    const told = model.coherentJoinMemory(
        { ...shape, sizes },
        {
            ...{ buildRows, probeRows, chunks, limitBytes, blockBytes },
            ...passes,
            computeMajor: gpu.computeMajor ?? computeMajorUnknown,
            multiprocessors: gpu.multiprocessors ?? multiprocessorsMost
        }
    );
    requirePages(told.pages);
    return told;
}

/** Bytes of a row of either side, whatever the sizes. */
export function coherentRowBytes(request: CoherentRequest): number {
    const none = { ...request, buildRows: 0, probeRows: 0 };
    return coherentMemory(none, { ...noSizes, chunkRows: 1 }, bestPasses).rowBytes;
}
