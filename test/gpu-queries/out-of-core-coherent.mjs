// SPDX-License-Identifier: Apache-2.0
// Joins of relations larger than GPU memory by kernels that read and write host memory themselves, with each of their
// partitioners: the same rows as the CPU engine's, on pages of GPU and host memory; aborted; how fast large ones are.
import { openRuntime } from "../../dist/index.js";
import { check, compareWith, knobs, linkOf, measure, options, reference } from "./checks.mjs";
import { keyed, randomNumbers, relation } from "./relations.mjs";
import { compareHashes, hashOfRows } from "./row-hash.mjs";

const name = "out-of-core coherent";
const algorithm = "triton";

/**
 * Each chunk may leave a page of each partition partly empty, and pages for that are taken before: small chunks make
 * few rows take more pages than the limit has room for, of which every third or so is in host memory then.
 */
const sizes = options.small
    ? { rows: [3000, 2500], device: "96MiB", radixBits: 4, chunkRows: 64 }
    : { rows: [60_000, 40_000], device: "256MiB", radixBits: 5, chunkRows: 512 };
const turns = [
    ...["standard", "linear", "shared", "hierarchical", "bulk"].map((partitioner) => ({ partitioner })),
    { partitionBlocks: 5, gatherBlocks: 3 },
    { secondRadixBits: 3 },
    { coPartitionJoin: "bucket-chaining" },
    { interleave: { device: 1, far: 3 } },
    { pages: "mapped" },
    { pages: "mapped", interleave: { device: 1, far: 3 } }
];
/** Keys, whether NULLs equal each other, columns beside them. */
const cases = [
    [["int32"], false, ["p_int32_l", "p_int32_r"]],
    [["int64"], false, ["p_int64_l", "p_int64_r"]],
    [["float64"], false, []],
    [["int32"], true, ["p_int64_l"]],
    [["int32", "bool"], false, ["p_decimal_l", "p_text_r"]],
    [["decimal"], false, ["p_int8_l", "p_text_l", "p_dictionary_r"]],
    [["int64", "int64"], false, ["p_int64_r"]]
];

function tablesOf(seed, keys, [left, right], nullPercent) {
    const random = randomNumbers(seed);
    const domain = Math.max(2, Math.ceil(Math.max(left, right) / 2));
    return [left, right].map((rows, side) =>
        relation(random, { keys, side, rows, domain, nullPercent, suffix: side === 0 ? "_l" : "_r" })
    );
}

/** What is wrong with how a query ran; `spills`: of so many rows that GPU memory cannot have the pages of all. */
function misbehaved(query, spills) {
    const told = linkOf(query.report());
    if (told?.path !== "coherent") return `ran ${query.report().stages[0].algorithm}`;
    const spilled = told.spilledRows.build + told.spilledRows.probe;
    if (spills && spilled === 0) return "all pages were in GPU memory";
    const { spilledBytes, d2hBytes } = told;
    return d2hBytes >= spilledBytes.build + spilledBytes.probe ? null : "wrote more to host memory than it says";
}

/** Joins with what the CPU engine makes of them, which is made once for all partitioners. */
function joinsOf(cpu) {
    const { rows } = sizes;
    return (options.small ? cases.slice(-3) : cases).flatMap(([keys, nullEquality, columns], at) => {
        // NULLs that equal each other make pairs of all of them.
        const nullPercent = nullEquality ? 0.1 : 10 * (at % 2);
        return (at === 0 ? [rows, [0, 100], [1, 1]] : [rows]).map((count) => {
            const tables = tablesOf(8500 + at, keys, count, nullPercent);
            const on = keys.map((_, i) => `k${i}`);
            const make = (runtime) => {
                const [left, right] = tables.map((table) => runtime.fromTable(table));
                const named = runtime === cpu ? {} : { algorithm };
                return runtime.join({ left, right, on, select: [...on, ...columns], nullEquality, ...named });
            };
            const what = `on ${keys.join(", ")} with ${columns.length} columns, ${count.join(" x ")}`;
            return { make, expected: reference(make(cpu)), what, spills: count === rows && !options.small };
        });
    });
}

/** What it can do; a machine whose memory cannot be mapped says so, and runs nothing else instead. */
async function unlessMapped({ pages }, run) {
    try {
        return await run();
    } catch (error) {
        if (pages !== "mapped" || error.code !== "UNSUPPORTED_TYPE") throw error;
        console.log(`    ${error.message}`);
        return null;
    }
}

