// SPDX-License-Identifier: Apache-2.0
// Group-bys out of core that add up more numbers for a key than a partial row has: made in parts, whose groups are
// joined, of relations, of joins, and below other operators, against the CPU engine; how fast large ones are.
import { makeData, makeVector, Int64, Table } from "apache-arrow";
import { openRuntime } from "../../dist/index.js";
import { check, compareWith, knobs, options, reference } from "./checks.mjs";
import { randomNumbers, relation } from "./relations.mjs";

const keySets = [
    ["int64"],
    ["float64"],
    ["text"],
    ["dictionaries"],
    ["decimal"],
    ["binary of 6 bytes"],
    ["int32", "bool"],
    ["int64", "int64"],
    ["text", "float64", "dictionaries", "int64"],
    []
];
const names = Array.from({ length: 14 }, (_, i) => `v${i}`);
const each = (kind, of = names) => Object.fromEntries(of.map((name) => [`${kind}_${name}`, { [kind]: name }]));
const aggregateSets = {
    "means and sums": { ...each("mean"), ...each("sum") },
    "values of five kinds": { ...each("mean"), ...each("sum"), ...each("min"), ...each("max"), ...each("first") },
    "texts and decimals": {
        ...each("mean"),
        least: { min: "p_text_l" },
        most: { max: "p_text_l" },
        apart: { countDistinct: "p_text_l" },
        total: { sum: "p_decimal_l" },
        mean: { mean: "p_decimal_l" },
        low: { min: "p_decimal_l" },
        word: { first: "p_dictionary_l" },
        text: { first: "p_text_l" },
        n: { count: "*" }
    }
};

/** A stage for each part, and one that joins their groups. */
const ranInParts = ({ stages }) => {
    const other = stages.find(({ device }) => !Object.keys(device ?? {}).some((key) => key.startsWith("outOfCore")));
    if (other !== undefined) return `ran ${other.algorithm}`;
    return stages.length < 3 ? `ran in ${stages.length} stages` : null;
};

/** Numbers of more than 32 bits; some are NULL. */
function numbers(random, rows, nullPercent) {
    const data = BigInt64Array.from({ length: rows }, () => BigInt(random(2 ** 31)) * 2n ** 15n - 2n ** 45n);
    const nullBitmap = new Uint8Array(Math.ceil(rows / 8));
    let nullCount = 0;
    for (let row = 0; row < rows; ++row) {
        if (random(100) < nullPercent) ++nullCount;
        else nullBitmap[row >> 3] |= 1 << (row % 8);
    }
    return makeVector(makeData({ type: new Int64(), length: rows, data, nullBitmap, nullCount }));
}

/** Keys `k0`, ..., columns of every type, and fourteen of 64 bits. */
function wideRelation(seed, keys, rows, domains = [2, Math.ceil(rows / 10) + 1, rows + 1]) {
    const random = randomNumbers(seed);
    const domain = domains[random(domains.length)];
    const shape = { keys, side: 0, rows, domain, nullPercent: random(2) * 10, suffix: "_l" };
    const table = relation(random, shape);
    const columns = names.map((name, i) => [name, numbers(random, rows, i % 3 === 0 ? 10 : 0)]);
    const known = table.schema.fields.map(({ name }) => [name, table.getChild(name)]);
    return new Table(Object.fromEntries([...known, ...columns]));
}

const keyNames = (keys) => keys.map((_, i) => `k${i}`);

async function ofRelations(cpu, gpu, rows, tier) {
    let seed = 12_000;
    for (const keys of keySets) {
        const table = wideRelation(seed++, keys, rows);
        for (const [what, aggregates] of Object.entries(aggregateSets)) {
            const make = (runtime) => runtime.groupBy(runtime.fromTable(table), { keys: keyNames(keys), aggregates });
            await check(`group-by in parts on ${keys.join(", ")}: ${rows} rows, ${what}, ${tier}`, () =>
                compareWith(make(gpu), reference(make(cpu)), ranInParts)
            );
        }
    }
}

