// SPDX-License-Identifier: Apache-2.0
// The join by an array that is indexed by its keys: which keys it takes, and how others are refused.
import { Float64, Int16, Int32, Int64, Uint64, Utf8, type DataType, type Table } from "apache-arrow";
import type { Query, Relation, Runtime } from "spillway";
import { describe, expect, test } from "vitest";
import { profileFor } from "../../support/device-profile.js";
import { withRuntime } from "../../support/gpu-runtime.js";
import { useGpu } from "../../support/gpu.js";
import { count, joined, keyed, onGpu, rowsOf } from "../../support/named-joins.js";
import { Sandbox } from "../../support/sandbox.js";

useGpu();

describe("perfect hashing", () => {
    const probes = (type: DataType, make: (i: number) => unknown): Table => keyed(count(500, make), type);

    test.each([
        ["around 0", new Int32(), (i: number) => i - 100],
        ["of 16 bits around 0", new Int16(), (i: number) => i - 100],
        ["of 64 bits around 0", new Int64(), (i: number) => BigInt(i) - 100n],
        ["at the end of 64 bits", new Uint64(), (i: number) => 2n ** 64n - 1n - BigInt(i)],
        ["far from 0, with gaps and NULLs", new Int32(), (i: number) => (i % 5 === 0 ? null : 2_000_000_000 + 3 * i)]
    ])("dense keys %s", async (_, type, make) => {
        const [left, right] = [keyed(count(300, make), type), probes(type, make)];
        const expected = await withRuntime({ device: "cpu" }, (cpu) => rowsOf(joined(cpu, left, right, "auto")));
        await withRuntime(onGpu, async (runtime) => {
            expect(await rowsOf(joined(runtime, left, right, "npj-perfect"))).toEqual(expected);
        });
    });

    test("no rows, and no keys but NULL", async () => {
        await withRuntime(onGpu, async (runtime) => {
            const right = probes(new Int32(), (i) => i);
            for (const rows of [0, 50]) {
                const empty = keyed(
                    count(rows, () => null),
                    new Int32()
                );
                expect(await joined(runtime, empty, right, "npj-perfect").count()).toBe(0);
            }
        });
    });

    test.each([
        ["repeated", keyed(count(300, (i) => i >> 1)), "inner", /may come twice/],
        ["sparse", keyed(count(300, (i) => i * 1_000_000)), "inner", /not dense/],
        ["text", keyed(count(300, String), new Utf8()), "inner", /no integer/],
        ["floats", keyed(count(300), new Float64()), "left", /no integer/]
    ] as const)("%s keys are refused with the reason, on every device but the CPU", async (_, table, type, reason) => {
        for (const device of ["gpu", "auto"] as const) {
            await withRuntime({ ...onGpu, device }, async (runtime) => {
                const query = joined(runtime, table, table, "npj-perfect", type);
                const failure = { code: "INVALID_ARGUMENT", details: { option: "algorithm" } };
                await expect(query.count()).rejects.toMatchObject(failure);
                await expect(query.explain()).rejects.toThrow(reason);
            });
        }
    });

    test.each(["left", "right", "full", "semi", "anti"] as const)("%s joins", async (type) => {
        const [left, right] = [keyed(count(300)), keyed(count(500, (i) => (i % 7 === 0 ? null : 2 * i)))];
        const expected = await withRuntime({ device: "cpu" }, (cpu) => rowsOf(joined(cpu, left, right, "auto", type)));
        await withRuntime(onGpu, async (runtime) => {
            const query = joined(runtime, left, right, "npj-perfect", type);
            expect(await rowsOf(query)).toEqual(expected);
            const stage = query.report()?.stages.find(({ name }) => name === "join");
            expect(stage?.algorithm).toMatch(new RegExp(`^npj-perfect, .*, ${type} \\(chosen by the user\\)$`));
        });
    });

    test("takes the other side where only that one is dense and unique, unless a hint forbids it", async () => {
        const [repeated, dense] = [keyed(count(200, (i) => i >> 1)), keyed(count(900))];
        await withRuntime(onGpu, async (runtime) => {
            const [left, right] = [runtime.fromTable(repeated), runtime.fromTable(dense)];
            const options = { left, right, on: "k", algorithm: "npj-perfect" } as const;
            expect(await runtime.join(options).count()).toBe(200);
            const forbidden = runtime.join({ ...options, hints: { buildSide: "left" } });
            await expect(forbidden.count()).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
            // A group-by by the key alone has each of its values once.
            const groups = left.groupBy({ keys: ["k"], aggregates: { n: { count: "*" } } });
            const joinedGroups = groups.join(right, {
                on: "k",
                algorithm: "npj-perfect",
                hints: { buildSide: "left" }
            });
            expect(await joinedGroups.count()).toBe(100);
        });
    });
});