async function partitioners(cpu) {
    const { device, radixBits, chunkRows } = sizes;
    const joins = joinsOf(cpu);
    for (const more of options.small ? turns.slice(-4) : turns) {
        const turned = knobs({ radixBits, chunkRows, ...more });
        const gpu = await openRuntime({ device: "gpu", memory: { host: "4GiB", device }, ...turned });
        for (const { make, expected, what, spills } of joins) {
            const query = make(gpu);
            await check(`${name}, ${JSON.stringify(more)}: ${what}`, () =>
                unlessMapped(more, () => compareWith(query, expected, () => misbehaved(query, spills)))
            );
        }
        await gpu.close();
    }
}

/** Group-bys of a join by kernels, and of a join of one: its rows go on in GPU memory. */
async function operatorsAbove(cpu) {
    const rows = options.small ? [600, 900] : [60_000, 90_000];
    const random = randomNumbers(8700);
    const tables = rows.map((count, side) => {
        const suffix = side === 0 ? "_l" : "_r";
        return relation(random, { keys: ["int64"], side, rows: count, domain: rows[0], nullPercent: 0, suffix });
    });
    const aggregates = { n: { count: "*" }, l: { sum: "p_int64_l" }, r: { sum: "p_int64_r" } };
    const queries = {
        "groups by the key": (joined) => joined.groupBy({ keys: ["k0"], aggregates }),
        sums: (joined) => joined.groupBy({ keys: [], aggregates }),
        "groups of a join with a third relation": (joined, third) =>
            joined
                .join(third, { on: "k0", select: ["k0", "p_int64_l", "p_int64_r"] })
                .groupBy({ keys: ["k0"], aggregates }),
        // Rows have the numbers of those of both sides, from which the columns are gathered.
        "rows of a join with a third relation": (joined, third) =>
            joined.join(third, { on: "k0", select: ["k0", "p_int64_l", "p_int64_r", "p_int32_l", "p_text_r"] })
    };
    const { device, radixBits, chunkRows } = sizes;
    const turned = knobs({ radixBits, chunkRows: 16 * chunkRows });
    const memory = { host: "4GiB", device: options.small ? "256MiB" : device };
    const gpu = await openRuntime({ device: "gpu", memory, ...turned });
    const ranAsTree = ({ stages }) =>
        stages[0]?.device?.outOfCoreTree === undefined ? `ran ${stages[0]?.algorithm}` : null;
    for (const [what, make] of Object.entries(queries)) {
        for (const type of ["inner", "left", "full"]) {
            const queryOn = (runtime) => {
                const named = runtime === cpu ? {} : { algorithm };
                const [left, right] = tables.map((table) => runtime.fromTable(table));
                const gathers = what.startsWith("rows");
                const select = ["k0", "p_int64_l", "p_int64_r", ...(gathers ? ["p_int32_l", "p_text_r"] : [])];
                return make(runtime.join({ left, right, on: "k0", type, select, ...named }), left);
            };
            await check(`${name}: ${what}, ${type} join`, () =>
                compareWith(queryOn(gpu), reference(queryOn(cpu)), ranAsTree)
            );
        }
    }
    await gpu.close();
}

/** Counts of every type with keys of two words, which an index compares. */
async function countsOfWideKeys(cpu) {
    const { rows, device, radixBits, chunkRows } = sizes;
    const keys = ["int64", "int64"];
    const tables = tablesOf(8600, keys, rows, 5);
    const gpu = await openRuntime({
        device: "gpu",
        memory: { host: "4GiB", device },
        ...knobs({ radixBits, chunkRows })
    });
    for (const type of ["inner", "left", "right", "full", "semi", "anti"]) {
        const queryOn = (runtime) => {
            const [left, right] = tables.map((table) => runtime.fromTable(table));
            const on = keys.map((_, i) => `k${i}`);
            return runtime.join({ left, right, on, type, ...(runtime === cpu ? {} : { algorithm }) });
        };
        await check(`${name}: two int64 keys, ${type}, counted`, async () => {
            const query = queryOn(gpu);
            const [counted, expected] = [await query.count(), await queryOn(cpu).count()];
            if (counted !== expected) return `${counted} rows, not ${expected}`;
            const told = linkOf(query.report());
            return told?.path === "coherent" ? null : `ran ${query.report().stages[0].algorithm}`;
        });
    }
    await gpu.close();
}

