// SPDX-License-Identifier: Apache-2.0
// Each variant of the pipeline of joins and group-bys out of core, asked for by knobs and confirmed by what the report
// and the plan say: all rows of large results are those of the CPU engine, by a hash of 128 bits.
import { openRuntime } from "../../dist/index.js";
import { check, joinTypes, knobs, linkOf, measure, onceMade, options } from "./checks.mjs";
import { hotKeyTable, keyed, randomNumbers } from "./relations.mjs";
import { compareHashes, hashOfRows } from "./row-hash.mjs";

const bits = options.small ? 14 : Math.min(23, Number(options["out-of-core-bits"]));
const rows = 2 ** bits;
const device = options.small ? "256MiB" : "512MiB";
const nulls = { mayBeNull: true };
/** Few rows would be a single chunk. */
const chunks = options.small ? { chunkRows: rows / 16 } : {};
const staged = { outOfCore: true, filter: false, ...chunks };
/** A join by copy engines, whatever the machine, so turned. */
const stagedBy = (turned) => ({ algorithm: "staged", ...knobs(turned) });
const coherentBy = (turned) => ({ algorithm: "triton", ...knobs(turned) });
const foreign = (seed, more) => keyed(rows, seed, { key: { name: "k", role: "foreign", domainRows: rows, ...more } });

/** Relations of each runtime that asks for them, from what generate() takes. */
function generated(...sides) {
    const made = new Map();
    return (runtime) => {
        if (!made.has(runtime)) {
            made.set(runtime, Promise.all(sides.map((side) => runtime.generate(side, "memory"))));
        }
        return made.get(runtime);
    };
}

/** `on(runtime, how)` makes a query; what the CPU engine makes of it is hashed once for all variants. */
function hashed(cpu, on) {
    return { on, expected: onceMade(async () => await hashOfRows(await on(cpu, {}), nulls)) };
}

function joinOf(cpu, sides, request) {
    return hashed(cpu, async (runtime, how) => {
        const [left, right] = await sides(runtime);
        return runtime.join({ left, right, on: "k", ...request, ...how });
    });
}

const joinsOf = (cpu, sides, request) =>
    Object.fromEntries(joinTypes.map((type) => [type, joinOf(cpu, sides, { ...request, type })]));

/** `wanted`: what must hold of what a report says of the link, and of the planned stage; each by words for it. */
async function compareVariant(gpu, what, { on, expected }, how, wanted) {
    await check(`out-of-core by hash: ${what}, 2^${bits} rows a side`, async () => {
        const query = await on(gpu, how);
        const inspect = async (report) => {
            const told = linkOf(report);
            if (told === undefined) return `ran ${report.stages[0].algorithm}`;
            measure({ hash: await expected(), link: told });
            const [stage] = (await query.explain()).plan.stages;
            const broken = Object.keys(wanted).filter((words) => !wanted[words](told, stage));
            return broken.length === 0 ? null : `not so: ${broken.join(", ")}; ${JSON.stringify(told)}`;
        };
        const wrong = await compareHashes(query, expected, inspect, nulls);
        if (wrong !== null) return wrong;
        const { path } = linkOf(query.report());
        const counted = await query.count();
        // Kernels that count are others than those that write rows.
        if (!(await expected()).startsWith(`${counted} rows,`)) return `count() is ${counted} of ${await expected()}`;
        const told = linkOf(query.report());
        return told !== undefined && told.path === path ? null : "counted another way";
    });
}

