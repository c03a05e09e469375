// SPDX-License-Identifier: Apache-2.0
// When joins run out of core, what explain and reports say of them, and what becomes of them when something fails.
import { makeVector, Table, Utf8, vectorFromArray } from "apache-arrow";
import { openRuntime, type Query, type Runtime, type SpillwayError } from "spillway";
import { afterEach, describe, expect, test } from "vitest";
import { behave, withRuntime } from "../../support/gpu-runtime.js";
import { useGpu, usesRealGpu } from "../../support/gpu.js";
import { knobs } from "../../support/knobs.js";

useGpu();

const mebibyte = 2 ** 20;

afterEach(() => behave(undefined));

/** Keys 0, step, 2 step, ... */
function table(rows: number, step = 1): Table {
    const keys = BigInt64Array.from({ length: rows }, (_, i) => BigInt(i * step));
    return new Table({ k: makeVector(keys), v: makeVector(Int32Array.from({ length: rows }, (_, i) => i)) });
}

function joinOf(runtime: Runtime, rows = 3000, more = {}): Query {
    const [left, right] = [runtime.fromTable(table(rows)), runtime.fromTable(table(rows, 2))];
    return runtime.join({ left, right, on: "k", ...more });
}

const forced = { device: "gpu", memory: { device: "64MiB", host: "256MiB" }, debug: { outOfCore: true } } as const;

/** A query that cannot run out of core, and why. */
type Refusal = [(runtime: Runtime) => { toTable(): Promise<unknown>; report: Query["report"] }, RegExp];

/** With device gpu they are refused with the reason, with device auto the CPU engine runs them and reports it. */
async function expectRefusals(cases: readonly Refusal[]): Promise<void> {
    await withRuntime(forced, async (runtime) => {
        await withRuntime({ ...forced, device: "auto" }, async (automatic) => {
            for (const [make, reason] of cases) {
                const details = { option: "device" };
                const refused = expect(make(runtime).toTable()).rejects;
                await refused.toMatchObject({
                    code: "UNSUPPORTED_TYPE",
                    details,
                    message: expect.stringMatching(reason) as string
                });
                const query = make(automatic);
                await query.toTable();
                expect(query.report()).toMatchObject({ device: "cpu" });
                expect(query.report()?.deviceReason).toMatch(reason);
            }
        });
    });
}

