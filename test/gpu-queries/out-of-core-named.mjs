// SPDX-License-Identifier: Apache-2.0
// Joins that need not fit GPU memory, each by its name: rows and counts against the CPU engine, types of join that it
// has and those that it refuses, experiments, and what it refuses for its inputs or its memory.
import { openRuntime, outOfCoreJoinAlgorithms } from "../../dist/index.js";
import { check, compareWith, joinTypes, linkOf, options, reference, refusal } from "./checks.mjs";
import { randomNumbers, relation } from "./relations.mjs";

const rows = options.small ? [600, 900] : [60_000, 90_000];
const memory = { host: "4GiB", device: "512MiB" };
/** Keys, whether NULLs equal each other, columns beside them. */
const cases = [
    [["int64"], false, ["p_int64_l", "p_int64_r"]],
    [["int32"], false, []],
    [["int32"], true, ["p_int64_l", "p_int8_r"]],
    [["int32", "bool"], false, ["p_decimal_l", "p_text_r"]],
    [["int64", "int64"], false, ["p_int64_r", "p_text_l"]]
];
/** These make every type of join, the others inner ones. */
const everyType = new Set(["staged", "triton", "triton-uncached"]);
const chunkRows = options.small ? 64 : 4096;
const experiments = {
    staged: [{ residentShare: 0.4, radixBits: 4, chunkRows }],
    triton: [{ interleave: { device: 1, far: 3 }, radixBits: 2, secondRadixBits: 3, chunkRows: 16 * chunkRows }],
    "triton-uncached": [{ partitioner: "shared", radixBits: 2, chunkRows: 16 * chunkRows }],
    "stream-probe": [
        { chunkRows },
        { streamProbe: "sorted", chunkRows: 16 * chunkRows, overlap: false },
        { streamProbe: "partitioned", chunkRows },
        { streamProbe: "partitioned", overlap: false },
        { streamProbe: "table", chunkRows }
    ],
    "npj-far": [
        { interleave: { device: 1, far: 1 }, chunkRows },
        { interleave: { device: 0, far: 1 }, chunkRows }
    ],
    "cpu-partitioned": [
        { radixBits: 6, chunkRows },
        { radixBits: 6, chunkRows, overlap: false }
    ]
};

function tablesOf(seed, keys, nullPercent) {
    const random = randomNumbers(seed);
    return rows.map((count, side) => {
        const suffix = side === 0 ? "_l" : "_r";
        return relation(random, { keys, side, rows: count, domain: rows[1], nullPercent, suffix });
    });
}

const ranBy = (algorithm) => (report) => {
    const { device, algorithm: text } = report.stages[0];
    const isSo = device?.algorithm === algorithm && device.chosenBy === "user" && linkOf(report) !== undefined;
    return isSo ? null : `ran ${text}`;
};

/** What it can do; a machine whose memory cannot be interleaved says so, and runs nothing else instead. */
async function unlessSpread(algorithm, run) {
    try {
        return await run();
    } catch (error) {
        const isSaid = algorithm === "npj-far" && /memory cannot be interleaved/.test(error.message);
        if (!isSaid || error.code !== "UNSUPPORTED_TYPE") throw error;
        console.log(`    ${error.message}`);
        return null;
    }
}

async function named(gpu, cpu) {
    for (const [at, [keys, nullEquality, columns]] of cases.entries()) {
        const tables = tablesOf(9300 + at, keys, nullEquality ? 0.1 : 5 * (at % 2));
        const on = keys.map((_, i) => `k${i}`);
        const make = (runtime, more) => {
            const [left, right] = tables.map((table) => runtime.fromTable(table));
            return runtime.join({ left, right, on, nullEquality, ...more });
        };
        const select = [...on, ...columns];
        const expected = reference(make(cpu, { select }));
        for (const algorithm of outOfCoreJoinAlgorithms) {
            for (const experiment of at === 0 ? [{}, ...experiments[algorithm]] : [{}]) {
                const query = make(gpu, { select, algorithm, experiment });
                const what = `on ${keys.join(", ")} with ${columns.length} columns, ${JSON.stringify(experiment)}`;
                await check(`${algorithm}: inner join ${what}`, () =>
                    unlessSpread(algorithm, () => compareWith(query, expected, ranBy(algorithm)))
                );
            }
        }
    }
}

