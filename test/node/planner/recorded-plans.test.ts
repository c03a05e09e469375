// SPDX-License-Identifier: Apache-2.0
// Plans of queries drawn from seeds, as they were recorded in test/fixtures/plans. A change that is to change no plan
// changes none of these; one that changes some shows which and how: `npx vitest run recorded-plans -u`, then the diff.
import { describe, expect, test } from "vitest";
import type { ColumnType, KeySpec } from "../../../src/model/column-type.js";
import { SpillwayError } from "../../../src/errors.js";
import { deviceFarPartitioners } from "../../../src/model/device-constants.js";
import type { Plan } from "../../../src/plan/plan.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { outOfCoreHostBytes, planOutOfCore } from "../../../src/planner/plan-out-of-core.js";
import { planOnDevice } from "../../../src/planner/plan-device.js";
import { expectations, memoryNeeds, planQuery, type PlanQuery } from "../../../src/planner/plan-query.js";
import { drawQuery, plainTheme, type Theme } from "../../support/drawn-queries.js";
import { Random } from "../../support/random.js";

const gibibyte = 2 ** 30;

/** Figures to nine digits: more would depend on how a version of Node computes powers and logarithms. */
function rounded(_: string, value: unknown): unknown {
    if (typeof value === "number") return Number.isInteger(value) ? value : Number(value.toPrecision(9));
    if (typeof value !== "object" || value === null) return value;
    if ("layout" in value && "byteWidth" in value) {
        const { layout, order, byteWidth, nullable } = value as ColumnType;
        return `${layout} ${order} ${byteWidth}${nullable ? " nullable" : ""}`;
    }
    if ("kindOfValue" in value) {
        const { column, kind, kindOfValue, width } = value as KeySpec;
        return `${column} ${kind}${kind === "dictionaryValue" ? ` ${kindOfValue}` : ""} ${width}`;
    }
    return value;
}

/** As JSON, but for quotes around names. */
const line = (name: string, value: unknown): string =>
    `    ${name} ${JSON.stringify(value, rounded).replaceAll(/"(\w+)":/g, "$1:")}`;

function linesOf(plan: Plan): string[] {
    const { sets, stages, memory, deviceMemory, result, batchRows, batchBytes, queuedBatches } = plan;
    const { threads, streamGroupBytes, predictedMs } = plan;
    const whole = { predictedMs, threads, batchRows, batchBytes, queuedBatches, streamGroupBytes };
    return [
        line("plan", { ...whole, rows: result.rows, rowBytes: result.rowBytes, ...memory, deviceMemory }),
        ...sets.map((set) => line("set", set)),
        ...stages.map((stage) => line(stage.kind, stage))
    ];
}

/** What `make` returns, or the line of the error that it throws. */
function orError(make: () => string[]): string[] {
    try {
        return make();
    } catch (error) {
        if (!(error instanceof SpillwayError)) throw error;
        return [line("error", [error.code, error.details])];
    }
}

/** The lines of a plan, or why there is none. */
function told(make: () => Plan | NotOnDevice): string[] {
    return orError(() => {
        const plan = make();
        return plan instanceof NotOnDevice ? [line("refused", [plan.reason, plan.leastBytes])] : linesOf(plan);
    });
}

type Lines = (query: PlanQuery, random: Random) => string[];

const onCpu: Lines = (query) => {
    const { rows, wantedBytes } = expectations(query);
    return [line("needs", { ...memoryNeeds(query), rows, wantedBytes }), ...told(() => planQuery(query))];
};

function onGpu(limits: readonly number[]): Lines {
    return (query, random) => {
        const limitBytes = random.pick(limits);
        let beside: unknown[] = [limitBytes];
        const lines = told(() => {
            const made = planOnDevice(query, planQuery(query), limitBytes);
            if (made instanceof NotOnDevice) return made;
            beside = [limitBytes, made.leastBytes, made.notOutOfCore];
            return made.plan;
        });
        return [...lines, line("limit", beside)];
    };
}

function outOfCore(limits: readonly number[]): Lines {
    return (query, random) => {
        const limitBytes = random.pick(limits);
        const hostBytes = outOfCoreHostBytes(query, limitBytes);
        return told(() => planOutOfCore(query, planQuery(query), limitBytes)).concat(
            line("limit", { limitBytes, hostBytes, unknown: outOfCoreHostBytes(query) })
        );
    };
}