const spilledRows = ({ spilledRows: { build, probe } }) => build + probe;
const isStaged = { "the path is staged": ({ path }) => path === "staged" };
const noFilter = { "no filter": ({ droppedRows }, { filter }) => droppedRows === 0 && filter.bytes === 0 };
const someStay = {
    ...isStaged,
    "some partitions stay": ({ residentPartitions, partitions }) =>
        residentPartitions > 0 && residentPartitions < partitions,
    "rows of both sides are spilled": (told) => told.spilledRows.build > 0 && told.spilledRows.probe > 0
};
const noneStay = {
    ...isStaged,
    "no partition stays": ({ residentPartitions }) => residentPartitions === 0,
    "all rows are spilled": (told) => spilledRows(told) === 2 * rows
};
const allStay = {
    ...isStaged,
    "all partitions stay": ({ residentPartitions, partitions }) => residentPartitions === partitions,
    "no rows are spilled": (told) => spilledRows(told) === 0
};
const throughDisk = {
    "rows went to disk and came back": ({ diskWrittenBytes, diskReadBytes }) =>
        diskWrittenBytes > 0 && diskReadBytes >= diskWrittenBytes
};
const isCoherent = {
    "the path is coherent": ({ path }) => path === "coherent",
    // A few pages may all find room in what the plan leaves for other things.
    "rows are in host memory": (told) => options.small || spilledRows(told) > 0
};
const stays = { "no rows are spilled": (told) => told.spilledRows === 0 };
/** The plugin of the tests, which joins and groups few rows without a GPU, does not do that. */
const isGrouped = {
    "all chunks were aggregated": ({ groupedChunks, chunks: all }) => options.small || groupedChunks === all
};
const half = { ...staged, residentShare: 0.5 };
/**
 * Of the pages of both sides. What else a join takes is planned for the limit, and is less with what such a share
 * leaves of it: the pages of fewer rows would all be in GPU memory.
 */
const coherent = {
    residentShare: bits < 22 ? 0 : 0.5,
    ...{ radixBits: options.small ? 4 : 7, chunkRows: rows / 4 }
};

/** Shares of the build side in GPU memory, and every type of join with half of it, built on either side. */
async function stagedJoins(gpu, byType) {
    for (const [residentShare, wanted] of [
        [0, noneStay],
        [0.5, someStay],
        [1, allStay]
    ]) {
        const how = stagedBy({ ...staged, residentShare });
        const what = `staged, a share of ${residentShare} stays`;
        await compareVariant(gpu, what, byType.inner, how, { ...wanted, ...noFilter });
    }
    for (const type of joinTypes) {
        for (const buildSide of ["left", "right"]) {
            const how = { ...stagedBy(half), hints: { buildSide } };
            const what = `staged, ${type} join built on the ${buildSide}, half stays`;
            await compareVariant(gpu, what, byType[type], how, { ...someStay, ...noFilter });
        }
    }
}

/** One probe row in ten has a partner; types of join whose result has no others. */
async function filteredJoins(gpu, cpu) {
    const sides = generated(keyed(rows, 1), foreign(4, { matchRatio: 0.1 }));
    const wanted = {
        ...someStay,
        "a filter dropped most probe rows": ({ droppedRows }, { filter }) => droppedRows > rows / 2 && filter.bytes > 0
    };
    const how = { ...stagedBy({ ...half, filter: true }), hints: { buildSide: "left" } };
    const byType = joinsOf(cpu, sides);
    for (const type of ["inner", "left", "semi", "anti"]) {
        await compareVariant(gpu, `staged, with a Bloom filter, ${type} join`, byType[type], how, wanted);
    }
}

const isGathered = (why) => ({
    [`columns are gathered (${why})`]: (_, { layout }) => layout.gathered.some(({ reason }) => reason.startsWith(why))
});

