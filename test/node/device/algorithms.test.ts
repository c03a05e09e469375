// SPDX-License-Identifier: Apache-2.0
// Joins and group-bys by the name of their algorithm: who may choose which, where it runs, and what reports say.
import { groupByAlgorithms, type Query, type Runtime } from "spillway";
import { afterEach, describe, expect, test } from "vitest";
import { command } from "../cli/in-process.js";
import { withRuntime } from "../../support/gpu-runtime.js";
import { useGpu, usesRealGpu } from "../../support/gpu.js";
import { count, joined, keyed, onGpu, rowsOf } from "../../support/named-joins.js";
import { Sandbox } from "../../support/sandbox.js";
import { tableJoins } from "../../support/table-joins.js";

useGpu();

afterEach(() => void delete process.env["SPILLWAY_FAKE_GPU"]);

/** What has been made so far: a plugin refuses the rest, which is then an error and never a wrong result. */
async function unlessRefused<T>(run: () => Promise<T>): Promise<T | undefined> {
    try {
        return await run();
    } catch (error) {
        if (!usesRealGpu) throw error;
        expect(error).toMatchObject({ code: "UNSUPPORTED_TYPE" });
        return undefined;
    }
}

/** What the planner takes for the operation of a query that names nothing: that depends on the machine's profile. */
async function plannedBy(query: Query): Promise<string> {
    for (const stage of (await query.explain()).plan.stages) {
        if (stage.kind === "deviceJoin" || stage.kind === "deviceGroup") return stage.choice.algorithm;
    }
    throw new Error("the query has no operation on the GPU");
}

describe("joins by name", () => {
    const [left, right] = [keyed(count(300)), keyed(count(900, (i) => i % 400))];

    test.each(tableJoins)("%s has the rows of the CPU engine", async (algorithm) => {
        const expected = await withRuntime({ device: "cpu" }, (cpu) => rowsOf(joined(cpu, left, right, "auto")));
        await withRuntime(onGpu, async (runtime) => {
            const query = joined(runtime, left, right, algorithm);
            const rows = await unlessRefused(() => rowsOf(query));
            if (rows === undefined) return;
            expect(rows).toEqual(expected);
            const stage = query.report()?.stages.find(({ name }) => name === "join");
            const chosenBy = algorithm === "auto" ? "planner" : "user";
            const name = algorithm === "auto" ? await plannedBy(query) : algorithm;
            expect(stage?.device).toMatchObject({ algorithm: name, chosenBy });
            // The plugin says by a number what ran: the same name comes back.
            if (!usesRealGpu) expect(stage?.device?.ranAs).toBeUndefined();
            expect(stage?.algorithm).toMatch(
                new RegExp(`^${name}, .* on the GPU, inner \\(chosen by the ${chosenBy}\\)$`)
            );
            expect(await query.count()).toBe(expected.length);
        });
    });

    test("a name takes a small query to the GPU with device auto, and explain says who chose", async () => {
        await withRuntime({ memory: { device: "64MiB" } }, async (runtime) => {
            const query = joined(runtime, left, right, "phj-tr");
            expect(String(await query.explain())).toContain("inner (chosen by the user)");
            await query.count();
            expect(query.report()).toMatchObject({ device: "gpu", deviceReason: null });
            // The name counts wherever in the query it stands.
            const above = query.groupBy({ keys: ["k"], aggregates: { n: { count: "*" } } });
            expect((await above.explain()).plan.device).toBe("gpu");
        });
    });

    test("device cpu refuses every name but auto, before anything runs", async () => {
        await withRuntime({ device: "cpu" }, async (runtime) => {
            const failure = {
                code: "INVALID_ARGUMENT",
                details: expect.objectContaining({ option: "algorithm", device: "cpu" })
            };
            expect(() => joined(runtime, left, right, "npj")).toThrow(/"npj" runs on a GPU.*device "gpu" or "auto"/);
            expect(() => joined(runtime, left, right, "smj-tr")).toThrow(expect.objectContaining(failure));
            const input = runtime.fromTable(left);
            expect(() => input.groupBy({ keys: ["k"], algorithm: "hgb" })).toThrow(expect.objectContaining(failure));
            expect(await joined(runtime, left, right, "auto").count()).toBeGreaterThan(0);
        });
    });

    test("a wrong name is answered with the names there are", async () => {
        await withRuntime({}, async (runtime) => {
            const input = runtime.fromTable(left);
            const wrong = "phj" as "npj";
            const failure = { code: "INVALID_ARGUMENT", details: { option: "algorithm" } };
            expect(() => joined(runtime, left, right, wrong)).toThrow(expect.objectContaining(failure));
            const hash = { keys: ["k"], algorithm: "hash" as "hgb" } as const;
            expect(() => input.groupBy(hash)).toThrow(expect.objectContaining(failure));
        });
    });

    test("where the GPU cannot run the query, device auto takes the CPU engine and says why", async () => {
        await withRuntime({}, async (runtime) => {
            const stream = runtime.fromBatches(left.schema, async function* () {
                yield left;
            });
            const query = runtime.join({ left: stream, right: runtime.fromTable(right), on: "k", algorithm: "phj-ur" });
            await query.count();
            expect(query.report()).toMatchObject({ device: "cpu", deviceReason: "`batches` is a stream of batches" });
            if (usesRealGpu) return;
            process.env["SPILLWAY_FAKE_GPU"] = "lost";
            const lost = joined(runtime, left, right, "phj-ur");
            expect(await lost.count()).toBeGreaterThan(0);
            expect(lost.report()).toMatchObject({ device: "cpu" });
            expect(lost.report()?.deviceReason).toMatch(/illegal memory access/);
        });
    });
});

