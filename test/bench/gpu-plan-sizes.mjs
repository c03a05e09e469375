// SPDX-License-Identifier: Apache-2.0
// Sizes of joins and group-bys beyond GPU memory as plans of queries have them (src/planner/streaming), which is what
// spillway_gpu_bench is told. Needs dist/, the packages that it imports, and the addon, which knows what sizes take.
import { BuildFailure } from "../../scripts/steps/step.mjs";
import { droppedShare, filterKeys, filterWordBits } from "./gpu-filter-plan.mjs";

const hostBytes = 2 ** 40; // of which nothing is taken: chunks and spilled rows have what they need

/** A workload that no plan can be made for: its message says why. */
export class NoPlan extends Error {}

async function planner() {
    try {
        const modules = await Promise.all([
            import("../../dist/planner/streaming/join/sizes.js"),
            import("../../dist/planner/streaming/join/filter.js"),
            import("../../dist/planner/streaming/join/predict.js"),
            import("../../dist/planner/streaming/coherent/sizes.js"),
            import("../../dist/planner/streaming/group/sizes.js"),
            import("../../dist/planner/streaming/group/predict.js"),
            import("../../dist/planner/streaming/device-memory.js"),
            import("../../dist/native/load.js"),
            import("../../dist/planner/device-support.js"),
            import("../../dist/machine/profile.js"),
            import("../../dist/model/sizes.js")
        ]);
        const all = Object.assign({}, ...modules);
        return { ...all, memory: new all.DeviceMemory(await all.loadBinding()) };
    } catch (error) {
        if (error.code !== "ERR_MODULE_NOT_FOUND") throw error;
        throw new BuildFailure(`Sizes of plans take the compiled planner (${error.message}): npm run build.`, 2);
    }
}

const numberOf = (value) => (value === undefined ? undefined : Number(value));

/** Sizes that are set by hand and that the planner can be told, so that it fits the others to them. */
function knobsOf(given) {
    const knobs = { radixBits: numberOf(given["radix-bits"]), chunkRows: numberOf(given["chunk-rows"]) };
    return Object.fromEntries(Object.entries(knobs).filter(([, value]) => value !== undefined));
}

/** Results of sums need no memory beside the counted rows', as in queries that count. */
function shapeOf({ key_bytes: keyBytes, payload_bytes, result }) {
    const columnsOf = (side) => payload_bytes[side].map((_, column) => ({ side, column }));
    const rows = result === "rows";
    return {
        ...{ keyBytes, keyColumns: 0, buildWidths: payload_bytes.build, probeWidths: payload_bytes.probe },
        ...{ emit: "pairs", anti: false, keepUnmatchedBuild: false, keepUnmatchedProbe: false },
        result: rows ? "rows" : "count",
        outputs: rows ? [{ side: "key", column: 0 }, ...columnsOf("build"), ...columnsOf("probe")] : []
    };
}

/** Bits a key, and words by hand, that a run is to have of a filter. Throws NoPlan where its algorithm has none. */
function wantedFilter({ workload, algorithm }, given) {
    const bits = Number(given["filter-bits"] ?? workload.filter_bits ?? 0);
    const words = numberOf(given["filter-words"]);
    if (algorithm === "staged" || (words ?? bits) === 0) return { bits, words };
    throw new NoPlan(`${algorithm} has no Bloom filter, as staged alone has: leave out filter bits and words`);
}

/** Words for so many bits a key, as plans have them: a power of two that memory affords. */
function filterOf({ filterWords, noFilter, powerOfTwoAtLeast }, run, given) {
    const { workload } = run;
    const wanted = wantedFilter(run, given);
    if ((wanted.words ?? wanted.bits) === 0) return noFilter;
    const chosen = powerOfTwoAtLeast((filterKeys(workload) * wanted.bits) / filterWordBits);
    const words = wanted.words ?? filterWords(chosen, workload.memory_limit_bytes);
    return { words, droppedShare: droppedShare({ workload, sizes: { filter_words: words } }) };
}

/** What all planners are asked about a join. */
function joinRequest(memory, workload, given, profile) {
    return {
        memory: memory.ofJoin(shapeOf(workload)),
        ...{ buildRows: workload.build_rows, probeRows: workload.probe_rows },
        ...{ limitBytes: workload.memory_limit_bytes, hostBytes, sparing: false },
        ...{ blockBytes: profile.deviceBlockBytes, debug: knobsOf(given) }
    };
}

function stagedSizes(modules, run, given, profile) {
    const { memory, chooseSizes, packedRowBytes, usualRadixBits } = modules;
    const { workload } = run;
    const request = joinRequest(memory, workload, given, profile);
    // A query knows the range of its keys, which are dense here, and nothing of its other columns.
    const layout = { join: request.memory.shape, keys: "packed", build: { columns: [] }, probe: { columns: [] } };
    const statistics = { min: 0n, max: BigInt(Math.max(1, workload.build_rows) - 1) };
    const known = { memory: request.memory, statistics };
    const packed = (side) => packedRowBytes(layout, side, usualRadixBits, known);
    const sizesWith = (debug) =>
        chooseSizes({
            ...request,
            packedBytes: { build: packed("build"), probe: packed("probe") },
            filter: filterOf(modules, run, given),
            linkBytesPerMs: profile.deviceCopyInBytesPerMs,
            debug
        });
    const isFast = workload.inputs === "peer" && request.debug.chunkRows === undefined;
    return isFast ? fastLinkSizes(modules, request, sizesWith) : sizesWith(request.debug);
}

