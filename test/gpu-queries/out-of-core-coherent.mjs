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
    { interleave: { device: 1, far: 3 } }
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

async function partitioners(cpu) {
    const { device, radixBits, chunkRows } = sizes;
    const joins = joinsOf(cpu);
    for (const more of options.small ? turns.slice(-4) : turns) {
        const turned = knobs({ radixBits, chunkRows, ...more });
        const gpu = await openRuntime({ device: "gpu", memory: { host: "4GiB", device }, ...turned });
        for (const { make, expected, what, spills } of joins) {
            const query = make(gpu);
            await check(`${name}, ${JSON.stringify(more)}: ${what}`, () =>
                compareWith(query, expected, () => misbehaved(query, spills))
            );
        }
        await gpu.close();
    }
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
    const told = () => {
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
            return counted === rows ? told() : `${counted} rows`;
        });
    }
    await check(`${name}: 2^${bits} x 2^${bits} rows of 16 bytes in ${device}, batches`, async () => {
        let found = 0;
        for await (const batch of query.batches()) found += batch.numRows;
        return found === rows ? told() : `${found} rows`;
    });
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
}
