// SPDX-License-Identifier: Apache-2.0
// Trees of joins and group-bys out of core: their flows, sizes and predictions, from the shapes of relations alone.
import { Decimal, Field, Int32, Int64, List, Utf8, type DataType } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { sumOf } from "../../../src/model/sizes.js";
import { inputsOf, type InputNode, type LogicalNode } from "../../../src/plan/logical.js";
import type { OutOfCoreTreeStage } from "../../../src/plan/out-of-core-tree-stage.js";
import type { Plan } from "../../../src/plan/plan.js";
import { planText } from "../../../src/plan/plan-text.js";
import { outOfCoreHostBytes } from "../../../src/planner/plan-out-of-core.js";
import { deviceMemory } from "../../support/device-memory.js";
import {
    chain,
    dimension,
    factRows,
    gibibyte,
    joinsOf,
    mebibyte,
    on,
    planOf,
    queryOf,
    refusal,
    stageOf
} from "../../support/out-of-core-trees.js";
import { group, inputNode, join, planWithNamedLimit } from "../../support/planning.js";
import { forSeeds, runsOneSeed } from "../../support/random.js";

const dimensionRows = { a: 2 ** 16, b: 2 ** 18, c: 2 ** 20 };
const keyBytes = 8;
const valueBytes = 4;

/** Facts with a key of each of three dimensions, all of which have a partner there. */
function star(rows = factRows): LogicalNode {
    const facts = inputNode(
        { a: new Int64(), b: new Int64(), c: new Int64(), v: new Int32() },
        { rows, name: "facts" }
    );
    return Object.entries(dimensionRows).reduce<LogicalNode>((child, [key, count]) => {
        const side = dimension(`d${key}`, count);
        const select = key === "c" ? ["v", "da_v", "db_v", "dc_v"] : undefined;
        const hints = { resultRows: rows, buildSide: "right" };
        return join(child, side, on(key, `d${key}_k`, { hints, ...(select === undefined ? {} : { select }) }));
    }, facts);
}

const groupedStar = (rows = factRows, groups = 1000): LogicalNode =>
    group(star(rows), {
        keys: ["da_v"],
        aggregates: { n: { count: "*" }, sum: { sum: "v" }, most: { max: "db_v" } },
        hints: { groups }
    });

/** The way of each input's rows: its number, then operators with the number of the input that they are. */
const waysOf = ({ flows }: OutOfCoreTreeStage): string[] =>
    flows.map(({ input, steps }) => [input, ...steps.map((step) => `${step.operator}.${step.input}`)].join(" "));

/** What the GPU keeps for each operator: what the model says, or all that a join by kernels was told it may take. */
function memoryOf({ operators }: OutOfCoreTreeStage) {
    return operators.map((operator) => {
        if (operator.kind === "group") {
            const { deviceBytes, chunkBytes } = deviceMemory().ofGroupBy(operator.group).of(operator.group.sizes);
            return { deviceBytes, chunkBytes: [chunkBytes] };
        }
        const { coherent, ...shape } = operator.join;
        const { deviceBytes, chunkBytes } = deviceMemory().ofJoin(shape).of(operator.join.sizes);
        return { deviceBytes: coherent?.deviceBytes ?? deviceBytes, chunkBytes: [chunkBytes.build, chunkBytes.probe] };
    });
}

/** The same of all operators and of the pipes between them, which are blocks of 512 bytes. */
function keptBytes(stage: OutOfCoreTreeStage): number {
    const all = memoryOf(stage);
    const pipes = stage.flows.flatMap(({ steps }) =>
        steps.slice(1).map(({ operator, input }) => Math.ceil(all[operator]!.chunkBytes[input]! / 512) * 512)
    );
    return sumOf([...all.map(({ deviceBytes }) => deviceBytes), ...pipes]);
}