/** Of a join, joined with a relation, and grouped once more. */
async function inTrees(cpu, gpu, rows, tier) {
    const fewer = Math.ceil(rows / 3);
    const left = wideRelation(13_000, ["int64", "float64"], rows, [fewer]);
    const right = wideRelation(13_001, ["int64", "text"], fewer, [fewer]).select(["k0", "k1", "p_decimal_l"]);
    const { "means and sums": aggregates } = aggregateSets;
    const again = Object.fromEntries(Object.keys(aggregates).map((max) => [`max_${max}`, { max }]));
    const trees = {
        "of a join": (runtime) => {
            const joined = runtime.fromTable(left).join(runtime.fromTable(right), { on: "k0", suffix: "_2" });
            return joined.groupBy({ keys: ["k1"], aggregates });
        },
        "of a join, by a key of each side": (runtime) => {
            const joined = runtime.fromTable(left).join(runtime.fromTable(right), { on: "k0", suffix: "_2" });
            return joined.groupBy({ keys: ["k1_2", "k1"], aggregates });
        },
        "joined with a relation": (runtime) => {
            const groups = runtime.fromTable(left).groupBy({ keys: ["k0"], aggregates });
            return groups.join(runtime.fromTable(right), { on: "k0", type: "left" });
        },
        "grouped once more": (runtime) => {
            const groups = runtime.fromTable(left).groupBy({ keys: ["k0"], aggregates });
            return groups.groupBy({ keys: ["sum_v1"], aggregates: again });
        }
    };
    for (const [what, make] of Object.entries(trees)) {
        await check(`group-by in parts ${what}: ${rows} rows, ${tier}`, () =>
            compareWith(make(gpu), reference(make(cpu)), ranInParts)
        );
    }
}

export async function outOfCoreGroupParts(cpu) {
    const memory = { host: "4GiB", device: "1GiB" };
    const tiers = [
        { residentShare: 0.3, radixBits: 4 },
        { residentShare: 0, radixBits: 3, hostSpillBytes: 4096 }
    ];
    for (const more of options.small ? tiers.slice(0, 1) : tiers) {
        const chunkRows = options.small ? 64 : 4096;
        const gpu = await openRuntime({ device: "gpu", memory, ...knobs({ outOfCore: true, chunkRows, ...more }) });
        for (const rows of options.small ? [300] : [5000, 80_000]) {
            await ofRelations(cpu, gpu, rows, JSON.stringify(more));
            await inTrees(cpu, gpu, rows, JSON.stringify(more));
        }
        await gpu.close();
    }
}

/** Sixteen means of 64-bit numbers; prints what the plan and the stages take. */
export async function largeGroupParts() {
    const bits = options.small ? 13 : Number(options["out-of-core-bits"]) - 2;
    const rows = 2 ** bits;
    const device = options.small ? "256MiB" : `${2 ** (bits - 20 + 5)}MiB`;
    const memory = { host: `${Math.ceil(2 ** (bits - 20)) + (options.small ? 1 : 8)}GiB`, device };
    const columns = Array.from({ length: 16 }, (_, i) => `p${i}`);
    for (const share of [2 ** 10, 16, 1]) {
        const groups = Math.ceil(rows / share);
        const gpu = await openRuntime({ device: "gpu", memory, debug: { outOfCore: true } });
        const key = { name: "k", role: "foreign", domainRows: groups };
        const input = await gpu.generate({ rows, seed: 7, key, payload: columns.map((name) => ({ name })) }, "memory");
        const aggregates = { n: { count: "*" }, ...each("mean", columns), ...each("max", columns) };
        const query = gpu.groupBy(input, { keys: ["k"], aggregates });
        for (const run of ["first", "second"]) {
            await check(`group-by in parts: 2^${bits} rows among ${groups} keys in ${device}, ${run}`, async () => {
                let total = 0n;
                for await (const batch of query.batches()) for (const n of batch.getChild("n").toArray()) total += n;
                const { elapsedMs, stages } = query.report();
                const { plan } = await query.explain();
                const took = stages.map(({ device: ran }) => ran.elapsedMs.toFixed(0)).join(" + ");
                const planned = plan.stages.map(({ predictedMs }) => predictedMs.toFixed(0)).join(" + ");
                console.log(`    ${elapsedMs.toFixed(0)} ms: ${took}; predicted ${planned}`);
                return total === BigInt(rows) ? null : `groups of ${total} rows`;
            });
        }
        await gpu.close();
    }
}