describe("group-bys by name", () => {
    test.each(groupByAlgorithms)("%s has the groups of the CPU engine", async (algorithm) => {
        const table = keyed(count(1000, (i) => i % 90));
        const grouped = (runtime: Runtime, name: typeof algorithm): Query =>
            runtime.groupBy(runtime.fromTable(table), {
                keys: ["k"],
                aggregates: { most: { max: "v" }, n: { count: "*" } },
                algorithm: name
            });
        const expected = await withRuntime({ device: "cpu" }, (cpu) => rowsOf(grouped(cpu, "auto")));
        await withRuntime(onGpu, async (runtime) => {
            const query = grouped(runtime, algorithm);
            const rows = await unlessRefused(() => rowsOf(query));
            if (rows === undefined) return;
            expect(rows).toEqual(expected);
            const stage = query.report()?.stages.find(({ name }) => name === "group");
            const name = algorithm === "auto" ? await plannedBy(query) : algorithm;
            expect(stage?.device).toMatchObject({
                algorithm: name,
                chosenBy: algorithm === "auto" ? "planner" : "user"
            });
            expect(stage?.algorithm).toContain(`${name}, `);
            if (!usesRealGpu) expect(stage?.device?.ranAs).toBeUndefined();
        });
    });
});

describe("reports of the GPU", () => {
    test("tell phases, moved bytes and rates, and copies apart from computation", async () => {
        await withRuntime(onGpu, async (runtime) => {
            const table = keyed(count(5000));
            const query = joined(runtime, table, table, "phj-tr").groupBy({ keys: ["k"], algorithm: "hgb" });
            await query.toTable();
            const report = query.report();
            if (report === undefined) throw new Error("no report");
            const [first, second, join, group, deliver] = report.stages.map(({ device }) => device);
            for (const copy of [first, second, deliver]) {
                expect(copy?.algorithm).toBeUndefined();
                expect(copy?.movedBytes).toBeGreaterThanOrEqual(5000 * 4);
                expect(copy?.gigabytesPerSecond).toBeCloseTo((copy?.movedBytes ?? 0) / (copy?.elapsedMs ?? 1) / 1e6);
            }
            expect(report.uploadedBytes).toBe((first?.movedBytes ?? 0) + (second?.movedBytes ?? 0));
            for (const operation of [join, group]) {
                const { transformMs = -1, matchMs = -1, materializeMs = -1 } = operation?.phases ?? {};
                expect(Math.min(transformMs, materializeMs)).toBeGreaterThanOrEqual(0);
                expect(matchMs).toBeGreaterThan(0);
                expect(transformMs + matchMs + materializeMs).toBeLessThanOrEqual((operation?.elapsedMs ?? 0) + 0.002);
                expect(operation?.peakBytes).toBeGreaterThan(0);
            }
            expect(join?.movedBytes).toBeGreaterThan(5000 * 8);
            expect(report.withoutTransferMs).toBeCloseTo(report.elapsedMs - report.transferMs);
            expect(report.transferMs).toBeGreaterThan(0);
            expect(report.devicePeakBytes).toBeGreaterThanOrEqual(join?.peakBytes ?? Infinity);
            // The plugin without a GPU says of some thousand groups that they do not fit shared memory.
            if (!usesRealGpu) expect(group).toMatchObject({ algorithm: "hgb", ranAs: "hgb-global" });
        });
    });

    test("of the CPU engine have none of it", async () => {
        await withRuntime({ device: "cpu" }, async (runtime) => {
            const query = joined(runtime, keyed(count(50)), keyed(count(50)), "auto");
            await query.count();
            expect(query.report()?.stages.some((stage) => "device" in stage)).toBe(false);
            expect(query.report()?.transferMs).toBe(0);
        });
    });
});

describe("the command line", () => {
    const small = ["--device-memory", "64MiB"];

    test("takes --algorithm, and shows phases as text and as JSON", async () => {
        using sandbox = new Sandbox();
        const [left, right] = [sandbox.write(keyed(count(300))), sandbox.write(keyed(count(900)))];
        const words = ["join", left, right, "--on", "k", "--count", "--algorithm", "npj-perfect", ...small];
        const text = await command(words);
        expect(text).toMatchObject({ code: 0, stdout: "300\n" });
        expect(text.stderr).toMatch(/^300 rows in .* without transfers/m);
        expect(text.stderr).toMatch(/^ {2}upload: .* GB\/s$/m);
        expect(text.stderr).toMatch(
            /^ {2}count: npj-perfect \(user\), .* on the GPU: transform .*, match .*, materialize [^;]*$/m
        );
        const json = JSON.parse((await command([...words, "--json"])).stdout) as { report: { stages: unknown[] } };
        expect(json.report.stages.at(-1)).toMatchObject({ device: { algorithm: "npj-perfect", chosenBy: "user" } });
        const group = ["groupby", left, "--keys", "k", "--algorithm", "pgb-ur", "--explain", ...small];
        expect((await command(group)).stdout).toContain("pgb-ur, partitioned group-by, values gathered on the GPU");
    });

    test("says what a name needs", async () => {
        using sandbox = new Sandbox();
        const file = sandbox.write(keyed(count(30, (i) => i >> 1)));
        const words = ["join", file, file, "--on", "k", "--count", "--quiet", "--algorithm"];
        const onCpu = await command([...words, "npj", "--device", "cpu"]);
        expect(onCpu.code).not.toBe(0);
        expect(onCpu.stderr).toMatch(/"npj" runs on a GPU/);
        expect((await command([...words, "npj-perfect", ...small])).stderr).toMatch(/may come twice/);
        expect((await command([...words, "phj-rt"])).stderr).toMatch(/phj-tr/);
        expect((await command(["join", "--help"])).stdout).toContain("--algorithm");
    });
});