/** Text, rows of more than 32 bytes, and keys of which a hash is compared. */
async function gatheredJoins(gpu, cpu) {
    const text = (side) => ({ name: `t_${side}`, type: "utf8" });
    const numbers = (side, length) => Array.from({ length }, (_, i) => ({ name: `v${i}_${side}` }));
    const [left, right] = [keyed(rows, 1), foreign(2)];
    const texts = generated({ ...left, payload: [text("l")] }, { ...right, payload: [text("r")] });
    // On the left one more than a row of 128 bytes has room for.
    const wide = generated({ ...left, payload: numbers("l", 16) }, { ...right, payload: numbers("r", 4) });
    // What stands beside a key that comes once is that of the key: t is the same on both sides.
    const key = { name: "t", type: "utf8" };
    const keys = generated(
        { ...left, payload: [key, { name: "a" }] },
        { ...keyed(rows, 3), payload: [key, { name: "b" }, { name: "c" }] }
    );
    const [ofTexts, ofWide] = [texts, wide].map((sides) => joinsOf(cpu, sides));
    const how = stagedBy(half);
    for (const type of ["inner", "full"]) {
        const [text, wideRow] = ["text", "row of"].map((why) => ({ ...someStay, ...isGathered(why) }));
        await compareVariant(gpu, `staged, gathered text, ${type} join`, ofTexts[type], how, text);
        await compareVariant(gpu, `staged, gathered columns of wide rows, ${type} join`, ofWide[type], how, wideRow);
    }
    const isHashed = { "keys are hashed": (_, { layout }) => layout.keys === "hashed" };
    const several = { ...someStay, "keys have two words": (_, { layout }) => layout.join.keyColumns === 1 };
    for (const [type, join] of Object.entries(joinsOf(cpu, keys, { on: ["k", "t"] }))) {
        await compareVariant(gpu, `staged, keys of a number and text, ${type} join`, join, how, several);
    }
    const wanted = { ...isCoherent, ...isHashed, ...isGathered("beside a key") };
    const ofKeys = joinOf(cpu, keys, { on: ["k", "t"] });
    await compareVariant(gpu, "coherent, keys of a number and text", ofKeys, coherentBy(coherent), wanted);
    await numberedJoins(gpu, cpu, how);
    const gathered = { ...isCoherent, ...isGathered("one of 16 columns") };
    await compareVariant(gpu, "coherent, gathered columns of wide rows", ofWide.inner, coherentBy(coherent), gathered);
}

/** Joins that are no inner ones, on keys of more words than are compared: workers number them. */
async function numberedJoins(gpu, cpu, how) {
    const names = ["t", "u", "v", "w"];
    const payload = names.map((name) => (name === "t" ? { name, type: "utf8" } : { name }));
    const keys = generated(
        { ...keyed(rows, 1), payload: [...payload, { name: "a" }] },
        { ...keyed(rows, 3), payload: [...payload, { name: "b" }] }
    );
    const isNumbered = { "keys are numbered": (_, { layout }) => layout.keys === "numbered" };
    for (const [type, join] of Object.entries(joinsOf(cpu, keys, { on: ["k", ...names] }))) {
        if (type === "inner") continue;
        const [staged, byKernels] = [someStay, isCoherent].map((some) => ({ ...some, ...isNumbered }));
        await compareVariant(gpu, `staged, keys of five words, ${type} join`, join, how, staged);
        await compareVariant(gpu, `coherent, keys of five words, ${type} join`, join, coherentBy(coherent), byKernels);
    }
}

/** Pairs of many rows with many, keys by Zipf's law, and a key of an eighth of a side's rows beside NULLs. */
function skewedJoins(cpu) {
    const random = randomNumbers(9100);
    const tables = onceMade(() =>
        [rows / 8, 8].map((hotRows, side) => hotKeyTable(random, { rows, hotRows, nullPercent: 10, name: `p${side}` }))
    );
    const few = { domainRows: rows / 4 };
    return {
        "a key four times on either side": joinsOf(cpu, generated(foreign(5, few), foreign(6, few))),
        "keys by Zipf's law": joinsOf(cpu, generated(keyed(rows, 1), foreign(7, { zipf: 1.5 }))),
        "a hot key and NULLs": joinsOf(cpu, (runtime) => tables().map((table) => runtime.fromTable(table)))
    };
}

async function stagedSkew(gpu, skewed) {
    const wanted = { ...someStay, ...noFilter };
    for (const [keys, byType] of Object.entries(skewed)) {
        for (const type of keys.includes("NULLs") ? joinTypes : ["inner"]) {
            for (const buildSide of ["left", "right"]) {
                const how = { ...stagedBy(half), hints: { buildSide } };
                const what = `staged, ${keys}, ${type} join built on the ${buildSide}`;
                await compareVariant(gpu, what, byType[type], how, wanted);
            }
        }
    }
}