/** A join by kernels alone, and an operator above it. */
function aboveKernels(rows: number, above: "join" | "group", algorithm: string): LogicalNode {
    const [left, right] = ["l", "r"].map((name) =>
        inputNode({ [`${name}_k`]: new Int64(), [`${name}_v`]: new Int64() }, { rows, name })
    );
    const below = join(left!, right!, on("l_k", "r_k", { algorithm, hints: { resultRows: rows } }));
    if (above === "group") return group(below, { keys: ["l_v"], aggregates: { sum: { sum: "r_v" } } });
    return join(dimension("c", Math.ceil(rows / 8)), below, on("c_k", "l_k"));
}

describe("operators and flows", () => {
    test("of a star: build sides first, then the facts pass all joins to the group-by", () => {
        const root = groupedStar();
        const stage = stageOf(queryOf(root));
        expect(stage).toMatchObject({ kind: "deviceOutOfCoreTree", name: "group" });
        expect(stage.operators.map(({ kind }) => kind)).toEqual(["group", "join", "join", "join"]);
        // The lowest join is the last operator.
        expect(stage.flows.map(({ steps }) => steps.map(({ operator, input }) => [operator, input]))).toEqual([
            [[1, 0]],
            [[2, 0]],
            [[3, 0]],
            [
                [3, 1],
                [2, 1],
                [1, 1],
                [0, 0]
            ]
        ]);
        expect(stage.flows.map(({ input }) => inputsOf(root)[input]?.name)).toEqual(["dc", "db", "da", "facts"]);
        expect(stage.predicted.operators.map(({ rowsIn }) => rowsIn)).toEqual([
            [factRows],
            [dimensionRows.c, factRows],
            [dimensionRows.b, factRows],
            [dimensionRows.a, factRows]
        ]);
        // Rows come from a source at first, and then from the operator before.
        for (const { steps } of stage.flows) expect(steps.map(({ pipe }) => pipe === null)).toEqual(steps.map(isFirst));
        const plan = planText(planOf(queryOf(groupedStar())) as Plan);
        expect(plan).toContain("rows flow through 3 joins and a group-by in GPU memory");
        expect(plan).toMatch(/flow 4: join 3 \(probed\) -> join 2 \(probed\) -> join 1 \(probed\) -> group 0, /);
    });

    const isFirst = (_: unknown, at: number): boolean => at === 0;

    test("carry the columns that somebody above wants, and no others", () => {
        const joins = joinsOf(stageOf(queryOf(groupedStar())));
        // Keys of the joins above, the value that is added up, and those of dimensions that are grouped or compared.
        expect(joins.map(({ buildWidths }) => buildWidths)).toEqual([[], [4], [4]]);
        expect(joins.map(({ probeWidths }) => [...probeWidths].sort())).toEqual([
            [4, 4, 4],
            [4, 4, 8],
            [4, 8, 8]
        ]);
        expect(joins.every(({ keyBytes: bytes, result }) => bytes === 8 && result === "rows")).toBe(true);
    });

    test("take decimals of few digits in 64 bits, but for keys that come out of a join", () => {
        const price = new Decimal(2, 15, 128);
        const relations = ["a", "b", "c"].map((name) =>
            inputNode({ [`${name}_k`]: new Int64(), [`${name}_p`]: price }, { rows: 1e7, name })
        ) as [LogicalNode, LogicalNode, LogicalNode];
        const widthsOf = (key: string, value: string): number[] => {
            const [a, b, c] = relations;
            const joined = join(join(a, b, on("a_k", "b_k")), c, on(`a_${key}`, `c_${key}`));
            const root = group(joined, { keys: ["b_k"], aggregates: { s: { sum: value } }, hints: { groups: 100 } });
            return joinsOf(stageOf(queryOf(root))).flatMap(({ buildWidths, probeWidths }) => [
                ...buildWidths,
                ...probeWidths
            ]);
        };
        expect(widthsOf("k", "a_p")).not.toContain(16);
        expect(widthsOf("p", "a_p")).toContain(16);
        // The other one is no key of a join that is above another.
        expect(widthsOf("p", "b_p").filter((width) => width === 16)).toHaveLength(1);
    });

    test("that are joined in a bush: the left join's rows are built before those of the right one come", () => {
        const pair = (name: string, rows: number): LogicalNode =>
            join(dimension(name, rows), dimension(`${name}x`, rows / 2), on(`${name}_k`, `${name}x_k`));
        const root = join(pair("l", 1e6), pair("r", 1e7), on("l_k", "r_k"));
        const stage = stageOf(queryOf(root));
        expect(stage.operators).toHaveLength(3);
        expect(waysOf(stage)).toEqual(["1 1.0", "0 1.1 0.0", "3 2.0", "2 2.1 0.1"]);
        expect(stage.result.kind).toBe("join");
    });

    test("a semi join is built on its smaller side, and its rows come out once", () => {
        const semi = (leftRows: number, rightRows: number) => {
            const root = group(chain([{ rows: leftRows }, { rows: rightRows }], ["semi"]), {
                keys: ["r0_v"],
                aggregates: { n: { count: "*" } }
            });
            const stage = stageOf(queryOf(root));
            const [made] = joinsOf(stage);
            return [waysOf(stage), made?.emit, made?.buildWidths, made?.probeWidths];
        };
        expect(semi(1e7, 1e5)).toEqual([["1 1.0", "0 1.1 0.0"], "probeOnce", [], [4]]);
        expect(semi(1e5, 1e7)).toEqual([["0 1.0", "1 1.1 0.0"], "buildOnce", [4], []]);
    });

    test("a left join whose left keys may be NULL is built on the right, however large that is", () => {
        const left = (nullable: boolean, types = ["left", "inner"]) => {
            const stage = stageOf(queryOf(chain([{ rows: 1000, nullable }, { rows: 1e7 }, { rows: 1e8 }], types)));
            const lower = joinsOf(stage)[1]!;
            return [waysOf(stage)[0], lower.keepUnmatchedBuild, lower.keepUnmatchedProbe];
        };
        expect(left(false)).toEqual(["0 1.0", true, false]);
        expect(left(true)).toEqual(["1 1.0", false, true]);
        expect(left(true, ["anti", "inner"])[0]).toBe("1 1.0");
        // Rows without a key have no partner, so that nobody misses them.
        expect(left(true, ["semi", "inner"])[0]).toBe("0 1.0");
    });

    test("that are counted need no columns, and below them one", () => {
        const stage = stageOf(queryOf(chain([{}, {}, {}], ["inner", "inner"]), { sink: "count" }));
        expect(stage).toMatchObject({ name: "count", result: { kind: "join", columns: [], presence: -1 } });
        const [upper, lower] = joinsOf(stage);
        expect(upper).toMatchObject({ buildWidths: [], probeWidths: [], result: "count", outputs: [] });
        expect(lower).toMatchObject({ buildWidths: [], probeWidths: [], outputs: [{ side: "key", column: 0 }] });
        expect(stage.predicted.d2hBytes).toBe(0);
        const counted = group(chain([{}, {}], ["inner"]), { keys: [], aggregates: { n: { count: "*" } } });
        const [only] = joinsOf(stageOf(queryOf(counted)));
        expect(only?.outputs).toHaveLength(1);
    });

    test("keys of several words are made of values of the operator before", () => {
        const of = (name: string): LogicalNode =>
            inputNode({ [`${name}_k`]: new Int64(), [`${name}_x`]: new Int64() }, { name });
        const lower = join(of("a"), of("b"), on("a_k", "b_k"));
        const root = join(lower, of("c"), { on: { a_k: "c_k", a_x: "c_x" }, hints: { buildSide: "right" } });
        const stage = stageOf(queryOf(root, { sink: "count" }));
        const [upper] = joinsOf(stage);
        expect(upper).toMatchObject({ keyBytes: 8, keyColumns: 1, buildWidths: [8], probeWidths: [8] });
        const pipe = stage.flows.at(-1)?.steps.at(-1)?.pipe;
        expect(pipe).toMatchObject({ nullByte: -1, columns: [], keys: [{ key: { width: 8 } }, { key: { width: 8 } }] });
        expect(stage.flows.find(({ input }) => input === 2)?.side.columns).toMatchObject([{ column: -2 }]);
    });

    test("a byte of the key says what is NULL, of both sides or of build rows of a full join", () => {
        const bytesOf = (type: string, more: object): unknown[] => {
            const [a, b] = ["a", "b"].map((name) =>
                inputNode({ [`${name}_k`]: new Int64(), [`${name}_v`]: new Int32() }, { name, nullable: true })
            );
            const lower = join(a!, b!, on("a_v", "b_v", { type, hints: { buildSide: "left" }, ...more }));
            const stage = stageOf(queryOf(join(lower, dimension("c", 1000), on("a_k", "c_k"))));
            const made = joinsOf(stage)[1];
            return [
                made?.keyBytes,
                made?.keyColumns,
                ...[0, 1].map((of) => stage.flows.find(({ input }) => input === of)?.side.nullByte)
            ];
        };
        expect(bytesOf("inner", { nullEquality: true })).toEqual([8, 0, 4, 4]);
        expect(bytesOf("full", {})).toEqual([8, 0, 4, -1]);
        expect(bytesOf("inner", {})).toEqual([4, 0, -1, -1]);
    });

    test("text keys are numbers on their way, decimals that are added up have 64 bits", () => {
        const of = (name: string): LogicalNode =>
            inputNode({ [`${name}_t`]: new Utf8(), [`${name}_d`]: new Decimal(2, 15, 128) }, { name });
        const joined = join(of("a"), of("b"), on("a_t", "b_t"));
        const grouped = group(joined, { keys: ["b_t"], aggregates: { sum: { sum: "a_d" } } });
        const stage = stageOf(queryOf(grouped));
        const widths = joinsOf(stage).flatMap(({ buildWidths, probeWidths }) => [...buildWidths, ...probeWidths]);
        expect([joinsOf(stage)[0]?.keyBytes, [...widths].sort()]).toEqual([4, [4, 8]]);
        const pipe = stage.flows.at(-1)?.steps.at(-1)?.pipe;
        expect(pipe?.keys[0]).toMatchObject({ key: { kind: "integer", width: 4 }, type: { byteWidth: 4 } });
        expect(pipe?.columns.map(({ part, type }) => [part, type.byteWidth])).toEqual([
            ["low", 8],
            ["high", 8]
        ]);
    });
});

