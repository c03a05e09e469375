// SPDX-License-Identifier: Apache-2.0
// Joins, group-bys and trees out of core that spill to the memory of another GPU, for which the one GPU stands in: the
// same rows as the CPU engine gives, what reports and explain say, and runtimes without such a GPU.
import { makeVector, Table } from "apache-arrow";
import type { Query, Runtime, RuntimeOptions } from "spillway";
import { describe, expect, test } from "vitest";
import { cellTable } from "../../support/cells.js";
import { withRuntime } from "../../support/gpu-runtime.js";
import { useGpu, usesRealGpu } from "../../support/gpu.js";
import { knobs } from "../../support/knobs.js";
import { expectSameRows, rowTexts } from "../../support/rows.js";

useGpu();

function table(name: string, rows: number, step: number): Table {
    return new Table({
        [`k${name}`]: makeVector(Int32Array.from({ length: rows }, (_, row) => (row * step) % 1000)),
        [`v${name}`]: makeVector(Int32Array.from({ length: rows }, (_, row) => (row * 7919) % 100_003))
    });
}

const tables = [table("a", 900, 3), table("b", 700, 2), table("c", 500, 1)] as const;
const queries: Record<string, (runtime: Runtime) => Query> = {
    join: (runtime) => {
        const [a, b] = tables.map((given) => runtime.fromTable(given));
        return a!.join(b!, { on: { ka: "kb" } });
    },
    "group-by": (runtime) =>
        runtime.groupBy(runtime.fromTable(tables[0]), { keys: ["ka"], aggregates: { sum: { sum: "va" } } }),
    tree: (runtime) => {
        const [a, b, c] = tables.map((given) => runtime.fromTable(given));
        const joined = a!.join(b!, { on: { ka: "kb" } }).join(c!, { on: { ka: "kc" } });
        return joined.groupBy({ keys: ["vc"], aggregates: { sum: { sum: "va" } } });
    }
};

const turned = { outOfCore: true, chunkRows: 128, radixBits: 3, residentShare: 0, peerOrdinal: 0 } as const;

function withPeer<T>(peer: string | number | undefined, body: (gpu: Runtime) => Promise<T>, more = {}): Promise<T> {
    const memory = { host: "256MiB", device: "256MiB", ...(peer === undefined ? {} : { peer }) };
    const options: RuntimeOptions = { device: "gpu", memory, ...knobs({ ...turned, ...more }) };
    return withRuntime(options, body);
}

/** What all operators spilled, and what of it went where. */
function spillOf(query: Query): { spilled: number; peer: number; disk: number } {
    const device = query.report()!.stages[0]!.device!;
    const operators = device.outOfCoreTree?.operators ?? [device.outOfCore ?? device.outOfCoreGroupBy!];
    const all = { spilled: 0, peer: 0, disk: 0 };
    for (const { spilledBytes, peerBytes, diskWrittenBytes } of operators) {
        all.spilled += typeof spilledBytes === "number" ? spilledBytes : spilledBytes.build + spilledBytes.probe;
        all.peer += peerBytes;
        all.disk += diskWrittenBytes;
    }
    return all;
}

describe.each(Object.entries(queries))("a %s", (name, queryOn) => {
    const expected = withRuntime({ device: "cpu" }, async (cpu) => rowTexts(cellTable(await queryOn(cpu).toTable())));

    test("has all spilled rows there, and says so", async () => {
        await withPeer("16MiB", async (gpu) => {
            const query = queryOn(gpu);
            expect(String(await query.explain())).toMatch(/peer: [\d.]+ KiB of them in the memory of another GPU/);
            expectSameRows(rowTexts(cellTable(await query.toTable())), await expected, name);
            const { spilled, peer, disk } = spillOf(query);
            expect(spilled).toBeGreaterThan(1000);
            expect([peer, disk]).toEqual([spilled, 0]);
            // The next one finds it empty.
            expect(await query.count()).toBe((await expected).length);
            expect(spillOf(query).peer).toBeGreaterThan(1000);
        });
    });

    test("has those on disk for which it has no memory, nor has the host", async () => {
        await withPeer(
            1500,
            async (gpu) => {
                const query = queryOn(gpu);
                expectSameRows(rowTexts(cellTable(await query.toTable())), await expected, name);
                const { peer, disk } = spillOf(query);
                // A real one takes whole blocks, of which the least is larger.
                expect(peer > 0).toBe(!usesRealGpu);
                expect(peer).toBeLessThanOrEqual(1500);
                expect(disk).toBeGreaterThan(0);
            },
            { hostSpillBytes: 0 }
        );
    });

    test("has none there without the option", async () => {
        await withPeer(undefined, async (gpu) => {
            const query = queryOn(gpu);
            expect(String(await query.explain())).not.toMatch(/peer/);
            expectSameRows(rowTexts(cellTable(await query.toTable())), await expected, name);
            expect(spillOf(query).peer).toBe(0);
        });
    });
});