/** `count` queries of a theme, the first with the seed `seed`, and the lines of each. */
function record(
    theme: Theme,
    seed: number,
    count: number,
    lines: Lines,
    more?: (random: Random) => Partial<PlanQuery>
) {
    const records = Array.from({ length: count }, (_, i) => {
        const random = new Random(seed + i);
        // There is no query where a full join cannot put both keys into one column.
        const found = orError(() => {
            const { query, says } = drawQuery(random, theme, more?.(random));
            return [says, ...lines(query, random)];
        });
        return `${seed + i}: ${found.join("\n")}`;
    });
    return `${records.join("\n")}\n`;
}

const file = (name: string): string => `../../fixtures/plans/${name}.txt`;
const ample = { budgetBytes: 256 * gibibyte };

describe("plans for the CPU", () => {
    test.each<[string, number, Partial<Theme>]>([
        ["joins", 100, {}],
        ["group-bys", 200, { groups: 1 }],
        ["trees", 300, { depth: 3, groups: 0.3 }],
        ["streams", 400, { streamed: 0.6, depth: 2, groups: 0.2 }],
        ["nested", 500, { nested: 0.4, strange: 0.6, groups: 0.3 }]
    ])("of %s", async (name, seed, theme) => {
        await expect(record({ ...plainTheme, ...theme }, seed, 24, onCpu)).toMatchFileSnapshot(file(`cpu-${name}`));
    });

    test("of arrays over keys", async () => {
        const theme = { ...plainTheme, strange: 0, sampled: 1, repeats: 0.2, rows: [10, 27] as const };
        const lines = record(theme, 600, 24, onCpu, (random) =>
            random.chance(0.4) ? { debug: { algorithm: "array" } } : {}
        );
        await expect(lines).toMatchFileSnapshot(file("cpu-arrays"));
    });

    test("with little memory", async () => {
        const lines: Lines = (query) => {
            const { minimumBytes } = memoryNeeds(query);
            const budgets = [minimumBytes - 1, minimumBytes, minimumBytes * 2, minimumBytes * 6];
            return budgets.flatMap((budgetBytes) => told(() => planQuery({ ...query, budgetBytes })));
        };
        const theme = { ...plainTheme, groups: 0.4, depth: 2, rows: [16, 27] as const };
        await expect(record(theme, 700, 8, lines)).toMatchFileSnapshot(file("cpu-little-memory"));
    });

    test("with the knobs of tests", async () => {
        const lines = record({ ...plainTheme, groups: 0.4 }, 800, 24, onCpu, (random) => ({
            debug: {
                algorithm: random.pick(["radix", "streaming", "array", "hash", "partitioned"] as const),
                ...(random.chance(0.3) ? { radixBits: random.below(12) } : {}),
                ...(random.chance(0.3) ? { secondRadixBits: random.below(6) } : {}),
                ...(random.chance(0.3) ? { pageBytes: random.pick([1024, 2 ** 16]) } : {}),
                ...(random.chance(0.3) ? { workers: random.between(1, 9) } : {}),
                ...(random.chance(0.3) ? { morselRows: random.between(1, 5000) } : {}),
                ...(random.chance(0.3) ? { buildChunkBytes: random.between(1, 2 ** 20) } : {}),
                ...(random.chance(0.3) ? { probeSplitRows: random.between(1, 2 ** 20) } : {}),
                ...(random.chance(0.3) ? { scheme: random.pick(["linearProbing", "bucketChaining", "perfect"]) } : {}),
                ...(random.chance(0.2) ? { hashMask: 0n, forceSpill: true } : {})
            } as const
        }));
        await expect(lines).toMatchFileSnapshot(file("cpu-knobs"));
    });
});