describe("memory", () => {
    test.each([256 * mebibyte, gibibyte, 64 * gibibyte])("of all operators and pipes is within %i bytes", (limit) => {
        for (const root of [groupedStar(), groupedStar(factRows, factRows), star(1000), star()]) {
            for (const sink of ["count", "batches", "table"] as const) {
                const query = queryOf(root, { sink });
                const stage = stageOf(query, limit);
                const bytes = keptBytes(stage);
                expect(bytes).toBeLessThanOrEqual(limit);
                expect(stage.deviceBytes).toBe(bytes);
                const { inputBytes, tableBytes, outputBytes } = stage.memory;
                expect(inputBytes + tableBytes + outputBytes).toBeLessThan(query.budgetBytes * 0.95);
            }
        }
    });

    test("goes to operators that spill, from those that hold all of their rows", () => {
        const { predicted } = stageOf(queryOf(groupedStar(factRows, factRows)), 2 * gibibyte);
        const [grouped, ...joins] = predicted.operators;
        expect(joins.every(({ residentShare }) => residentShare === 1)).toBe(true);
        expect(grouped!.residentShare).toBeLessThan(1);
        expect(grouped!.deviceBytes).toBeGreaterThan(gibibyte);
    });

    test("of a join by kernels is no more than is counted, so that those beside it find theirs", async () => {
        let near = 0;
        await forSeeds(1, 100, async (random, seed) => {
            const rows = Math.floor(2 ** (10 + 16 * random.unit()));
            const limit = Math.floor(2 ** (26.5 + 5 * random.unit()));
            const algorithm = random.pick(["triton", "triton-uncached"] as const);
            const root = aboveKernels(rows, random.pick(["join", "group"] as const), algorithm);
            const query = queryOf(root, { sink: random.pick(["count", "batches"] as const) });
            const { plan, limitBytes } = planWithNamedLimit((bytes) => planOf(query, bytes), limit, `seed ${seed}`);
            // In little memory the two run one after the other.
            if (plan.stages.length > 1) return;
            const stage = plan.stages[0] as OutOfCoreTreeStage;
            const kernels = joinsOf(stage).find(({ coherent }) => coherent !== null);
            expect(kernels, `seed ${seed}`).toBeDefined();
            expect(keptBytes(stage), `seed ${seed}: ${rows} rows in ${limitBytes} bytes`).toBe(stage.deviceBytes);
            expect(stage.deviceBytes).toBeLessThanOrEqual(limitBytes);
            near += stage.predicted.operators.some(({ residentShare }) => residentShare < 1) ? 0 : 1;
        });
        if (runsOneSeed) return;
        // Both those whose rows all fit GPU memory and those of which some do not.
        expect(near).toBeGreaterThan(10);
        expect(near).toBeLessThan(90);
    });

    test("of the host is asked for where tables are not likely to fit", () => {
        expect(outOfCoreHostBytes(queryOf(groupedStar()), gibibyte)).toBeGreaterThan(gibibyte);
        expect(outOfCoreHostBytes(queryOf(groupedStar(1000)), 64 * gibibyte)).toBe(0);
        const forced = queryOf(groupedStar(1000), { debug: { outOfCore: true } });
        expect(outOfCoreHostBytes(forced, 64 * gibibyte)).toBeGreaterThan(0);
        const refused = join(star(), dimension("z", 1000), on("v", "z_k", { algorithm: "npj" }));
        expect(outOfCoreHostBytes(queryOf(refused), gibibyte)).toBe(0);
    });

    test("whatever the rows and the limit, a plan keeps to it, or the limit that an error names suffices", async () => {
        await forSeeds(1, 100, async (random, seed) => {
            const rows = Math.floor(2 ** (10 + 19 * random.unit()));
            const root = random.chance(0.5) ? star(rows) : groupedStar(rows, Math.ceil(rows ** random.unit()));
            const query = queryOf(root, { sink: random.pick(["count", "batches", "table"] as const) });
            const limit = Math.floor(2 ** (24 + 8 * random.unit()));
            const what = `seed ${seed}: ${rows} rows in ${limit} bytes`;
            const { plan, limitBytes } = planWithNamedLimit((bytes) => planOf(query, bytes), limit, what);
            const { deviceBytes } = plan.stages[0] as OutOfCoreTreeStage;
            expect(deviceBytes, what).toBeLessThanOrEqual(limitBytes);
        });
    });
});

