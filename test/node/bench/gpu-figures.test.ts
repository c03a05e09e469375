// SPDX-License-Identifier: Apache-2.0
// Figures of what was measured beyond GPU memory: of the records that there are, and of made ones for the others.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { repositoryRoot } from "../../support/source-tree.js";

interface Figure {
    experiment: string;
    select: (records: unknown[]) => unknown[];
    draw: (records: unknown[]) => Promise<string> | undefined;
}
const { figures } = (await import(join(repositoryRoot, "test/bench/plot-out-of-core.mjs"))) as {
    figures: Record<string, Figure>;
};

const recordsOf = (experiment: string) =>
    JSON.parse(readFileSync(join(repositoryRoot, `docs/results/h200/${experiment}.json`), "utf8")) as unknown[];
const draw = async (name: string, records?: unknown[]) => {
    const figure = figures[name] as Figure;
    return (await figure.draw(figure.select(records ?? recordsOf(figure.experiment)))) ?? "";
};
/** Texts of an SVG that are among these, in the order of their names. */
const textsOf = (svg: string, known: string[]) => known.filter((text) => svg.includes(`>${text}<`));

const ofJoin = (name: string, algorithm: string, of: object = {}) => ({
    workload: {
        ...{ name, key_bytes: 8, payload_bytes: { build: [8], probe: [8] }, payload_values: "dense", inputs: "host" },
        ...{ build_rows: 2 ** 28, probe_rows: 2 ** 28, match_ratio: 1, zipf: 0, result: "sums" },
        memory_limit_bytes: 2 ** 32
    },
    ...{ algorithm, g_tuples_per_s: 2, device: "some", samples_ms: [1], rows_in: 2 ** 29, rows_out: 2 ** 28, ...of }
});
const planned = {
    ...{ link_bytes: { h2d: 1 }, copy_gb_per_s: { h2d: 50, d2h: 50 } },
    ...{ sizes: { radix_bits: 4, resident_partitions: 4, chunk_rows: 2 ** 16 }, spilled_rows: { build: 0, probe: 0 } }
};

describe("lines", () => {
    const both = ["measured", "planned bytes at the link's rate"];

    test.each([
        ["out-of-core-sizes", "Joins of two relations, at most 4 GiB of GPU memory"],
        ["out-of-core-device-limit", "Joins of 2^29 rows with as many"],
        ["out-of-core-shapes-ratios", "Joins of 2^30 rows in all, at most 2 GiB of GPU memory: ratio of the sides"],
        [
            "out-of-core-shapes-widths",
            "Joins of 2^29 rows with as many, at most 4 GiB of GPU memory: width of the rows"
        ],
        [
            "out-of-core-shapes-skew",
            "Joins of 2^29 rows with as many, at most 4 GiB of GPU memory: skew of the probe keys"
        ]
    ])("%s: what was measured, and what the bytes allow", async (name, title) => {
        expect(textsOf(await draw(name), [title, ...both])).toEqual([title, ...both]);
    });

    test("of the shapes are each of their own records, and none of one alone", async () => {
        const match = (match_ratio: number) => {
            const one = ofJoin(`match ${match_ratio}`, "staged", planned);
            return { ...one, workload: { ...one.workload, match_ratio } };
        };
        const two = await draw("out-of-core-shapes-matches", [match(1), match(0.5)]);
        expect(textsOf(two, [...both, "% of the probe rows"])).toHaveLength(3);
        const filtered = { ...match(0.5), workload: { ...match(0.5).workload, filter_bits: 8 } };
        const three = await draw("out-of-core-shapes-matches", [match(1), match(0.5), filtered]);
        expect(textsOf(three, [...both, "without a filter", "with a Bloom filter"])).toHaveLength(2);
        expect(await draw("out-of-core-shapes-matches", [match(1)])).toBe("");
        expect(figures["out-of-core-shapes-ratios"]?.select([match(1), match(0.5)])).toEqual([]);
        const large = { ...match(1), workload: { ...match(1).workload, build_rows: 2 ** 32, probe_rows: 2 ** 32 } };
        expect(figures["out-of-core-shapes-widths"]?.select([match(1), large])).toEqual([match(1)]);
    });

    test("have one for each partitioner, panels by places", async () => {
        const records = ["linear", "bulk"].flatMap((algorithm) =>
            [0, 12].map((bits) => ({
                workload: { bits, tuple_bytes: 16, source: "host", destination: "host", form: "pages" },
                ...{ algorithm, gb_per_s: 40 - bits, device: "some", samples_ms: [1] }
            }))
        );
        for (const name of [
            "out-of-core-partition",
            "out-of-core-partition-contiguous",
            "out-of-core-partition-peer"
        ]) {
            expect(textsOf(await draw(name, records), ["linear", "bulk", "shared"])).toEqual(["linear", "bulk"]);
        }
        const panels = ["host to host, pages", "host to device, pages"];
        expect(textsOf(await draw("out-of-core-partition"), panels)).toEqual(panels);
    });

    test("tell who counts, how many groups there are, how many blocks", async () => {
        const counted = ["histogram by the CPU", "histogram by the GPU", "hierarchical", "bulk"];
        expect(textsOf(await draw("out-of-core-histogram"), counted)).toEqual(counted);
        const limits = ["4 GiB of GPU memory", "16 GiB of GPU memory", "log2 of the groups"];
        expect(textsOf(await draw("out-of-core-group-by"), limits)).toEqual(limits);
        expect(textsOf(await draw("out-of-core-multiprocessors"), ["hierarchical", "shared", "bulk"])).toHaveLength(3);
    });

    test("of shares of multiprocessors have a panel for each way to share them", async () => {
        const coherent = (options: object) => ofJoin("w", "triton", { ...planned, options });
        const svg = await draw("out-of-core-sm-share", [
            coherent({ partitioner: "bulk", grid: 16 }),
            coherent({ partitioner: "bulk", grid: 132 }),
            coherent({ partitioner: "bulk", "gather-grid": 33 }),
            ofJoin("w", "staged", { ...planned, options: { "busy-multiprocessors": 66 } })
        ]);
        const texts = [
            ...["blocks of the first pass", "blocks of the second pass"],
            ...["multiprocessors that others keep busy", "triton, bulk", "staged"]
        ];
        expect(textsOf(svg, texts)).toEqual(texts);
    });

    test("of pages in turns begin and end where all pages are in one memory", async () => {
        const turns = ([near, far]: readonly [number, number]) => ({
            ...ofJoin("w", "triton", planned),
            ...{ options: { partitioner: "bulk", "device-pages": near, "far-pages": far } },
            coherent: { device_pages: near, far_pages: far }
        });
        const svg = await draw(
            "out-of-core-interleave",
            (
                [
                    [1, 0],
                    [1, 1],
                    [0, 1]
                ] as const
            ).map(turns)
        );
        expect(textsOf(svg, ["bulk", "0", "100", "% of the pages in GPU memory"])).toHaveLength(4);
    });
});