test("memory of a peer is a size", async () => {
    for (const peer of ["no", -1, "16 apples"]) {
        await expect(withPeer(peer, () => Promise.resolve())).rejects.toMatchObject({
            code: "INVALID_ARGUMENT",
            details: { option: "memory.peer" }
        });
    }
});

describe("joins by kernels", () => {
    const sides = [table("a", 9000, 1), table("b", 8000, 1)] as const;
    const joinOf = (runtime: Runtime, options = {}): Query => {
        const [left, right] = sides.map((given) => runtime.fromTable(given));
        const on = { ka: "kb" };
        return runtime.join({
            left: left!,
            right: right!,
            on,
            select: ["ka", "va", "vb"],
            hints: { buildSide: "left" },
            ...options
        });
    };
    const expected = withRuntime({ device: "cpu" }, async (cpu) => rowTexts(cellTable(await joinOf(cpu).toTable())));
    const algorithm = "triton";

    test.each([
        ["no page near", { interleave: { device: 0, far: 1 } }],
        ["every other page near", { interleave: { device: 1, far: 1 } }],
        ["mapped pages", { interleave: { device: 0, far: 1 }, pages: "mapped" }]
    ] as const)("have their far pages there, with %s", async (what, experiment) => {
        const body = async (gpu: Runtime): Promise<void> => {
            const query = joinOf(gpu, { algorithm, experiment: { radixBits: 3, ...experiment } });
            const text = String(await query.explain());
            expect(text).toMatch(/in turns, \d+ near to \d+ far: .*[\d,]+ of a peer's memory \(as asked for\)/);
            expectSameRows(rowTexts(cellTable(await query.toTable())), await expected, what);
            const { spilled, peer } = spillOf(query);
            expect(spilled).toBeGreaterThan(1000);
            expect(peer).toBe(spilled);
            expect(await query.count()).toBe((await expected).length);
            expect(spillOf(query)).toMatchObject({ peer: spilled, spilled });
        };
        await withPeer("64MiB", body, { residentShare: undefined, radixBits: undefined, chunkRows: undefined });
    });

    test("have the rest of them in host memory", async () => {
        const body = async (gpu: Runtime): Promise<void> => {
            const query = joinOf(gpu, { algorithm, experiment: { interleave: { device: 0, far: 1 } } });
            expect(String(await query.explain())).toMatch(/far: 2 of a peer's memory, [\d,]+ of host memory/);
            expectSameRows(rowTexts(cellTable(await query.toTable())), await expected, "two pages");
            const { spilled, peer, disk } = spillOf(query);
            expect(peer).toBeGreaterThan(0);
            expect(peer).toBeLessThanOrEqual(2 ** 17);
            expect(peer).toBeLessThan(spilled);
            expect(disk).toBe(0);
        };
        await withPeer(2 ** 17 + 5, body, { residentShare: undefined });
    });

    test("are refused where neither has room for them", async () => {
        const body = async (gpu: Runtime): Promise<void> => {
            const message = expect.stringMatching(
                /memory of either GPU need .* raise memory\.host or memory\.peer/
            ) as string;
            await expect(joinOf(gpu, { algorithm }).count()).rejects.toMatchObject({ message });
        };
        await withPeer(2 ** 17, body, { hostSpillBytes: 0 });
    });
});

test("memory of a peer is told with its rates, once the GPU is open", async () => {
    await withPeer("16MiB", async (gpu) => {
        expect(gpu.memory().peer).toBeUndefined();
        await queries["join"]!(gpu).count();
        expect(gpu.memory().peer).toEqual({
            limitBytes: 2 ** 24,
            readBytesPerMs: expect.any(Number) as number,
            writeBytesPerMs: expect.any(Number) as number
        });
    });
    await withPeer(undefined, async (gpu) => {
        await queries["join"]!(gpu).count();
        expect(gpu.memory().peer).toBeUndefined();
    });
});