/**
 * Chunks from another GPU, which the planner knows nothing of: of 2^21 rows one comes in 90 us, and what is launched
 * and waited for with each takes as long. H200, 2^29 x 2^29 rows of 16 bytes from another one, 2 GiB: chunks of 2^21
 * rows 4.45 G tuples/s, of 2^22 5.87, of 2^23 6.37. So there are few of them, as long as half of the limit is left for
 * pages.
 */
const fastLink = { chunks: 64, rowsMin: 2 ** 20, rowsMax: 2 ** 23, pageShareMin: 1 / 2 };

function fastLinkSizes(modules, { memory, buildRows, probeRows, limitBytes, debug }, sizesWith) {
    const { attempt, clamp, powerOfTwoAtMost, NotOnDevice } = modules;
    const rowBytes = memory.rowBytes.build;
    const { chunks, rowsMin, rowsMax, pageShareMin } = fastLink;
    let chunkRows = clamp(powerOfTwoAtMost((buildRows + probeRows) / chunks), rowsMin, rowsMax);
    for (;;) {
        const sizes = attempt(() => sizesWith({ ...debug, chunkRows }));
        const isNone = sizes instanceof NotOnDevice;
        if (isNone && chunkRows <= rowsMin) throw sizes;
        const pageRows = isNone ? 0 : sizes.pages * sizes.pageRows;
        const isEnough = pageRows >= buildRows || pageRows * rowBytes >= limitBytes * pageShareMin;
        if (isEnough || chunkRows <= rowsMin) return sizes;
        chunkRows /= 2;
    }
}

/**
 * Pages in another GPU's memory are as large as the join itself has them: over NVLink 4 a first pass of 2^29 rows of 16
 * bytes took 25.2 ms with pages of 64 KiB, which plans have, and 24.2 with 512 KiB.
 */
function coherentSizes({ memory, chooseCoherentSizes }, { workload }, given, profile) {
    const request = joinRequest(memory, workload, given, profile);
    // Without a second pass partitions are as large as where results are rows.
    const isIndexed = Number(given["second-pass"] ?? 1) === 0;
    const indexed = { memory: memory.ofJoin({ ...request.memory.shape, result: "rows" }) };
    const { sizes } = chooseCoherentSizes({ ...request, ...(isIndexed ? indexed : {}) });
    const isOnPeer = workload.inputs === "peer" && (given.spill ?? workload.spill ?? "peer") === "peer";
    return isOnPeer ? { ...sizes, pageRows: 0 } : sizes;
}

/** Options of spillway_gpu_bench that both operators have. Pages of another size have as many bytes in all. */
function optionsOf(sizes, given) {
    const pageRows = Number(given["page-rows"] ?? sizes.pageRows);
    return {
        "radix-bits": sizes.radixBits,
        "chunk-rows": sizes.chunkRows,
        "chunk-slots": sizes.chunkSlots,
        "page-rows": sizes.pageRows,
        pages: pageRows === 0 ? sizes.pages : Math.floor((sizes.pages * sizes.pageRows) / pageRows),
        "result-rows": sizes.resultRows,
        "result-slots": sizes.resultSlots,
        "spill-block-bytes": sizes.spillBlockBytes,
        "spill-bytes": sizes.spillBytes
    };
}

async function planned(choose) {
    const modules = await planner();
    try {
        return choose(modules, modules.loadProfile());
    } catch (error) {
        if (error instanceof modules.NotOnDevice) throw new NoPlan(error.reason);
        throw error;
    }
}

/**
 * Options of spillway_gpu_bench that say all sizes of the join's plan. `given`: options that are set by hand, of which
 * the planner is told radix bits and rows of a chunk; others take the places of its own, so that the sum of what they
 * need is up to who sets them.
 */
export async function joinSizes(run, given = {}) {
    wantedFilter(run, given);
    const choose = run.algorithm === "triton" ? coherentSizes : stagedSizes;
    const sizes = await planned((modules, profile) => choose(modules, run, given, profile));
    return {
        ...optionsOf(sizes, given),
        "resident-partitions": sizes.residentPartitions,
        "filter-words": sizes.filterWords
    };
}

/** The same for a group-by, whose groups are as many as the workload says. */
export async function groupSizes({ workload }, given = {}) {
    const { key_bytes: keyBytes, payload_bytes, rows, groups, aggregate, memory_limit_bytes: limitBytes } = workload;
    const kind = aggregate === "count" ? "countRows" : aggregate;
    const shape = {
        keyBytes,
        widths: [payload_bytes],
        aggregates: [{ kind, number: "unsigned", column: 0, decidedBy: null }],
        nullGroup: false
    };
    const sizes = await planned(({ chooseGroupSizes, packedPartialBytes, memory }) =>
        chooseGroupSizes({
            ...{ memory: memory.ofGroupBy(shape), rows, groups },
            packedBytes: packedPartialBytes({ group: shape }, undefined),
            ...{ limitBytes, hostBytes, sparing: false, debug: knobsOf(given) }
        })
    );
    return { ...optionsOf(sizes, given), "merge-rows": sizes.mergeRows };
}