describe("perfect hashing, chosen by the planner", () => {
    const rows = 20_000;
    // No piece of a sample of 16,384 rows has this row.
    const unseen = 300;
    // More than what is sampled for a group-by.
    const many = 200_000;
    const keys = (type: DataType, make: (i: number) => unknown): Table => keyed(count(rows, make), type);

    async function withQuery(left: Table, body: (query: Query, expected: string[]) => Promise<void>): Promise<void> {
        const right = keyed(
            count(rows, (i) => (left.getChildAt(0)?.get((i * 7) % rows) as unknown) ?? null),
            left.schema.fields[0]?.type
        );
        const expected = await withRuntime({ device: "cpu" }, (cpu) => rowsOf(joined(cpu, left, right, "auto")));
        using sandbox = new Sandbox();
        const machine = profileFor(sandbox, "npj-perfect");
        await withRuntime({ ...onGpu, machine }, async (runtime) => {
            await body(joined(runtime, left, right, "auto"), expected);
        });
    }
    const algorithmOf = (query: Query): string | undefined =>
        query.report()?.stages.find(({ name }) => name === "join")?.device?.algorithm;

    test.each([
        ["around 0", new Int32(), (i: number) => ((i * 7919) % rows) - 9000],
        ["of 16 bits, far from 0", new Int16(), (i: number) => i + 10_000],
        ["of 64 bits, from the smallest number on", new Int64(), (i: number) => -(2n ** 63n) + BigInt(i)],
        ["of 64 bits without a sign, at their end", new Uint64(), (i: number) => 2n ** 64n - 1n - BigInt(i)],
        ["with gaps and NULLs", new Int32(), (i: number) => (i % 5 === 0 ? null : 2_000_000_000 + 3 * i)]
    ])("dense keys %s: the range is found on the GPU", async (_, type, make) => {
        await withQuery(keys(type, make), async (query, expected) => {
            expect(String(await query.explain())).toMatch(
                /npj-perfect, .* on the GPU, inner \(chosen by the planner\)/
            );
            expect(await rowsOf(query)).toEqual(expected);
            expect(algorithmOf(query)).toBe("npj-perfect");
            expect(await query.count()).toBe(expected.length);
        });
    });

    test.each([
        ["a key twice", (i: number) => (i === unseen ? 7 : i)],
        ["a key far from the others", (i: number) => (i === unseen ? 2_000_000_000 : i)]
    ])("%s that no sample has: joined again by another algorithm, and remembered", async (_, make) => {
        await withQuery(keys(new Int32(), make), async (query, expected) => {
            expect(String(await query.explain())).toMatch(/npj-perfect, .* \(chosen by the planner\)/);
            expect(await rowsOf(query)).toEqual(expected);
            expect(algorithmOf(query)).toBe("phj-tr");
            expect(query.report()?.device).toBe("gpu");
            // The next plan does not try again.
            expect(String(await query.explain())).not.toContain("npj-perfect, ");
            expect(await query.count()).toBe(expected.length);
        });
    });

    const far = 2_000_000_000;
    const withFarKey = (): Table => keyed(count(many, (i) => (i === unseen ? far : i)));
    // No array for it: each key twice.
    const twice = (): Table => keyed(count(many, (i) => (i === unseen ? far : i >> 1)));

    test.each([
        ["groups", (relation: Relation): Query | Relation => relation, many - 1],
        [
            "groups of a join",
            (relation: Relation, runtime: Runtime): Query | Relation =>
                relation.join(runtime.fromTable(twice()), { on: "k", hints: { buildSide: "right" } }),
            many / 2 - 1
        ]
    ])("%s with a key far from the others: refused once", async (_, make, expected) => {
        using sandbox = new Sandbox();
        await withRuntime({ ...onGpu, machine: profileFor(sandbox, "npj-perfect") }, async (runtime) => {
            const source = make(runtime.fromTable(withFarKey()), runtime);
            const groups = source.groupBy({ keys: ["k"], aggregates: { n: { count: "*" } } });
            const query = groups.join(runtime.fromTable(keyed(count(many))), { on: "k", hints: { buildSide: "left" } });
            expect(String(await query.explain())).toContain("npj-perfect, ");
            expect(await query.count()).toBe(expected);
            expect(String(await query.explain())).not.toContain("npj-perfect, ");
            expect(await query.count()).toBe(expected);
        });
    });

    test("what was refused is not tried again with a sample of another size", async () => {
        using sandbox = new Sandbox();
        await withRuntime({ ...onGpu, machine: profileFor(sandbox, "npj-perfect") }, async (runtime) => {
            const other = runtime.fromTable(keyed(count(many)));
            const options = { on: "k", hints: { buildSide: "left" } } as const;
            const groupsOf = (source: Relation): Query =>
                source.groupBy({ keys: ["k"], aggregates: { n: { count: "*" } } }).join(other, options);
            const [refused, asked] = [withFarKey(), withFarKey()].map((table) => runtime.fromTable(table));
            const query = refused!.join(other, options);
            expect(String(await query.explain())).toContain("npj-perfect, ");
            expect(await query.count()).toBe(many - 1);
            expect(String(await groupsOf(asked!).explain())).toContain("npj-perfect, ");
            expect(String(await groupsOf(refused!).explain())).not.toContain("npj-perfect, ");
        });
    });

    test("keys that a sample shows twice, or far apart, are never tried", async () => {
        for (const make of [(i: number) => i >> 1, (i: number) => i * 100_000]) {
            await withQuery(keys(new Int32(), make), async (query, expected) => {
                expect(String(await query.explain())).not.toContain("npj-perfect");
                expect(await query.count()).toBe(expected.length);
            });
        }
    });
});