/** The same relations, in which every row has a partner, with experiments, by other types, and with a count above. */
async function turnedJoins(gpu, { left, right, rows, what }, told) {
    const others = [
        { experiment: { pages: "mapped" } },
        ...["bucket-chaining", "perfect"].map((coPartitionJoin) => ({ experiment: { coPartitionJoin } })),
        // Regions of the second pass that a block cannot hold.
        { experiment: { secondRadixBits: options.small ? 1 : 3 } },
        ...["left", "full", "semi", "anti"].map((type) => ({ type }))
    ];
    for (const more of others) {
        await check(`${name}: ${what}, counted, ${JSON.stringify(more)}`, () =>
            unlessMapped(more.experiment ?? {}, async () => {
                const other = gpu.join({ left, right, on: "k", algorithm, ...more });
                const counted = await other.count();
                return counted === (more.type === "anti" ? 0 : rows) ? told(other) : `${counted} rows`;
            })
        );
    }
    await check(`${name}: ${what}, a count above the join`, async () => {
        const joined = gpu.join({ left, right, on: "k", algorithm });
        const above = joined.groupBy({ keys: [], aggregates: { n: { count: "*" } } });
        const n = Number((await above.toTable()).getChild("n")?.get(0));
        const { predictedMs, actualMs, device: ran } = above.report().stages[0];
        console.log(`    ${actualMs.toFixed(0)} ms, predicted ${predictedMs.toFixed(0)}`);
        measure({ actualMs, predictedMs });
        return n === rows && ran?.outOfCoreTree !== undefined ? null : `${n} rows`;
    });
}

/** Relations of which a limit holds few pages: rates, and what the link carried beside what was planned. */
export async function largeCoherentJoins(cpu) {
    const bits = options.small ? 15 : Number(options["out-of-core-bits"]);
    const rows = 2 ** bits;
    const device = `${options.small ? 128 : 2 ** (bits - 17)}MiB`;
    const host = `${Math.ceil(2 ** (bits - 24)) + (options.small ? 1 : 8)}GiB`;
    const gpu = await openRuntime({ device: "gpu", memory: { host, device } });
    const left = await gpu.generate(keyed(rows, 1), "memory");
    const right = await gpu.generate(keyed(rows, 2), "memory");
    const query = gpu.join({ left, right, on: "k", algorithm });
    const told = (query) => {
        const { h2dBytes, d2hBytes, buildMs, probeMs, spilledMs, spilledRows, predicted } = linkOf(query.report());
        const gigabytes = (bytes) => `${(bytes / 1e9).toFixed(2)} GB`;
        const phases = (of) => [of.buildMs, of.probeMs, of.spilledMs].map((ms) => ms.toFixed(0)).join(" + ");
        const spilled = (spilledRows.build + spilledRows.probe) / (2 * rows);
        const rate = (2 * rows) / query.report().stages[0].actualMs / 1e6;
        console.log(
            `    ${rate.toFixed(2)} G tuples/s; GPU ${phases({ buildMs, probeMs, spilledMs })} ms, predicted ` +
                `${phases(predicted)}; ${gigabytes(h2dBytes)} in (${gigabytes(predicted.h2dBytes)}), ` +
                `${gigabytes(d2hBytes)} out (${gigabytes(predicted.d2hBytes)}); ` +
                `${(100 * spilled).toFixed(0)} % of the rows in host memory`
        );
        measure({ gTuplesPerSecond: rate, link: linkOf(query.report()) });
        const limit = Number.parseInt(device, 10) * 2 ** 20;
        const taken = query.report().devicePeakBytes;
        return taken <= limit ? misbehaved(query, !options.small) : `took ${taken} bytes of GPU memory`;
    };
    for (const run of ["first", "second"]) {
        await check(`${name}: 2^${bits} x 2^${bits} rows of 16 bytes in ${device}, counted, ${run}`, async () => {
            const counted = await query.count();
            return counted === rows ? told(query) : `${counted} rows`;
        });
    }
    await check(`${name}: 2^${bits} x 2^${bits} rows of 16 bytes in ${device}, batches`, async () => {
        let found = 0;
        for await (const batch of query.batches()) found += batch.numRows;
        return found === rows ? told(query) : `${found} rows`;
    });
    await turnedJoins(gpu, { left, right, rows, what: `2^${bits} x 2^${bits} rows in ${device}` }, told);
    // The CPU engine and this process take too long for more rows.
    if (bits <= 26) {
        await check(`${name}: 2^${bits} x 2^${bits} rows of 16 bytes in ${device}, hash of all rows`, async () => {
            const [first, second] = await Promise.all([1, 2].map((seed) => cpu.generate(keyed(rows, seed), "memory")));
            const expected = () => hashOfRows(cpu.join({ left: first, right: second, on: "k" }));
            return await compareHashes(query, expected, () => misbehaved(query, !options.small));
        });
    }
    for (const ms of [0, 5, 40]) {
        await check(`${name}: aborted after ${ms} ms, then run`, async () => {
            const controller = new AbortController();
            setTimeout(() => controller.abort(), ms);
            const outcome = await query.count({ signal: controller.signal }).catch((error) => error.name);
            if (outcome !== "AbortError" && outcome !== rows) return String(outcome);
            const counted = await query.count();
            return counted === rows ? null : `${counted} rows`;
        });
    }
    await gpu.close();
}

export async function coherentJoins(cpu) {
    await partitioners(cpu);
    await operatorsAbove(cpu);
    await countsOfWideKeys(cpu);
}
