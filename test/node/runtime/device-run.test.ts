// SPDX-License-Identifier: Apache-2.0
// What the stages of a plan for the GPU ask of it: turns, tables that are freed, joins in pieces, and what they report.
import { describe, expect, test } from "vitest";
import { DeviceRun } from "../../../src/execute/device-run.js";
import { Job } from "../../../src/execute/job.js";
import { ProgressTracker } from "../../../src/execute/progress-tracker.js";
import type { DeviceStage } from "../../../src/plan/device-stages.js";
import type { Plan, SinkKind } from "../../../src/plan/plan.js";
import { FakeBinding } from "../../support/fake-binding.js";

const report = {
    algorithm: 0,
    elapsedMs: 1,
    transformMs: 0,
    matchMs: 1,
    materializeMs: 0,
    movedBytes: 8,
    peakBytes: 9
};
const deviceMemory = { estimatedBytes: 1000, limitBytes: 5000 };
const outOfCore = { rows: 42, peakBytes: 9, h2dBytes: 1000, savedBytes: 0, d2hBytes: 0 };

const stage = (kind: DeviceStage["kind"], more: object): DeviceStage =>
    ({
        kind,
        name: kind,
        frees: [],
        memory: { inputBytes: 64 },
        columns: [],
        packed: [],
        ...more
    }) as unknown as DeviceStage;
const upload = (table: number, more = {}) => stage("upload", { input: table, table, ...more });
const spec = { algorithm: "phj-tr", firstKey: "0x0" };
const join = (more = {}) =>
    stage("deviceJoin", { build: 0, probe: 1, table: 2, pieces: null, chosenBy: "planner", spec, ...more });
const groupParts = { from: 0, table: 2, chosenBy: "planner", spec: { algorithm: "hgb" } };
/** Rows of 6 bytes, if as many come as were expected. */
const deliver = (from: number, more = {}) => stage("deliver", { from, rowsIn: 20, bytes: 120, ...more });
const layout = { layout: { join: { result: "rows" }, group: {} }, sizes: {}, path: { runs: "staged" }, predicted: {} };
const bigJoin = (result = "rows") =>
    stage("deviceOutOfCoreJoin", { ...layout, layout: { join: { result } }, buildInput: 0, probeInput: 1 });
const bigGroup = stage("deviceOutOfCoreGroupBy", { ...layout, input: 0 });

const noStreams = { began: () => undefined, ended: () => Promise.resolve() };

/** Runs stages one after another and notes what they ask for; `overrides`: of calls of the binding. */
function runOn(sink: SinkKind, overrides: ConstructorParameters<typeof FakeBinding>[0] = {}) {
    const asked: string[] = [];
    let tables = 0;
    const note = (what: string, answer?: unknown) => (): unknown => {
        asked.push(what);
        return answer;
    };
    const made =
        (what: string, more = {}) =>
        async (): Promise<unknown> => {
            asked.push(what);
            return { table: `table ${tables++}`, rows: 10, report, ...more };
        };
    const fake = new FakeBinding({
        uploadTable: made("upload", { bytes: 640, sentBytes: 320 }),
        joinTables: made("join"),
        groupTable: made("group"),
        countTableJoin: made("count"),
        beginJoinPieces: made("begin pieces", { pieces: "pieces" }),
        deliverTable: async () => note("deliver", { rows: 10, sentBytes: 60 })(),
        deliverPieces: async () => note("deliver pieces", { rows: 10, pieces: 3, sentBytes: 60 })(),
        joinOutOfCore: async () => note("big join", { ...outOfCore, spilledBytes: { build: 300, probe: 60 } })(),
        groupOutOfCore: async () => note("big group", { ...outOfCore, spilledBytes: 400 })(),
        closeTable: (table: unknown) => asked.push(`free ${String(table)}`),
        closePieces: (pieces: unknown) => asked.push(`free ${String(pieces)}`),
        ...overrides
    });
    const job = new Job(fake.binding, undefined as never, undefined);
    const tracker = new ProgressTracker(() => job.progress(), undefined);
    const plan = {
        sink,
        threads: 2,
        device: "gpu",
        inputs: [],
        stages: [],
        memory: {},
        deviceMemory
    } as unknown as Plan;
    tracker.begin(plan);
    const parts = {
        ...{ job, plan, tracker, inputs: [], streams: noStreams, inner: undefined as never },
        openSink: async () => note("sink", "sink")() as never,
        deviceTurn: async () => {
            asked.push("turn");
            const kept = (bytes: number | undefined): string => (bytes === undefined ? "all" : `${bytes} bytes`);
            return { leave: (bytes?: number) => note(`leave with ${kept(bytes)}`)(), end: note("end") };
        }
    };
    const run = new DeviceRun(parts, (input) => `source ${input}` as never);
    const all = async (...stages: DeviceStage[]): Promise<number[]> => {
        const rows: number[] = [];
        for (const each of stages) {
            tracker.stageBegins(each);
            rows.push(await run.stage(each));
            tracker.stageEnds(rows.at(-1)!);
        }
        return rows;
    };
    return { asked, job, run, all, report: () => tracker.runReport(plan, 10, 0) };
}

