// SPDX-License-Identifier: Apache-2.0
// Joins larger than GPU memory with a Bloom filter that drops probe rows, and without one: the same rows as the CPU
// engine gives, of keys of every kind, some of them NULL; what explain and reports say of it.
import { Int32, Int64, makeVector, Table, Utf8, vectorFromArray } from "apache-arrow";
import { openRuntime, type Query, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { OutOfCoreReport } from "../../../src/execute/run-report.js";
import type { OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import { cellTable } from "../../support/cells.js";
import { memoryModel } from "../../support/device-memory.js";
import { useGpu } from "../../support/gpu.js";
import { Random } from "../../support/random.js";
import { joinTypes } from "../../support/reference.js";
import { expectSameRows, rowTexts } from "../../support/rows.js";
import { knobs } from "../../support/knobs.js";

useGpu();

const memory = { host: "256MiB", device: "64MiB" };
const sizes = { outOfCore: true, chunkRows: 128, radixBits: 3, residentShare: 0.25 };
let cpu: Runtime;
let filtered: Runtime;
let plain: Runtime;

beforeAll(async () => {
    cpu = await openRuntime({ device: "cpu", threads: 2, memory });
    const openGpu = (filter: boolean): Promise<Runtime> =>
        openRuntime({ device: "gpu", threads: 2, memory, ...knobs({ ...sizes, filter }) });
    [filtered, plain] = [await openGpu(true), await openGpu(false)];
});
afterAll(async () => {
    for (const runtime of [cpu, filtered, plain]) await runtime.close();
});

/** Keys below `domain`, as numbers and as text that gets a number; a column that goes to the GPU, one that does not. */
function table(seed: number, rows: number, domain: number, nullRatio: number): Table {
    const random = new Random(seed);
    const keys = Array.from({ length: rows }, () => (random.chance(nullRatio) ? null : random.below(domain)));
    const orNull = <T>(make: (key: number) => T): (T | null)[] => keys.map((key) => (key === null ? null : make(key)));
    const suffix = seed % 2 === 0 ? "l" : "r";
    return new Table({
        narrow: vectorFromArray(keys, new Int32()),
        wide: vectorFromArray(
            orNull((key) => BigInt(key) << 35n),
            new Int64()
        ),
        text: vectorFromArray(
            orNull((key) => `longer key ${key}`),
            new Utf8()
        ),
        [`n_${suffix}`]: makeVector(Int32Array.from({ length: rows }, (_, i) => i)),
        [`t_${suffix}`]: vectorFromArray(
            Array.from({ length: rows }, (_, i) => "x".repeat(i % 30)),
            new Utf8()
        )
    });
}

const told = (query: Query): OutOfCoreReport => query.report()!.stages[0]!.device!.outOfCore!;

/** Rows of the probe side that have no partner are in the result: a filter would lose them. */
function keepsLoneProbeRows(type: string, build: "left" | "right"): boolean {
    const probe = build === "left" ? "right" : "left";
    return type === "full" || type === probe || (type === "anti" && build === "right");
}

describe("rows are the same with a filter and without", () => {
    const cases = [
        ...(["narrow", "wide"] as const).flatMap((key) => joinTypes.map((type) => ({ key: [key] as string[], type }))),
        { key: ["text"], type: "inner" as const },
        { key: ["wide", "text"], type: "inner" as const }
    ];
    for (const build of ["left", "right"] as const) {
        test(`built on the ${build}`, async () => {
            for (const [at, { key, type }] of cases.entries()) {
                const nullRatio = at % 2 === 0 ? 0.1 : 0;
                // Few rows of either side have a partner.
                const tables = [table(2 * at, 600, 3000, nullRatio), table(2 * at + 1, 900, 5000, nullRatio)] as const;
                const queryOn = (runtime: Runtime): Query => {
                    const [left, right] = tables.map((given) => runtime.fromTable(given));
                    const nullEquality = nullRatio > 0 && key[0] === "narrow" && at % 4 === 0;
                    return runtime.join({
                        left: left!,
                        right: right!,
                        on: key,
                        type,
                        nullEquality,
                        hints: { buildSide: build }
                    });
                };
                const what = `${type} join on ${key.join(", ")}, built on the ${build}`;
                const expected = rowTexts(cellTable(await queryOn(cpu).toTable()));
                const [withIt, without] = [queryOn(filtered), queryOn(plain)];
                for (const query of [withIt, without]) {
                    expectSameRows(rowTexts(cellTable(await query.toTable())), expected, what);
                    expect(await query.count(), what).toBe(expected.length);
                }
                expect(told(without).droppedRows, what).toBe(0);
                if (keepsLoneProbeRows(type, build)) {
                    expect(told(withIt).droppedRows, what).toBe(0);
                } else {
                    const probeRows = build === "left" ? 900 : 600;
                    expect(told(withIt).droppedRows, what).toBeGreaterThan(probeRows / 2);
                    const [left, spilled] = [told(withIt).spilledRows.probe, told(without).spilledRows.probe];
                    if (key.includes("text")) {
                        // Text that no build row has gets no number, so that a filter finds nothing more to drop.
                        expect(left, what).toBe(spilled);
                        expect(spilled, what).toBeLessThan(probeRows / 4);
                    } else {
                        expect(left, what).toBeLessThan(spilled / 2);
                    }
                    expect(told(withIt).spilledRows.build, what).toBe(told(without).spilledRows.build);
                }
            }
        });
    }
});

describe("a filter", () => {
    test("is told of by explain and reports, predicted beside actual", async () => {
        const [left, right] = [table(0, 1000, 4000, 0), table(1, 8000, 40_000, 0)];
        const hints = { resultRows: 200, buildSide: "left" } as const;
        const join = (runtime: Runtime): Query =>
            runtime.join({ left: runtime.fromTable(left), right: runtime.fromTable(right), on: "wide", hints });
        const query = join(filtered);
        const explained = await query.explain();
        expect(String(explained)).toMatch(
            /Bloom filter of \d(.\d+)? KiB: drops about 9\d % of the probe rows before they are spilled \(asked for/
        );
        expect(String(await join(plain).explain())).toContain("no Bloom filter: switched off");
        await query.count();
        const { predicted, droppedRows, spilledRows } = told(query);
        expect(Math.abs(droppedRows - predicted.droppedRows)).toBeLessThan(0.1 * 8000);
        expect(droppedRows + spilledRows.probe).toBeLessThanOrEqual(8000);
    });

    test("is chosen without being asked for", async () => {
        const runtime = await openRuntime({ device: "gpu", threads: 2, memory, ...knobs(sizes) });
        const join = (resultRows: number): Query => {
            const [left, right] = [table(0, 1000, 4000, 0), table(1, 8000, 40_000, 0)].map((each) =>
                runtime.fromTable(each)
            );
            return runtime.join({ left: left!, right: right!, on: "wide", hints: { resultRows, buildSide: "left" } });
        };
        const chosen = async (resultRows: number): Promise<boolean> => {
            const { plan } = await join(resultRows).explain({ result: "count" });
            return (plan.stages[0] as OutOfCoreStage).filter.bytes > 0;
        };
        expect(await chosen(200)).toBe(true);
        expect(await chosen(8000)).toBe(false);
        await runtime.close();
    });

    test("is refused where it would lose rows, and with words that it cannot have", async () => {
        const [left, right] = [table(0, 100, 400, 0), table(1, 100, 400, 0)];
        const { plan } = await filtered
            .join({ left: filtered.fromTable(left), right: filtered.fromTable(right), on: "wide" })
            .explain({ result: "count" });
        const stage = plan.stages[0] as OutOfCoreStage;
        const bytesOf = (filterWords: number, more = {}): number =>
            memoryModel.stagedJoinMemory({ ...stage.layout.join, ...more, sizes: { ...stage.sizes, filterWords } })
                .deviceBytes;
        expect(bytesOf(1024) - bytesOf(0)).toBe(8 * 1024);
        for (const words of [1, 3, 1000, -2, 2 ** 41]) expect(() => bytesOf(words)).toThrow(/filterWords/);
        const lone = [{ keepUnmatchedProbe: true }, { emit: "probeOnce", anti: true }];
        for (const more of lone) expect(() => bytesOf(2, more)).toThrow(/no filter/);
        expect(bytesOf(2, { emit: "probeOnce" })).toBeGreaterThan(0);
    });
});
