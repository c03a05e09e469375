// SPDX-License-Identifier: Apache-2.0
// Joins of relations larger than GPU memory with a Bloom filter and without: the same rows as the CPU engine's, fewer
// of them spilled; what the planner chooses, and how fast both are where one probe row in ten has a partner.
import { openRuntime } from "../../dist/index.js";
import { falsePositiveShare } from "../../dist/planner/streaming/join/filter.js";
import { check, compareWith, joinTypes, knobs, linkOf, options, reference } from "./checks.mjs";
import { randomNumbers, relation } from "./relations.mjs";

const sizes = { outOfCore: true, residentShare: 0.25, radixBits: 4, chunkRows: options.small ? 64 : 4096 };
const memory = { host: "2GiB", device: "512MiB" };
const keySets = [["int32"], ["int64"], ["int32", "bool"], ["decimal"]];

/** Every type of join, built on either side; few rows have a partner. */
async function types(cpu) {
    const rows = options.small ? [150, 250] : [20_000, 50_000];
    const runtimes = new Map();
    for (const filter of [true, false]) {
        runtimes.set(filter, await openRuntime({ device: "gpu", memory, ...knobs({ ...sizes, filter }) }));
    }
    let seed = 8100;
    for (const keys of options.small ? keySets.slice(-2) : keySets) {
        const random = randomNumbers(seed++);
        const tables = rows.map((count, side) =>
            relation(random, {
                ...{ keys, side, rows: count, domain: 10 * count, nullPercent: 10 },
                suffix: side === 0 ? "_l" : "_r"
            })
        );
        for (const type of keys[0] === "decimal" ? ["inner"] : joinTypes) {
            for (const buildSide of ["left", "right"]) {
                const kept = type === "full" || type === (buildSide === "left" ? "right" : "left");
                const lone = kept || (type === "anti" && buildSide === "right");
                const select = ["p_int64_l", ...(type === "semi" || type === "anti" ? [] : ["p_text_r", "p_int16_r"])];
                const make = (runtime) => {
                    const [left, right] = tables.map((table) => runtime.fromTable(table));
                    const on = keys.map((_, i) => `k${i}`);
                    return runtime.join({ left, right, on, type, select, hints: { buildSide } });
                };
                const expected = reference(make(cpu));
                const what = `${type} join out-of-core on ${keys.join(", ")}, built on the ${buildSide}`;
                for (const [filter, runtime] of runtimes) {
                    const query = make(runtime);
                    await check(`${what}, ${filter ? "with a filter" : "without"}`, () =>
                        compareWith(query, expected, () => {
                            const { droppedRows } = linkOf(query.report());
                            const probeRows = rows[buildSide === "left" ? 1 : 0];
                            if (!filter || lone) return droppedRows === 0 ? null : `dropped ${droppedRows} rows`;
                            // Nine in ten have no partner, or more.
                            return droppedRows > probeRows / 2 ? null : `dropped ${droppedRows} of ${probeRows} rows`;
                        })
                    );
                }
            }
        }
    }
    for (const runtime of runtimes.values()) await runtime.close();
}

/** Nine probe rows in ten have no partner: without a filter none is dropped, with one all but its false positives. */
function droppedAsDue(dropped, filterBytes, rows) {
    if (filterBytes === 0) return dropped === 0 ? null : `dropped ${dropped} rows without a filter`;
    const due = 0.9 * rows * (1 - falsePositiveShare(rows, filterBytes / 8));
    return Math.abs(dropped - due) < 0.01 * rows ? null : `dropped ${dropped} rows instead of about ${Math.round(due)}`;
}

/** One probe row in ten has a partner: what the planner makes of it, beside a filter and none by the knob. */
async function fewPartners() {
    const bits = options.small ? 15 : Math.min(28, Number(options["out-of-core-bits"]));
    const rows = 2 ** bits;
    // An eighth of the inputs, where a join can run in that.
    const deviceMebibytes = Math.max(64, rows / 2 ** 18);
    const share = bits < 24 ? { residentShare: 0.25 } : {};
    const limits = {
        host: `${Math.ceil(2 ** (bits - 24)) + (options.small ? 1 : 8)}GiB`,
        device: `${deviceMebibytes}MiB`
    };
    const counted = new Map();
    for (const filter of [undefined, true, false]) {
        const debug = { outOfCore: true, ...share, filter };
        const gpu = await openRuntime({ device: "gpu", memory: limits, ...knobs(debug) });
        const left = await gpu.generate({ rows, seed: 1, key: { name: "k" }, payload: [{ name: "p1" }] }, "memory");
        const key = { name: "k", role: "foreign", domainRows: rows, matchRatio: 0.1 };
        const right = await gpu.generate({ rows, seed: 2, key, payload: [{ name: "p2" }] }, "memory");
        const query = gpu.join({ left, right, on: "k", hints: { buildSide: "left" } });
        const name = filter === undefined ? "as planned" : filter ? "with a filter" : "without";
        // The first pins host memory, which the others find there.
        for (const run of options.small ? ["first"] : ["first", "second"]) {
            await check(`out-of-core: one row in ten of 2^${bits} has a partner, ${name}, ${run}`, async () => {
                counted.set(filter, await query.count());
                const { h2dBytes, d2hBytes, droppedRows, predicted: expected, spilledRows } = linkOf(query.report());
                const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;
                console.log(
                    `    ${query.report().elapsedMs.toFixed(1)} ms; ${megabytes(h2dBytes)} in ` +
                        `(${megabytes(expected.h2dBytes)}), ${megabytes(d2hBytes)} out ` +
                        `(${megabytes(expected.d2hBytes)}); ${droppedRows} probe rows dropped ` +
                        `(${expected.droppedRows}), ${spilledRows.probe} spilled`
                );
                if (new Set(counted.values()).size > 1) return `${[...counted.values()].join(", ")} rows`;
                const filterBytes = (await query.explain({ result: "count" })).plan.stages[0].filter.bytes;
                if (filterBytes > 0 !== (filter !== false)) return `a filter of ${filterBytes} bytes`;
                return droppedAsDue(droppedRows, filterBytes, rows);
            });
        }
        await gpu.close();
    }
}

export async function filteredJoins(cpu) {
    await types(cpu);
    await fewPartners();
}