describe("a turn on the GPU", () => {
    test("is taken once, for all stages until the rows are delivered", async () => {
        const { asked, all, run } = runOn("batches");
        expect(await all(upload(0), upload(1), join(), deliver(2))).toEqual([10, 10, 10, 10]);
        expect(asked).toEqual(["turn", "upload", "upload", "join", "leave with 60 bytes", "sink", "deliver"]);
        run.close();
        expect(asked.slice(7)).toEqual(["free table 0", "free table 1", "free table 2", "end"]);
    });

    test("is left at the end of a query that fails before", async () => {
        const { asked, all, run } = runOn("batches");
        await all(upload(0));
        run.close();
        run.close();
        expect(asked).toEqual(["turn", "upload", "free table 0", "end"]);
    });

    test("is not needed where nobody else is on the GPU", async () => {
        const { job } = runOn("count", { uploadTable: async () => ({ table: "t", rows: 3, bytes: 1 }) });
        const tracker = new ProgressTracker(() => job.progress(), undefined);
        const plan = { threads: 1 } as Plan;
        const openSink = async () => "sink" as never;
        const inner = undefined as never;
        const parts = { ...{ job, plan, tracker, inputs: [], streams: noStreams, inner }, openSink };
        expect(await new DeviceRun(parts, () => "source" as never).stage(upload(0))).toBe(3);
    });

    test.each([
        ["join", bigJoin(), "big join"],
        ["group-by", bigGroup, "big group"]
    ])("of a %s out of core is left to the reader of its batches alone", async (_, operation, call) => {
        const read = runOn("batches");
        await read.all(operation);
        expect(read.asked).toEqual(["turn", "sink", "leave with all", call]);
        const written = runOn("file");
        await written.all(operation);
        expect(written.asked).toEqual(["turn", "sink", call]);
    });
});

describe("operations out of core", () => {
    test("that only count have no sink", async () => {
        const joined = runOn("count");
        expect(await joined.all(bigJoin("count"))).toEqual([42]);
        const grouped = runOn("count");
        expect(await grouped.all(bigGroup)).toEqual([42]);
        expect([joined.asked, grouped.asked]).toEqual([
            ["turn", "big join"],
            ["turn", "big group"]
        ]);
    });

    test("report as uploaded what was read for the first time, not what came back", async () => {
        const joined = runOn("file");
        await joined.all(bigJoin());
        expect(joined.report().uploadedBytes).toBe(640);
        const grouped = runOn("file");
        await grouped.all(bigGroup);
        expect(grouped.report().uploadedBytes).toBe(600);
    });
});