describe("a tree does not run out of core", () => {
    const grouped = (child: LogicalNode, aggregates: object, more: object = {}): LogicalNode =>
        group(child, { keys: ["r0_v"], aggregates, ...more });
    const two = chain([{}, {}], ["inner"]);
    const wide = (name: string, type: DataType, count: number): LogicalNode => {
        const values = Array.from({ length: count }, (_, at) => [`${name}_${at}`, new Int64()] as const);
        return inputNode({ [`${name}_k`]: type, ...Object.fromEntries(values) }, { name });
    };
    const cases: [string, () => LogicalNode, RegExp][] = [
        [
            "groups that are joined are more than host memory holds",
            () => {
                const facts = inputNode({ f_k: new Int64(), f_v: new Int64() }, { name: "f", rows: 2 ** 36 });
                const groups = group(facts, { keys: ["f_k"], aggregates: { n: { count: "*" } } });
                return join(groups, dimension("c", 1000), on("f_k", "c_k"));
            },
            /^groups that are joined or grouped again need about 1 TiB of host memory, of which [\d.]+ GiB/
        ],
        [
            "its result has lists of a stream",
            () => {
                const lists = new List(new Field("item", new Int32()));
                const stream = { name: "s", streamed: true, rows: 2 ** 30 };
                return join(two, inputNode({ s_k: new Int64(), s_l: lists }, stream), on("r0_k", "s_k"));
            },
            /^column `s_l` \(nested\) of the stream `s` cannot be in GPU memory/
        ],
        [
            "more numbers are added up for a group of a stream than a row has",
            () => {
                const sums = Object.fromEntries(Array.from({ length: 15 }, (_, i) => [`s${i}`, { sum: `a_${i}` }]));
                const { input, columns } = wide("a", new Int64(), 15) as InputNode;
                const stream: LogicalNode = { kind: "input", input: { ...input, streamed: true }, columns };
                const groups = group(stream, { keys: ["a_k"], aggregates: sums });
                return join(groups, dimension("c", 1000), on("a_k", "c_k"));
            },
            /^more than 28 numbers are added up for a key, which takes 2 group-bys, and the stream `a` comes once$/
        ],
        [
            "an algorithm for tables in GPU memory was asked for",
            () => join(two, dimension("c", 1000), on("r0_k", "c_k", { algorithm: "npj" })),
            /^"npj" was asked for/
        ]
    ];
    test.each(cases)("where %s", (_, make, reason) => {
        expect(refusal(make())).toMatch(reason);
    });

    test("but does where the result leaves out what stood in the way", () => {
        const lists = new List(new Field("item", new Int32()));
        const stream = inputNode({ t_k: new Int64(), t_l: lists }, { name: "t", streamed: true });
        const lower = join(two, stream, on("r0_k", "t_k"));
        expect(refusal(lower, { sink: "count" })).toBe("");
        expect(refusal(grouped(lower, { n: { count: "*" } }))).toBe("");
        expect(refusal(chain([{ nullable: true }, { nullable: true }, {}], ["full", "inner"]))).toBe("");
    });
});