describe("bars", () => {
    const names = ["staged", "staged-uncached", "cpu-radix", "triton, partitioner bulk"];

    test("have a panel for each workload, a tick for what was planned and a line for the target", async () => {
        const records = [
            ofJoin("first", "staged", { ...planned, targets: { g_tuples_per_s: 3 } }),
            ofJoin("first", "cpu-radix"),
            ofJoin("second", "staged", planned),
            ofJoin("second", "triton", { ...planned, options: { partitioner: "bulk" } })
        ];
        for (const experiment of ["baselines", "duckdb", "partitioners", "peer"]) {
            const svg = await draw(`out-of-core-${experiment}`, records);
            expect(textsOf(svg, ["first", "second", ...names])).toEqual([
                "first",
                "second",
                names[0],
                names[2],
                names[3]
            ]);
            expect(svg).toContain("black tick: the planned bytes at the links' rates; red line: target");
            expect(svg.match(/fill="#c0392b"/g)).toHaveLength(1);
            expect(svg.match(/fill="black"[^>]*>?/g)?.length).toBeGreaterThanOrEqual(3);
        }
        expect(await draw("out-of-core-peer", records.slice(2))).not.toContain("red line");
    });

    test("have a target that is told as a multiple of DuckDB's rate", async () => {
        const aimed = ofJoin("w", "staged", { ...planned, targets: { times_duckdb: 15 } });
        const duckdb = ofJoin("w", "duckdb", { g_tuples_per_s: 0.1 });
        expect(await draw("out-of-core-duckdb", [aimed, duckdb])).toContain("red line: target");
        expect(await draw("out-of-core-duckdb", [aimed])).not.toContain("red line");
    });

    test("are named after the workloads where one algorithm ran", async () => {
        const titles = ["2^29 x 2^29, 64 GiB, sums", "2^30 x 2^30, 16 GiB, rows"];
        expect(textsOf(await draw("out-of-core-joins"), [...titles, "staged"])).toEqual(titles);
    });

    test("of the breakdown are made of the phases, of ranges of stripes by their size", async () => {
        const phases = ["build side in", "probe side in", "spilled partitions", "staged", "staged-uncached"];
        expect(textsOf(await draw("out-of-core-breakdown"), phases)).toEqual(phases);
        const stripes = ["stripes of 2 MiB", "stripes of 64 MiB", "1 device : 3 host", "host", "read and write"];
        expect(textsOf(await draw("tiers"), stripes)).toEqual(stripes);
        expect(await draw("tiers", [])).toBe("");
    });
});