describe("the plan", () => {
    test("takes a join whose tables do not fit out of core, with the memory that is allowed", async () => {
        const rows = 700_000;
        await withRuntime({ device: "gpu", memory: { device: "26MiB", host: "512MiB" } }, async (runtime) => {
            const query = joinOf(runtime, rows);
            const explained = await query.explain();
            expect(explained.plan.stages.map(({ kind }) => kind)).toEqual(["deviceOutOfCoreJoin"]);
            expect(explained.plan.deviceMemory?.estimatedBytes).toBeLessThanOrEqual(26 * mebibyte);
            let found = 0;
            for await (const batch of query.batches()) found += batch.numRows;
            expect(found).toBe(rows / 2);
            const report = query.report();
            expect(report).toMatchObject({ device: "gpu", rowsOut: rows / 2 });
            expect(report?.devicePeakBytes).toBeLessThanOrEqual(26 * mebibyte);
            const told = report?.stages[0]?.device?.outOfCore;
            expect(told?.residentPartitions).toBeLessThan(told?.partitions ?? 0);
            expect(told?.spilledRows.build).toBeGreaterThan(0);
        });
        await withRuntime({ device: "gpu", memory: { device: "1GiB", host: "512MiB" } }, async (runtime) => {
            const { plan } = await joinOf(runtime, rows).explain();
            expect(plan.stages.map(({ kind }) => kind)).toEqual(["upload", "upload", "deviceJoin", "deliver"]);
        });
    });

    test("says what the link carries, and the report what it carried", async () => {
        await withRuntime({ ...forced, ...knobs({ outOfCore: true, residentShare: 1 }) }, async (runtime) => {
            const query = joinOf(runtime);
            const text = String(await query.explain());
            expect(text).toMatch(
                /join: staged, out of core on the GPU: .*\(build side: (left|right), chosen by the planner\)/
            );
            expect(text).toMatch(/2\^5 partitions, 100 % of them stay in GPU memory, chunks of [\d,]+ rows/);
            expect(text).toMatch(/link: [\d.]+ KiB to the GPU, [\d.]+ KiB from it, with 0 B of spilled rows each way/);
            expect(text).toMatch(/build [\d.]+ ms, probe [\d.]+ ms, spilled partitions [\d.]+ ms/);
            await query.toTable();
            const stage = query.report()?.stages[0];
            const { h2dBytes, predicted, ...told } = stage!.device!.outOfCore!;
            expect(h2dBytes).toBe(2 * 3000 * 12);
            expect(predicted.h2dBytes).toBe(h2dBytes);
            expect(told).toMatchObject({ partitions: 32, residentPartitions: 32, spilledRows: { build: 0, probe: 0 } });
            expect(query.report()?.uploadedBytes).toBe(h2dBytes);
        });
        await withRuntime(
            { ...forced, ...knobs({ outOfCore: true, residentShare: 0, radixBits: 4 }) },
            async (runtime) => {
                const query = joinOf(runtime);
                expect(String(await query.explain())).toContain("2^4 partitions, 0 % of them stay in GPU memory");
                expect(await query.count()).toBe(1500);
                const { spilledRows, h2dBytes, d2hBytes } = query.report()!.stages[0]!.device!.outOfCore!;
                // Half of the probe rows have no partner, and the filter leaves most of these out.
                expect(spilledRows.build).toBe(3000);
                expect(spilledRows.probe).toBeGreaterThanOrEqual(1500);
                expect(spilledRows.probe).toBeLessThan(1600);
                expect(h2dBytes).toBe(d2hBytes + 2 * 3000 * 8);
            }
        );
    });

    test("says which columns are gathered by row number, and why", async () => {
        const rows = 100;
        const texts = Array.from({ length: rows }, (_, i) => `text ${i}`);
        const names = ["k", "a", "b", "c", "d", ...Array.from({ length: 12 }, (_, i) => `v${i}`)];
        const columns = names.map((name) => {
            return [name, makeVector(BigInt64Array.from({ length: rows }, (_, i) => BigInt(i)))] as const;
        });
        const wide: Table = new Table({ ...Object.fromEntries(columns), t: vectorFromArray(texts, new Utf8()) });
        const narrow: Table = new Table({ k: makeVector(BigInt64Array.from({ length: rows }, (_, i) => BigInt(i))) });
        await withRuntime(forced, async (runtime) => {
            const [left, right] = [runtime.fromTable(wide), runtime.fromTable(narrow)];
            const query = runtime.join({ left, right, on: "k" });
            const told = String(await query.explain());
            expect(told).toMatch(/gathered by row number from host memory, [\d.]+ ms of all workers: t \(text\)/);
            expect(told.match(/row of 136 bytes/g)).toHaveLength(2);
            expect((await query.toTable()).numRows).toBe(rows);
            expect(query.report()?.stages[0]?.device?.outOfCore?.h2dBytes).toBe(rows * (8 + 14 * 8 + 4 + 8));
            const dropped = "pairs whose keys differ are dropped";
            const hashed = runtime.join({ left, right: left, on: ["k", "a", "b", "c", "d"] });
            expect(String(await hashed.explain())).toContain(dropped);
            expect(await hashed.count()).toBe(rows);
            // A number stands for text, and words of keys are compared: nothing has to be compared again.
            for (const on of ["t", ["k", "t"], ["k", "a", "b"]]) {
                const compared = runtime.join({ left, right: left, on });
                expect(String(await compared.explain())).not.toContain(dropped);
                expect(await compared.count()).toBe(rows);
            }
        });
    });

    test("says why a join cannot run out of core", async () => {
        const names = Array.from({ length: 65 }, (_, i) => `k${i}`);
        const wide = new Table(Object.fromEntries(names.map((name) => [name, makeVector(BigInt64Array.of(1n))])));
        const cases: Refusal[] = [
            [
                (r) => r.join({ left: r.fromTable(wide), right: r.fromTable(wide), on: names, type: "semi" }),
                /there are 65 keys, of which 64 are numbered together/
            ],
            [(r) => joinOf(r, 10, { algorithm: "npj" }), /"npj" was asked for/]
        ];
        await expectRefusals(cases);
    });

    test("says why a tree of joins cannot run out of core", async () => {
        const cases: Refusal[] = [
            [
                (r) => joinOf(r, 10).groupBy({ keys: ["k"], aggregates: { most: { max: "v" } }, algorithm: "hgb" }),
                /"hgb" was asked for, which groups a table in GPU memory/
            ]
        ];
        await expectRefusals(cases);
    });

    test("says so where the tables fit neither way", async () => {
        const strings = vectorFromArray(
            Array.from({ length: 200_000 }, (_, i) => `text ${i}`),
            new Utf8()
        );
        const numbers = makeVector(BigInt64Array.from({ length: 200_000 }, (_, i) => BigInt(i)));
        const big = new Table({ k: vectorFromArray([...strings.toArray().slice(1), null], new Utf8()), n: numbers });
        await withRuntime({ device: "gpu", memory: { device: "4MiB" } }, async (runtime) => {
            const query = runtime.join({
                left: runtime.fromTable(big),
                right: runtime.fromTable(big),
                on: ["k", "n"],
                type: "left",
                nullEquality: true
            });
            const message = expect.stringMatching(/\(out of core: it takes .* of GPU memory at least\)/) as string;
            await expect(query.count()).rejects.toMatchObject({ code: "BUDGET_TOO_SMALL", message });
        });
        await withRuntime({ ...forced, memory: { device: "18MiB" } }, async (runtime) => {
            const message = expect.stringMatching(/needs at least [\d.]+ MiB of GPU memory/) as string;
            await expect(joinOf(runtime).count()).rejects.toMatchObject({ code: "BUDGET_TOO_SMALL", message });
        });
    });

    test("leaves a join to the CPU engine where that is predicted faster", async () => {
        const options = { device: "auto", memory: { device: "40MiB", host: "512MiB" } } as const;
        await withRuntime({ ...options, debug: { gpu: true } }, async (runtime) => {
            expect((await joinOf(runtime, 700_000).explain()).plan.device).toBe("gpu");
        });
        await withRuntime(options, async (runtime) => {
            const { plan } = await joinOf(runtime, 700_000).explain();
            expect(plan.device).toBe("cpu");
        });
    });

    test("knobs are checked", async () => {
        const wrongs = [{ residentShare: 1.5 }, { residentShare: "all" }, { chunkRows: 10 }];
        for (const options of [...wrongs.map((experiment) => ({ experiment })), { debug: { outOfCore: 1 } }]) {
            const wrong = openRuntime(options as object);
            await expect(wrong).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
        }
    });
});

