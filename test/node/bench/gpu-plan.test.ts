// SPDX-License-Identifier: Apache-2.0
// What is computed of records: joins whose bytes depend on a table in two memories or on the CPU, and records that are
// there already.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { PackedBench } from "../../support/packed-bench.js";
import { repositoryRoot } from "../../support/source-tree.js";

type Links = Partial<Record<"h2d" | "d2h", number>>;
interface Prediction {
    link_bytes: Links;
    bytes_per_tuple: Links;
    phases: { build_ms?: number; probe_ms?: number; spilled_ms: number };
    ms: number;
}

const bench = async <T>(file: string) => (await import(join(repositoryRoot, "test/bench", file))) as T;
const { predictJoin } = await bench<{ predictJoin: (record: unknown) => Prediction | undefined }>("gpu-link-plan.mjs");

const mib = 2 ** 20;
const rows = 2 ** 26;
const recordOf = (algorithm: string, of: object = {}, options?: object) => ({
    algorithm,
    workload: {
        ...{ key_bytes: 8, payload_bytes: { build: [8], probe: [8] }, build_rows: rows, probe_rows: rows },
        ...{ match_ratio: 1, zipf: 0, result: "sums", inputs: "host", memory_limit_bytes: 2 ** 30, ...of }
    },
    ...(options === undefined ? {} : { options }),
    ...{ rows_in: 2 * rows, rows_out: rows, sizes: { chunk_rows: 2 ** 20 }, copy_gb_per_s: { h2d: 50, d2h: 40 } }
});
const halfFar = { "device-stripes": 1, "host-stripes": 1 };

/** Mean sectors of 32 bytes in the walks of keys that a table of 16-byte slots has, and of ones that it has not. */
function walkTable(slots: number, load: number) {
    let state = 12345;
    const random = () => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return Math.floor((state / 2 ** 32) * slots);
    };
    const taken = new Uint8Array(slots);
    const homes = Array.from({ length: Math.floor(slots * load) }, random);
    for (const home of homes) {
        let slot = home;
        while (taken[slot] === 1) slot = (slot + 1) % slots;
        taken[slot] = 1;
    }
    const sectors = (home: number) => {
        const read = new Set<number>();
        for (let slot = home; taken[slot % slots] === 1; ++slot) read.add(Math.floor(slot / 2));
        return read.size;
    };
    const mean = (values: number[]) => values.reduce((total, value) => total + value, 0) / values.length;
    return { found: mean(homes.map(sectors)), missed: mean(homes.map(() => sectors(random()))) };
}

describe("a table in GPU and host memory", () => {
    test.each([50, 80])("of %d %% taken slots is walked through in sectors, each once", (percent) => {
        const walks = walkTable(2 ** 18, percent / 100);
        for (const [match_ratio, sectors] of [
            [1, walks.found],
            [0.5, (walks.found + walks.missed) / 2]
        ]) {
            const record = recordOf("npj-far", { match_ratio }, { ...halfFar, "load-percent": percent });
            const { link_bytes } = predictJoin(record) as Prediction;
            const read = ((link_bytes.h2d ?? 0) - 32 * rows) / (rows / 2) / 32;
            expect(read / (sectors ?? 0)).toBeCloseTo(1, 1);
            expect(link_bytes.d2h).toBe((rows / 2) * 16);
        }
    });

    test("as an array is read a sector for each row with a partner, and written a column at a time", () => {
        const { bytes_per_tuple, phases } = predictJoin(recordOf("npj-far-perfect", {}, halfFar)) as Prediction;
        expect(bytes_per_tuple).toEqual({ h2d: 16 + 32 / 4, d2h: 8 / 4 });
        expect(phases.probe_ms).toBeCloseTo((rows * (16 + 16)) / 50e6, 3);
        const half = predictJoin(recordOf("npj-far-perfect", { match_ratio: 0.5 }, halfFar)) as Prediction;
        expect(half.bytes_per_tuple.h2d).toBe(16 + 32 / 8);
    });

    test("is far as far as the limit has no room beside chunks, bits and a reserve", () => {
        // 2^27 slots of 16 bytes are 128 stripes of 16 MiB, and one for the slot more.
        const kept = 64 + 6 * 16 + 16;
        const far = (limitMib: number) =>
            ((predictJoin(recordOf("npj-far", { memory_limit_bytes: limitMib * mib })) as Prediction).link_bytes.d2h ??
                0) /
            (16 * rows);
        expect(far(kept + 130 * 16)).toBe(0);
        expect(far(kept + 64 * 16 + 1)).toBeCloseTo(65 / 129, 6);
        expect(far(kept / 2)).toBe(1);
    });

    test("is not predicted where caches or repeated walks decide", () => {
        for (const of of [{ zipf: 1 }, { result: "rows" }, { distinct_keys: 2 ** 20 }]) {
            expect(predictJoin(recordOf("npj-far", of))).toBeUndefined();
        }
    });
});

test("what the CPU partitions passes the link once, and its own time is not predicted", () => {
    const { bytes_per_tuple, phases, ms } = predictJoin(recordOf("cpu-partitioned")) as Prediction;
    expect(bytes_per_tuple).toEqual({ h2d: 16, d2h: 0 });
    expect(Object.keys(phases)).toEqual(["spilled_ms"]);
    expect(ms).toBeCloseTo((32 * rows) / 50e6, 3);
    const whole = predictJoin(recordOf("cpu-partitioned", { result: "rows" })) as Prediction;
    expect(whole.link_bytes.d2h).toBe(24 * rows);
});

describe("of records that are there, --recompute", () => {
    const computed = ["predicted", "link_bytes_per_tuple", "planned_link_bytes_per_tuple", "targets"];
    const keep = (packed: PackedBench, name: string, text: string) => {
        mkdirSync(dirname(packed.path(name)), { recursive: true });
        writeFileSync(packed.path(name), text);
    };
    const measuredOf = (record: object) =>
        Object.fromEntries(Object.entries(record).filter(([name]) => !computed.includes(name)));

    test.each([
        ["out-of-core-joins", computed],
        ["out-of-core-group-by", computed.slice(0, 3)],
        ["out-of-core-histogram", ["predicted", "planned_link_bytes_per_tuple"]]
    ])("fills what is computed, and nothing else: %s", (experiment, names) => {
        using packed = new PackedBench(false);
        const results = `docs/results/h200/${experiment}.json`;
        const file = packed.path(results);
        const before = JSON.parse(readFileSync(join(repositoryRoot, results), "utf8")) as object[];
        keep(packed, results, JSON.stringify(before.map(measuredOf)));
        const { status, stderr } = packed.run({ median_ms: 1 }, "--experiment", experiment, "--recompute");
        expect([status, stderr]).toEqual([0, `Computed ${file}\n`]);
        const after = JSON.parse(readFileSync(file, "utf8")) as object[];
        expect(after.map(measuredOf)).toEqual(before.map(measuredOf));
        for (const record of after) expect(Object.keys(record)).toEqual(expect.arrayContaining(names));
        packed.run({ median_ms: 1 }, "--experiment", experiment, "--recompute");
        expect(JSON.parse(readFileSync(file, "utf8"))).toEqual(after);
    });

    test("needs records, and no program", () => {
        using packed = new PackedBench(false);
        keep(packed, "docs/results/h200/other.json", "[]");
        const { status, stderr } = packed.run({ median_ms: 1 }, "--experiment", "out-of-core-sizes", "--recompute");
        expect([status, stderr]).toEqual([0, "out-of-core-sizes: there are no records\n"]);
    });
});