describe("values in as many bits as they need", () => {
    const bigTree = (more: object) =>
        stage("deviceOutOfCoreTree", {
            operators: [{ kind: "join", join: { result: "rows" } }],
            flows: [1, 0, 1].map((input) => ({ input, side: { keys: [] }, steps: [] })),
            ...{ result: [], gathered: [], predicted: {}, ...more }
        });

    test("cross the link for those inputs of an operation that its plan names", async () => {
        const told: unknown[] = [];
        const packedOf = ({ packed }: { packed?: boolean }): unknown => packed;
        const { all } = runOn("file", {
            joinOutOfCore: async (_: never, __: never, ___: never, spec: { build: object; probe: object }) => {
                told.push([packedOf(spec.build), packedOf(spec.probe)]);
                return { ...outOfCore, spilledBytes: { build: 0, probe: 0 } };
            },
            groupOutOfCore: async (_: never, __: never, spec: { side: object }) => {
                told.push(packedOf(spec.side));
                return { ...outOfCore, spilledBytes: 0 };
            },
            runTreeOutOfCore: async (_: never, __: never, spec: { flows: { side: object }[] }) => {
                told.push(spec.flows.map(({ side }) => packedOf(side)));
                return { rows: 1, operators: [] };
            }
        });
        for (const packed of [[], [0], [1], [0, 1]]) {
            const over = <T extends object>(each: T): T => ({ ...each, packed });
            await all(over(bigJoin()), over(bigGroup), bigTree({ packed }));
        }
        expect(told).toEqual([
            ...[[false, false], false, [false, false, false]],
            ...[[true, false], true, [false, true, false]],
            ...[[false, true], false, [true, false, true]],
            ...[[true, true], true, [true, true, true]]
        ]);
    });

    test("cross it for those columns of an upload, and for a result that is delivered whole or in pieces", async () => {
        const told: unknown[] = [];
        const noting = (answer: object) => async (_: never, __: never, spec: object) => {
            told.push(spec);
            return answer;
        };
        const { all } = runOn("file", {
            uploadTable: noting({ table: "t", rows: 10, bytes: 160, sentBytes: 80 }),
            deliverTable: noting({ rows: 10, sentBytes: 60 }),
            deliverPieces: noting({ rows: 10, pieces: 3, sentBytes: 60 })
        });
        const columns = [
            { column: 3, decode: false, packed: true },
            { column: 1, decode: true, packed: false }
        ];
        await all(upload(0, { columns }), upload(1), join(), deliver(2, { packed: true }));
        const planned = { rowsMax: 5, planned: true };
        await all(join({ pieces: planned }), deliver(2, { packed: false }));
        expect(told).toMatchObject([{ columns }, { columns: [] }, { packed: true }, { packed: false, rowsMax: 5 }]);
    });

    test("are reported beside what they are: a copy says both, nothing sent where nothing was copied", async () => {
        const { all, report: told } = runOn("file", {
            uploadTable: async (_: unknown, source: string) =>
                source === "source 1"
                    ? { table: source, rows: 0, bytes: 0, sentBytes: 0 }
                    : { table: source, rows: 10, bytes: 640, sentBytes: 320 }
        });
        await all(upload(0), upload(1), join(), deliver(2));
        const [first, empty, operation, last] = told().stages.map(({ device }) => device);
        expect(first).toMatchObject({ movedBytes: 640, sentBytes: 320 });
        expect(empty).toMatchObject({ movedBytes: 0, sentBytes: 0 });
        expect(operation).not.toHaveProperty("sentBytes");
        expect(last).toMatchObject({ sentBytes: 60 });
        expect(told().uploadedBytes).toBe(640);
        // Counted rows are not delivered.
        const counted = runOn("count");
        await counted.all(upload(0), upload(1), join({ table: null }));
        expect(counted.report().stages.map(({ device }) => device?.sentBytes)).toEqual([320, 320, undefined]);
    });

    test("of operations out of core count as uploaded with what they would take, as those of tables do", async () => {
        const saved = { ...outOfCore, savedBytes: 5000 };
        const { all, report: told } = runOn("file", {
            joinOutOfCore: async () => ({ ...saved, spilledBytes: { build: 300, probe: 60 } }),
            groupOutOfCore: async () => ({ ...saved, spilledBytes: 400 }),
            runTreeOutOfCore: async () => ({ rows: 1, operators: [{ ...saved, spilledBytes: 500 }] })
        });
        const uploaded: number[] = [];
        for (const each of [bigJoin(), bigGroup, bigTree({})]) {
            const before = told().uploadedBytes;
            await all(each);
            uploaded.push(told().uploadedBytes - before);
        }
        expect(uploaded).toEqual([640 + 5000, 600 + 5000, 500 + 5000]);
    });
});