describe("predictions", () => {
    const factBytes = 3 * keyBytes + valueBytes;
    const inputBytes =
        factRows * factBytes +
        (dimensionRows.a + dimensionRows.b) * (keyBytes + valueBytes) +
        dimensionRows.c * keyBytes;

    test("count each input once where nothing is spilled, and the result", () => {
        const { predicted, result } = stageOf(queryOf(groupedStar()), 64 * gibibyte);
        expect(predicted).toMatchObject({ h2dBytes: inputBytes, spilledBytes: 0, diskBytes: 0 });
        expect(result.columns).toHaveLength(4);
        expect(predicted.d2hBytes).toBeLessThan(1000 * 64);
        expect(predicted.flowsMs).toHaveLength(4);
        expect(Math.min(...predicted.flowsMs)).toBeGreaterThan(0);
    });

    test("count spilled rows once in each direction more", () => {
        const { predicted: all } = stageOf(queryOf(groupedStar(factRows, factRows)), 64 * gibibyte);
        const { predicted: some } = stageOf(queryOf(groupedStar(factRows, factRows)), 2 * gibibyte);
        expect(all.spilledBytes).toBe(0);
        expect(some.spilledBytes).toBeGreaterThan(gibibyte);
        expect(some.spilledBytes).toBe(sumOf(some.operators.map(({ spilledBytes }) => spilledBytes)));
        expect(some.h2dBytes - all.h2dBytes).toBe(some.spilledBytes);
        expect(some.d2hBytes - all.d2hBytes).toBe(some.spilledBytes);
        expect(sumOf([...some.flowsMs])).toBeGreaterThan(sumOf([...all.flowsMs]));
    });
});