describe("a running join", () => {
    const chunked = { ...forced, ...knobs({ outOfCore: true, chunkRows: 128 }) };

    test.skipIf(usesRealGpu)("ends at once when it is aborted, and the next one runs", async () => {
        await withRuntime(chunked, async (runtime) => {
            behave("slow");
            const controller = new AbortController();
            setTimeout(() => controller.abort(), 50);
            const reason = { name: "AbortError" };
            await expect(joinOf(runtime).count({ signal: controller.signal })).rejects.toMatchObject(reason);
            behave(undefined);
            expect(await joinOf(runtime).count()).toBe(1500);
            expect(runtime.memory().host.usedBytes).toBe(0);
        });
    });

    test.skipIf(usesRealGpu)("that waits for another one's turn ends at once when it is aborted", async () => {
        await withRuntime(chunked, async (runtime) => {
            behave("slow");
            const [first, second] = [new AbortController(), new AbortController()];
            const running = joinOf(runtime).count({ signal: first.signal });
            const ended = expect(running).rejects.toMatchObject({ name: "AbortError" });
            await new Promise((resolve) => setTimeout(resolve, 100));
            const waiting = joinOf(runtime).count({ signal: second.signal });
            setTimeout(() => second.abort(), 50);
            const start = performance.now();
            await expect(waiting).rejects.toMatchObject({ name: "AbortError" });
            // The other one goes on for 20 seconds.
            expect(performance.now() - start).toBeLessThan(5000);
            first.abort();
            await ended;
            behave(undefined);
            expect(await joinOf(runtime).count()).toBe(1500);
        });
    });

    test("ends when its reader does, and waits for one that runs queries of its own", async () => {
        await withRuntime(chunked, async (runtime) => {
            for await (const batch of joinOf(runtime).batches({ batchRows: 10 })) {
                expect(batch.numRows).toBeGreaterThan(0);
                break;
            }
            let rows = 0;
            for await (const batch of joinOf(runtime).batches({ batchRows: 500 })) {
                rows += batch.numRows;
                expect(await joinOf(runtime, 300).count()).toBe(150);
            }
            expect(rows).toBe(1500);
        });
    });

    test.skipIf(usesRealGpu)("a GPU without memory is an error, or the CPU engine's turn", async () => {
        await withRuntime(chunked, async (runtime) => {
            expect(await joinOf(runtime).count()).toBe(1500);
            behave("refuse");
            await expect(joinOf(runtime).count()).rejects.toMatchObject({ code: "OUT_OF_MEMORY" });
            behave(undefined);
            expect(await joinOf(runtime).count()).toBe(1500);
        });
        // Rows that nobody has seen can be those of another engine.
        await withRuntime({ ...chunked, device: "auto" }, async (runtime) => {
            await joinOf(runtime).count();
            behave("refuse");
            const query = joinOf(runtime);
            expect((await query.toTable()).numRows).toBe(1500);
            expect(query.report()).toMatchObject({ device: "cpu" });
            let rows = 0;
            for await (const batch of joinOf(runtime).batches()) rows += batch.numRows;
            expect(rows).toBe(1500);
        });
    });
});