describe("plans with tables in GPU memory", () => {
    const limits = [0, 2 ** 37, 2 ** 37, 2 ** 33];

    test.each<[string, number, Partial<Theme>]>([
        ["joins", 1100, { named: 0.3 }],
        ["group-bys", 1200, { groups: 1, named: 0.3 }],
        ["trees", 1300, { depth: 3, groups: 0.3, named: 0.15 }],
        ["strange", 1500, { nested: 0.1, strange: 0.8, groups: 0.4 }]
    ])("of %s", async (name, seed, theme) => {
        const lines = record({ ...plainTheme, ...theme }, seed, 24, onGpu(limits), (random) => ({
            budgetBytes: random.pick([0.25, 4, 256]) * gibibyte
        }));
        await expect(lines).toMatchFileSnapshot(file(`gpu-${name}`));
    });

    test("of arrays over keys", async () => {
        const theme = { ...plainTheme, strange: 0, sampled: 1, repeats: 0.2, named: 0.5, rows: [10, 26] as const };
        const lines = record(theme, 1600, 24, onGpu(limits), () => ample);
        await expect(lines).toMatchFileSnapshot(file("gpu-arrays"));
    });

    test("near their limit, in pieces or out of core", async () => {
        const theme = { ...plainTheme, rows: [20, 29] as const, groups: 0.3, columns: 2 };
        const lines = record(theme, 1700, 36, onGpu([2 ** 27, 2 ** 30, 2 ** 32]), (random) => ({
            budgetBytes: random.pick([4, 64, 256]) * gibibyte,
            debug: {
                ...(random.chance(0.3) ? { pieceRows: random.between(64, 2 ** 20) } : {}),
                ...(random.chance(0.3) ? { outOfCore: random.chance(0.7) } : {})
            }
        }));
        await expect(lines).toMatchFileSnapshot(file("gpu-limits"));
    });
});

describe("plans out of core", () => {
    const limits = [2 ** 26, 2 ** 28, 2 ** 30, 2 ** 32, 2 ** 34];
    const large = { ...plainTheme, rows: [20, 31] as const };

    test.each<[string, number, Partial<Theme>]>([
        ["joins", 2100, { strange: 0, columns: 1 }],
        ["gathered", 2200, { strange: 0.5, columns: 5 }],
        ["group-bys", 2300, { groups: 1, columns: 2 }],
        ["strange-group-bys", 2400, { groups: 1, strange: 0.6, columns: 3, hinted: 0.5 }],
        ["refused", 2500, { nested: 0.3, depth: 2, groups: 0.3, streamed: 0.1, rows: [10, 24] }]
    ])("of %s", async (name, seed, theme) => {
        const lines = record({ ...large, ...theme }, seed, 20, outOfCore(limits), (random) => ({
            budgetBytes: random.pick([4, 32, 256]) * gibibyte
        }));
        await expect(lines).toMatchFileSnapshot(file(`out-of-core-${name}`));
    });

    test("with filters and spilled rows", async () => {
        const theme = { ...large, strange: 0, sampled: 1, repeats: 0.3, columns: 2 };
        const lines = record(theme, 2600, 24, outOfCore(limits), (random) => ({
            budgetBytes: random.pick([2, 8, 64, 256]) * gibibyte,
            debug: {
                ...(random.chance(0.3) ? { filter: random.chance(0.7) } : {}),
                ...(random.chance(0.2) ? { chunkRows: 64 * random.between(1, 2 ** 16) } : {}),
                ...(random.chance(0.2) ? { residentShare: random.unit() } : {}),
                ...(random.chance(0.2) ? { hostSpillBytes: random.below(2 ** 30) } : {}),
                ...(random.chance(0.2) ? { radixBits: random.below(12) } : {})
            }
        }));
        await expect(lines).toMatchFileSnapshot(file("out-of-core-filters"));
    });

    test("on the coherent path", async () => {
        const lines = record({ ...large, strange: 0.2, columns: 2 }, 2700, 20, outOfCore(limits), (random) => ({
            ...{ ...ample, coherentDevice: true },
            debug: {
                ...(random.chance(0.5) ? { partitioner: random.pick(deviceFarPartitioners) } : {}),
                ...(random.chance(0.2) ? { partitionBlocks: random.between(1, 200) } : {}),
                ...(random.chance(0.2) ? { gatherBlocks: random.between(1, 60) } : {}),
                ...(random.chance(0.2) ? { secondRadixBits: random.below(15) } : {}),
                ...(random.chance(0.2) ? { interleave: { device: random.below(3), far: random.between(1, 4) } } : {}),
                ...(random.chance(0.2) ? { radixBits: random.below(12) } : {})
            }
        }));
        await expect(lines).toMatchFileSnapshot(file("out-of-core-coherent"));
    });
});