/**
 * Kernels that read and write host memory, by each of their partitioners and by few blocks. Where keys are NULL, the
 * linear partitioner leaves the pass to the shared one.
 */
async function coherentJoins(gpu, joins) {
    const partitioners = ["standard", "linear", "shared", "hierarchical", "bulk"];
    const turns = [...partitioners.map((partitioner) => ({ partitioner })), { partitionBlocks: 5, gatherBlocks: 3 }];
    for (const more of turns) {
        const how = coherentBy({ ...coherent, ...more });
        for (const [what, { inner }] of Object.entries(joins)) {
            const wanted = {
                ...isCoherent,
                "as was asked for": (_, stage) => Object.keys(more).every((knob) => stage.coherent[knob] === more[knob])
            };
            await compareVariant(gpu, `coherent, ${JSON.stringify(more)}, ${what}`, inner, how, wanted);
        }
    }
}

/** Few groups, which chunks are aggregated to, and many, which stay, leave, or go to disk. */
function groupBys(cpu) {
    const aggregateSets = [
        { n: { count: "*" }, sum: { sum: "p" } },
        { least: { min: "p" }, most: { max: "p" } }
    ];
    const groupsOf = (groups) => {
        const input = generated({ ...foreign(8, { domainRows: groups }), payload: [{ name: "p" }] });
        return aggregateSets.map((aggregates) =>
            hashed(cpu, async (runtime, how) => {
                const [relation] = await input(runtime);
                return runtime.groupBy(relation, { keys: ["k"], aggregates, ...how });
            })
        );
    };
    return { few: groupsOf(rows / 2 ** 8), many: groupsOf(rows) };
}

async function groupsInMemory(gpu, { few, many }) {
    const variants = [
        ["few groups", few, 1, { ...stays, ...isGrouped }],
        ["many groups that stay", many, 1, stays],
        ["many groups that leave", many, 0, { "rows are spilled": (told) => told.spilledRows > 0 }]
    ];
    for (const [what, queries, residentShare, wanted] of variants) {
        for (const [at, query] of queries.entries()) {
            const how = knobs({ outOfCore: true, residentShare, ...chunks });
            await compareVariant(gpu, `group-by, ${what}, aggregates ${at}`, query, how, wanted);
        }
    }
}

/** Host memory is little, and a byte of each row of it may be taken: packed rows are larger. */
async function onDisk(tight, byType, { many }) {
    const debug = { ...staged, residentShare: 0, hostSpillBytes: rows };
    for (const type of ["inner", "full"]) {
        await compareVariant(tight, `to disk, ${type} join`, byType[type], stagedBy(debug), {
            ...noneStay,
            ...throughDisk
        });
    }
    for (const [at, query] of many.entries()) {
        await compareVariant(tight, `group-by to disk, aggregates ${at}`, query, knobs(debug), throughDisk);
    }
}

export async function outOfCoreVariants(cpu) {
    const byType = joinsOf(cpu, generated(keyed(rows, 1), foreign(2, { matchRatio: 0.7 })));
    const skewed = skewedJoins(cpu);
    const groups = groupBys(cpu);
    const gpu = await openRuntime({ device: "gpu", memory: { host: options.small ? "1GiB" : "8GiB", device } });
    await stagedJoins(gpu, byType);
    await filteredJoins(gpu, cpu);
    await gatheredJoins(gpu, cpu);
    await stagedSkew(gpu, skewed);
    await coherentJoins(gpu, { "a key once on one side": byType, ...skewed });
    await groupsInMemory(gpu, groups);
    await gpu.close();
    const tight = await openRuntime({ device: "gpu", memory: { host: "96MiB", device } });
    await onDisk(tight, byType, groups);
    await tight.close();
}