async function types(gpu, cpu) {
    const tables = tablesOf(9400, ["int64"], 5);
    const make = (runtime, more) => {
        const [left, right] = tables.map((table) => runtime.fromTable(table));
        return runtime.join({ left, right, on: "k0", ...more });
    };
    for (const type of joinTypes.filter((one) => one !== "inner")) {
        const expected = reference(make(cpu, { type }));
        for (const algorithm of outOfCoreJoinAlgorithms) {
            const query = make(gpu, { type, algorithm });
            await check(`${algorithm}: ${type} join`, () =>
                everyType.has(algorithm)
                    ? compareWith(query, expected, ranBy(algorithm))
                    : refusal(() => query.toTable(), "INVALID_ARGUMENT", /cannot run this join: it makes inner joins/)
            );
        }
    }
}

/** Joins by kernels alone among other operators, in more and more GPU memory: what a plan accepts has to run. */
async function amongOthers(cpu) {
    const tables = tablesOf(9450, ["int64"], 0);
    const other = tablesOf(9451, ["int64"], 0)[0];
    const ends = {
        join: (joined, runtime) => runtime.join({ left: runtime.fromTable(other), right: joined, on: "k0" }),
        group: (joined) => joined.groupBy({ keys: ["k0"], aggregates: { n: { count: "*" } } })
    };
    const make = (runtime, end, more) => {
        const [left, right] = tables.map((table) => runtime.fromTable(table));
        return ends[end](runtime.join({ left, right, on: "k0", select: ["k0"], ...more }), runtime);
    };
    const expected = Object.fromEntries(Object.keys(ends).map((end) => [end, reference(make(cpu, end, {}))]));
    for (const algorithm of ["triton", "triton-uncached"]) {
        await check(`${algorithm} leaves others the GPU memory that the plan has for them`, async () => {
            let ran = 0;
            for (let mebibytes = 96; mebibytes <= 512; mebibytes += options.small ? 52 : 13) {
                const gpu = await openRuntime({ device: "gpu", memory: { ...memory, device: `${mebibytes}MiB` } });
                for (const end of Object.keys(ends)) {
                    const query = make(gpu, end, { algorithm, experiment: { chunkRows } });
                    if (await query.explain({ result: "table" }).then(() => false, refusedForMemory)) continue;
                    const wrong = await compareWith(query, expected[end]);
                    if (wrong !== null) return `${end} in ${mebibytes} MiB: ${wrong}`;
                    ++ran;
                }
                await gpu.close();
            }
            return ran > 0 ? null : "none fits GPU memory";
        });
    }
}

/** The plan needs more GPU memory. */
function refusedForMemory(error) {
    if (error.code !== "BUDGET_TOO_SMALL") throw error;
    return true;
}

async function refusals() {
    const tables = tablesOf(9500, ["int64"], 0);
    const little = await openRuntime({ device: "auto", memory: { ...memory, device: "2MiB" } });
    const [left, right] = tables.map((table) => little.fromTable(table));
    const stream = little.fromBatches(tables[0].schema, async function* () {
        yield* tables[0].batches;
    });
    for (const algorithm of outOfCoreJoinAlgorithms) {
        await check(`${algorithm} is refused for little GPU memory`, () =>
            refusal(
                () => little.join({ left, right, on: "k0", algorithm }).count(),
                "BUDGET_TOO_SMALL",
                /memory\.device|GPU memory/
            )
        );
        // Copy engines bring in what there is; the others take memory for all rows before these come.
        if (algorithm === "staged") continue;
        await check(`${algorithm} is refused for what it does not read`, () =>
            refusal(
                () => little.join({ left: stream, right, on: "k0", algorithm }).count(),
                "INVALID_ARGUMENT",
                /to know how many rows `batches` has, a stream|joins two relations alone/
            )
        );
    }
    await little.close();
}

export async function namedJoins(cpu) {
    const gpu = await openRuntime({ device: "auto", memory });
    await named(gpu, cpu);
    await types(gpu, cpu);
    await gpu.close();
    await amongOthers(cpu);
    await refusals();
}