test("too little host memory is told with as much as is enough", async () => {
    const [a, b, c] = [
        table(400_000),
        new Table({ b: table(100_000, 3).getChild("k")! }),
        new Table({ c: table(100_000, 5).getChild("k")! })
    ];
    // Multiples of 3 and of 5: one in 15 numbers below 300,000 is both.
    const expected = 200_000 - 20_000;
    const open = { device: "gpu", memory: { device: "64MiB", host: "8MiB" } } as const;
    const query = (runtime: Runtime): Query => {
        const streams = [a, b, c].map((of: Table) =>
            runtime.fromBatches(
                of.schema,
                async function* () {
                    for (const batch of of.batches) yield await Promise.resolve(batch);
                },
                { rows: of.numRows }
            )
        );
        const below = streams[0]!.join(streams[1]!, { on: { k: "b" } });
        return below.join(streams[2]!, { on: { k: "c" }, type: "full" });
    };
    const rows = async (runtime: Runtime): Promise<number> => {
        let found = 0;
        for await (const batch of query(runtime).batches()) found += batch.numRows;
        return found;
    };
    const smallest = await withRuntime(open, async (runtime) => {
        const error = (await rows(runtime).catch((thrown: unknown) => thrown)) as SpillwayError;
        expect(error).toMatchObject({ code: "BUDGET_TOO_SMALL", details: { tier: "host", option: "memory.host" } });
        expect(error.message).toMatch(
            /needs about [\d.]+ MiB of host memory to run on the GPU but [\d.]+ MiB are there/
        );
        return String(error.details["smallest"]);
    });
    expect(parseInt(smallest)).toBeLessThan(128);
    await withRuntime({ ...open, memory: { ...open.memory, host: smallest } }, async (runtime) => {
        expect(await rows(runtime)).toBe(expected);
    });
    await withRuntime({ ...open, device: "auto", debug: { gpu: true } }, async (runtime) => {
        expect(await rows(runtime)).toBe(expected);
    });
});
