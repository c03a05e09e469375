// SPDX-License-Identifier: Apache-2.0
// Many queries at once on one runtime, some of them aborted: every one ends, in time and with the right answer.
import { tableFromArrays, type Table } from "apache-arrow";
import { openRuntime, type Runtime } from "spillway";
import { expect, test } from "vitest";
import { forSeeds, runsOneSeed, type Random } from "../../support/random.js";
import { Sandbox } from "../../support/sandbox.js";
import { knobs } from "../../support/knobs.js";

const queriesPerRound = 40;
// A query takes milliseconds; a runner that is busy with other things gets its time.
const deadlineMs = 20_000;

interface Trial {
    readonly text: string;
    /** Milliseconds until the query is aborted; undefined = never. */
    readonly abortAfter: number | undefined;
    readonly run: (signal: AbortSignal) => Promise<void>;
}

async function inTime<T>(what: string, work: Promise<T>): Promise<T> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new Error(`${what}: hangs, no end within ${deadlineMs} ms`)), deadlineMs);
    });
    try {
        return await Promise.race([work, late]);
    } finally {
        clearTimeout(timer);
    }
}

function numbers(random: Random, rows: number, domain: number): Int32Array {
    return Int32Array.from({ length: rows }, () => random.below(domain));
}

/** Bits and pages that make a small query spill, split, wait and go in chunks as a large one does. */
function tightKnobs(random: Random) {
    return {
        workers: random.between(1, 4),
        radixBits: random.pick([0, 2, 5]),
        secondRadixBits: random.pick([0, 0, 3]),
        pageBytes: random.pick([1024, 4096]),
        forceSpill: random.chance(0.3),
        packSpilled: random.chance(0.5),
        buildChunkBytes: random.pick([4096, 65_536, 2 ** 24]),
        probeSplitRows: random.pick([256, 2 ** 20]),
        morselRows: random.pick([100, 1000])
    };
}

function groupTrial(random: Random, runtime: Runtime): Omit<Trial, "abortAfter"> {
    const rows = random.pick([1, 100, 3000, 30_000]);
    const [k, v] = [numbers(random, rows, random.pick([1, 50, 20_000])), numbers(random, rows, random.pick([2, 5000]))];
    const distinct = new Map<number, Set<number>>();
    k.forEach((key, row) => distinct.set(key, (distinct.get(key) ?? new Set()).add(v[row]!)));
    const algorithm = random.pick(["hash", "partitioned"] as const);
    const query = runtime.groupBy(runtime.fromTable(tableFromArrays({ k, v })), {
        keys: ["k"],
        aggregates: { kinds: { countDistinct: "v" }, rows: { count: "*" } },
        ...knobs({ ...tightKnobs(random), algorithm })
    });
    const text = `${algorithm} group-by of ${rows} rows, ${distinct.size} groups`;
    return {
        text,
        run: async (signal) => {
            const result: Table = await query.toTable({ signal });
            const [keys, kinds] = [result.getChild("k")!, result.getChild("kinds")!];
            expect(result.numRows, text).toBe(distinct.size);
            const wrong = [...keys].findIndex((key, row) => distinct.get(Number(key))?.size !== Number(kinds.get(row)));
            expect(wrong, `group with a wrong count in ${text}`).toBe(-1);
        }
    };
}

function joinTrial(random: Random, runtime: Runtime): Omit<Trial, "abortAfter"> {
    const rows = [random.pick([10, 3000, 20_000]), random.pick([10, 3000, 20_000])] as const;
    const [left, right] = rows.map((count) => numbers(random, count, 20_000)) as [Int32Array, Int32Array];
    const partners = new Map<number, number>();
    for (const key of right) partners.set(key, (partners.get(key) ?? 0) + 1);
    const matches = left.reduce((sum, key) => sum + (partners.get(key) ?? 0), 0);
    const relation = (k: Int32Array, v: string) => runtime.fromTable(tableFromArrays({ k, [v]: k }));
    const algorithm = random.pick(["radix", "radix", "streaming"] as const);
    const query = runtime.join({
        left: relation(left, "a"),
        right: relation(right, "b"),
        on: "k",
        ...knobs({ ...tightKnobs(random), algorithm })
    });
    const counts = random.chance(0.5);
    const text = `${algorithm} join of ${rows.join(" x ")} rows${counts ? ", counted" : ""}`;
    return {
        text,
        run: async (signal) => {
            const found = counts ? await query.count({ signal }) : (await query.toTable({ signal })).numRows;
            expect(found, text).toBe(matches);
        }
    };
}

/** Runs the trial to its end or its abort; returns whether it ran to its end. */
async function runTrial({ text, abortAfter, run }: Trial, seed: number): Promise<boolean> {
    const controller = new AbortController();
    const reason = new Error("no longer wanted");
    const timer = abortAfter === undefined ? undefined : setTimeout(() => controller.abort(reason), abortAfter);
    try {
        await inTime(`seed ${seed}, ${text}, aborted after ${abortAfter ?? "no"} ms`, run(controller.signal));
        return true;
    } catch (error) {
        if (error !== reason) throw error;
        return false;
    } finally {
        clearTimeout(timer);
    }
}

test("queries side by side all end, whoever is aborted", async () => {
    let aborted = 0;
    await forSeeds(60_000, 8, async (random, seed) => {
        using sandbox = new Sandbox();
        const host = random.pick(["8MiB", "16MiB", "48MiB"]);
        const threads = 1 + (seed % 4);
        const runtime = await openRuntime({ threads, memory: { host, spillDirectory: sandbox.spill } });
        const trials = Array.from({ length: queriesPerRound }, (): Trial => {
            const trial = random.chance(0.6) ? groupTrial(random, runtime) : joinTrial(random, runtime);
            return { ...trial, abortAfter: random.chance(0.3) ? random.below(60) : undefined };
        });
        const outcomes = await Promise.allSettled(trials.map((trial) => runTrial(trial, seed)));
        for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
        await inTime(`seed ${seed}: memory given back`, usedNothing(runtime));
        await inTime(`seed ${seed}: closing the runtime`, runtime.close());
        aborted += outcomes.filter((outcome) => outcome.status === "fulfilled" && !outcome.value).length;
        await sandbox.expectClean();
    });
    // Aborts that all come too late would test nothing.
    if (!runsOneSeed) expect(aborted).toBeGreaterThan(0);
});

async function usedNothing(runtime: Runtime): Promise<void> {
    while (runtime.memory().host.usedBytes > 0) await new Promise((resolve) => setTimeout(resolve, 5));
}