describe("tables on the GPU", () => {
    test("are freed after the last stage that needs them, once", async () => {
        const { asked, all, run } = runOn("batches");
        await all(upload(0), stage("deviceGroup", { ...groupParts, frees: [0] }));
        expect(asked).toEqual(["turn", "upload", "group", "free table 0"]);
        run.close();
        expect(asked.slice(4)).toEqual(["free table 1", "end"]);
    });

    test("that a plan needs and no stage made are an error of ours", async () => {
        await expect(runOn("batches").all(upload(0), join())).rejects.toMatchObject({ code: "INTERNAL" });
        await expect(runOn("batches").all(deliver(7))).rejects.toMatchObject({ code: "INTERNAL" });
    });

    test("of joins that only count are not made", async () => {
        const { asked, all } = runOn("count");
        expect(await all(upload(0), upload(1), join({ table: null }))).toEqual([10, 10, 10]);
        expect(asked).toEqual(["turn", "upload", "upload", "count"]);
    });
});

describe("a join whose rows do not fit the GPU", () => {
    const pieces = { rowsMax: 5, planned: false };
    const stages = [upload(0), upload(1), join({ pieces }), deliver(2)];
    const refuses = (code: string, tier: string, before = (): void => undefined) => ({
        joinTables: async (): Promise<never> => {
            before();
            throw Object.assign(new Error("no room"), { code, details: { tier } });
        }
    });

    test.each(["BUDGET_TOO_SMALL", "OUT_OF_MEMORY"])("(%s) is begun again in pieces, which are freed", async (code) => {
        const { asked, all, run, report: told } = runOn("batches", refuses(code, "device"));
        await all(...stages);
        const made = ["turn", "upload", "upload", "begin pieces", "leave with 1030 bytes", "sink", "deliver pieces"];
        expect(asked).toEqual(made);
        run.close();
        run.close();
        expect(asked.slice(made.length)).toEqual(["free table 0", "free table 1", "free pieces", "end"]);
        expect(told().devicePieces).toBe(3);
    });

    test("is not tried whole where pieces are planned", async () => {
        const { asked, all } = runOn("batches");
        await all(upload(0), upload(1), join({ pieces: { rowsMax: 5, planned: true } }), deliver(2));
        expect(asked).not.toContain("join");
        expect(asked).toContain("deliver pieces");
        expect(asked).toContain("leave with 1000 bytes");
    });

    test("and that does fit is delivered whole", async () => {
        const { asked, all } = runOn("batches");
        await all(...stages);
        expect(asked.filter((call) => call.includes("pieces"))).toEqual([]);
        expect(asked).toContain("deliver");
    });

    test("fails where something else needs the whole, or memory of the host or anything else was missing", async () => {
        const whole = runOn("batches", refuses("OUT_OF_MEMORY", "device"));
        await expect(whole.all(upload(0), upload(1), join())).rejects.toMatchObject({ code: "OUT_OF_MEMORY" });
        for (const [code, tier] of [
            ["BUDGET_TOO_SMALL", "host"],
            ["OUT_OF_MEMORY", "host"],
            ["DEVICE_LOST", "device"]
        ] as const) {
            const { asked, all } = runOn("batches", refuses(code, tier));
            await expect(all(...stages)).rejects.toMatchObject({ code });
            expect(asked).not.toContain("begin pieces");
        }
        const bare = { joinTables: async () => Promise.reject(Object.assign(new Error(), { code: "OUT_OF_MEMORY" })) };
        await expect(runOn("batches", bare).all(...stages)).rejects.toMatchObject({ code: "OUT_OF_MEMORY" });
    });

    test("is not begun again once the query is cancelled", async () => {
        const { asked, all, job } = runOn(
            "batches",
            refuses("OUT_OF_MEMORY", "device", () => job.cancel())
        );
        await expect(all(...stages)).rejects.toMatchObject({ code: "ABORTED" });
        expect(asked).not.toContain("begin pieces");
    });
});
