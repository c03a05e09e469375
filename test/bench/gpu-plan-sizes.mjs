// SPDX-License-Identifier: Apache-2.0
// Sizes of a join beyond GPU memory as plans of queries have them (src/planner/streaming/join), for runs of the
// benchmark with the option `sizes: plan`. Without it spillway_gpu_bench chooses, which takes nothing but the program;
// both weigh chunks, copies and pages alike, but for partitions in parts. Needs dist/ and the packages that it imports.
import { BuildFailure } from "../../scripts/steps/step.mjs";

const hostBytes = 2 ** 40; // of which nothing is taken: chunks and spilled rows have what they need

async function planner() {
    try {
        const modules = await Promise.all([
            import("../../dist/planner/streaming/join/sizes.js"),
            import("../../dist/planner/streaming/join/predict.js"),
            import("../../dist/machine/profile.js")
        ]);
        return Object.assign({}, ...modules);
    } catch (error) {
        if (error.code !== "ERR_MODULE_NOT_FOUND") throw error;
        throw new BuildFailure(`Sizes of plans take the compiled planner (${error.message}): npm run build.`, 2);
    }
}

/** Results of sums need no memory beside the counted rows', as in queries that count. */
function shapeOf({ key_bytes: keyBytes, payload_bytes, result }) {
    const columnsOf = (side) => payload_bytes[side].map((_, column) => ({ side, column }));
    const rows = result === "rows";
    return {
        ...{ keyBytes, buildWidths: payload_bytes.build, probeWidths: payload_bytes.probe },
        ...{ emit: "pairs", anti: false, keepUnmatchedBuild: false, keepUnmatchedProbe: false },
        result: rows ? "rows" : "count",
        outputs: rows ? [{ side: "key", column: 0 }, ...columnsOf("build"), ...columnsOf("probe")] : []
    };
}

/** Options of spillway_gpu_bench that say all sizes of the workload's plan. */
export async function planSizes(workload) {
    const { chooseSizes, loadProfile, packedRowBytes, usualRadixBits } = await planner();
    const profile = loadProfile();
    const shape = shapeOf(workload);
    // A query knows the range of its keys, which are dense here, and nothing of its other columns.
    const layout = { join: shape, keys: "packed", build: { columns: [] }, probe: { columns: [] } };
    const keys = { min: 0n, max: BigInt(Math.max(1, workload.build_rows) - 1) };
    const packed = (side) => packedRowBytes(layout, side, usualRadixBits, keys);
    const sizes = chooseSizes({
        shape,
        ...{ buildRows: workload.build_rows, probeRows: workload.probe_rows },
        packedBytes: { build: packed("build"), probe: packed("probe") },
        ...{ limitBytes: workload.memory_limit_bytes, hostBytes, sparing: false },
        filter: { words: 0, droppedShare: 0 },
        ...{ linkBytesPerMs: profile.deviceCopyInBytesPerMs, blockBytes: profile.deviceBlockBytes, debug: {} }
    });
    return {
        "radix-bits": sizes.radixBits,
        "chunk-rows": sizes.chunkRows,
        "chunk-slots": sizes.chunkSlots,
        "page-rows": sizes.pageRows,
        pages: sizes.pages,
        "resident-partitions": sizes.residentPartitions
    };
}
