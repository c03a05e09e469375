// SPDX-License-Identifier: Apache-2.0
// Which texts lie in the rows themselves, what has to be known for it, and what keys of both sides agree on.
import { Dictionary, Int32, Utf8, Utf8View } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { Job } from "../../../src/execute/job.js";
import type { KeySpec } from "../../../src/model/column-type.js";
import type { InputInfo, LogicalNode } from "../../../src/plan/logical.js";
import type { PartitionDescription, Plan } from "../../../src/plan/plan.js";
import { wantedTexts, type TextLengths } from "../../../src/planner/inline-texts.js";
import { planQuery, type PlanQuery } from "../../../src/planner/plan-query.js";
import { defaultPolicy } from "../../../src/planner/policy.js";
import { StatisticsCache } from "../../../src/runtime/statistics-cache.js";
import { FakeBinding } from "../../support/fake-binding.js";
import { failureOf } from "../../support/made-up-gpu.js";
import { group, inputNode, join, planQueryOf } from "../../support/planning.js";

const columns = { k: new Utf8(), n: new Int32(), w: new Utf8View(), d: new Dictionary(new Utf8(), new Int32()) };
const rows = 1_000_000;
const relation = (name: string, more: object = {}): LogicalNode => inputNode(columns, { rows, name, ...more });
const inputOf = (node: LogicalNode): InputInfo => (node as Extract<LogicalNode, { kind: "input" }>).input;
const lengths = (...of: [LogicalNode, (number | undefined)[]][]): TextLengths =>
    new Map(of.map(([node, longest]) => [inputOf(node), longest]));

/** All specifications of passes of the plan, in order. */
function specsOf(plan: Plan): PartitionDescription[] {
    const ofStages = plan.stages.flatMap((stage) => {
        if (stage.kind === "hashGroup") return [stage.inputSpec];
        return stage.kind === "streamingJoin" ? [stage.probeSpec] : [];
    });
    return [...plan.sets.map(({ spec }) => spec), ...ofStages];
}

const keysOf = (plan: Plan): string[] =>
    specsOf(plan).map(({ keys }) => keys.map(({ kind, width }: KeySpec) => `${kind} ${width}`).join());

// Both sides of a join are partitioned, so that each has a set to look at.
function planOf(root: LogicalNode, textLengths: TextLengths, more: Partial<PlanQuery> = {}): Plan {
    return planQuery(planQueryOf(root, { textLengths, debug: { algorithm: "radix" }, ...more }));
}

describe("keys", () => {
    const one = relation("one");
    const groups = group(one, { keys: ["k"], aggregates: { n: { count: "*" } } });

    test.each([
        [0, "inlineBytes 2"],
        [1, "inlineBytes 2"],
        [7, "inlineBytes 8"],
        [32, "inlineBytes 33"],
        [33, "bytes 0"],
        [undefined, "bytes 0"]
    ])("of at most %s bytes are %s", (longest, key) => {
        expect(keysOf(planOf(groups, lengths([one, [longest]])))).toEqual([key]);
    });

    test("stay references where most texts are far shorter than the longest", () => {
        const short = relation("short", { textBytes: 2 });
        const root = group(short, { keys: ["k"], aggregates: { n: { count: "*" } } });
        expect(keysOf(planOf(root, lengths([short, [19]])))).toEqual(["inlineBytes 20"]);
        expect(keysOf(planOf(root, lengths([short, [24]])))).toEqual(["bytes 0"]);
    });

    test("stay references once a text was found that is longer", () => {
        expect(keysOf(planOf(groups, lengths([one, [7]]), { longText: true }))).toEqual(["bytes 0"]);
    });

    test("are as wide on both sides of a join, also behind dictionaries", () => {
        const other = relation("other");
        const plain = join(one, other, { on: "k" });
        expect(keysOf(planOf(plain, lengths([one, [5]], [other, [11]])))).toEqual(["inlineBytes 12", "inlineBytes 12"]);
        expect(keysOf(planOf(plain, lengths([one, [5]], [other, [40]])))).toEqual(["bytes 0", "bytes 0"]);
        expect(keysOf(planOf(plain, lengths([one, [5]])))).toEqual(["bytes 0", "bytes 0"]);
        const decoded = join(one, other, { on: { k: "d" } });
        const both = planOf(decoded, lengths([one, [5]], [other, [undefined, undefined, undefined, 6]]));
        expect(keysOf(both).sort()).toEqual(["dictionaryValue 7", "inlineBytes 7"]);
    });

    test("of an operator's rows are as long as those of the inputs they come from", () => {
        const other = relation("other");
        const joined = join(one, other, { on: "n" });
        const root = group(joined, { keys: ["k"], aggregates: { n: { count: "*" } } });
        const plan = planOf(root, lengths([one, [9]], [other, [3, undefined, 4]]), {
            debug: { algorithm: "partitioned" }
        });
        expect(keysOf(plan)).toContain("inlineBytes 10");
    });
});

describe("carried texts", () => {
    const [left, right] = [relation("l"), relation("r")];
    const root = join(left, right, { on: "n", select: ["k", "w", "k_right"] });

    test("are in the rows of both sides where they are short", () => {
        const known = lengths([left, [7, undefined, 12, 3]], [right, [60]]);
        const bytes = specsOf(planOf(root, known)).map(({ carry, carryBytes }) => ({ carry, carryBytes }));
        expect(bytes).toContainEqual({ carry: [0, 2], carryBytes: [8, 13] });
        expect(bytes).toContainEqual({ carry: [0], carryBytes: undefined });
    });

    test("are looked at only where the result has them", () => {
        const wanted = (sink: "count" | "batches") =>
            [...wantedTexts(root, sink, defaultPolicy)].map(([{ name }, of]) => [name, of]);
        expect(wanted("count")).toEqual([]);
        expect(wanted("batches")).toEqual([
            ["l", [0, 2]],
            ["r", [0]]
        ]);
        const long = relation("long", { textBytes: 50 });
        const few = relation("few", { rows: 1000 });
        const names = (of: LogicalNode) => [...wantedTexts(of, "batches", defaultPolicy)].map(([{ name }]) => name);
        expect(names(join(long, few, { on: "k" }))).toEqual(["few"]);
        expect(names(join(few, relation("fewer", { rows: 10 }), { on: "k" }))).toEqual([]);
    });
});

describe("the longest texts", () => {
    const root = group(relation("t"), { keys: ["k", "w"], aggregates: { n: { count: "*" } } });
    const input = inputOf(root.child);
    const policy = { ...defaultPolicy, devicePackedRowsMin: Infinity };
    function cacheOn(failure?: Error) {
        const asked: number[][] = [];
        const fake = new FakeBinding({
            longestTexts: async (_: unknown, _source: unknown, of: number[]) => {
                asked.push(of);
                if (failure !== undefined) throw failure;
                return of.map((column) => 5 + column);
            }
        });
        const cache = new StatisticsCache();
        const job = new Job(fake.binding, "engine" as never, undefined);
        const collect = async () => await cache.collect(job, root, policy, 2, { sink: "batches" });
        return { fake, cache, asked, collect };
    }

    test("are found once for a relation, and again when one was found to be longer", async () => {
        const { fake, cache, asked, collect } = cacheOn();
        expect(cache.known(root, policy, "batches")).toBeUndefined();
        await collect();
        await collect();
        expect(asked).toEqual([[0, 2]]);
        expect([...cache.textLengths(root).values()]).toEqual([[5, undefined, 7, undefined]]);
        expect(cache.known(root, policy, "batches")).toBeDefined();
        cache.forgetTexts(input);
        expect([...cache.textLengths(root)]).toEqual([]);
        await collect();
        expect(asked).toHaveLength(2);
        expect(fake.leftOpen).toEqual([]);
    });

    test("are done without where memory is short, and fail the query for any other reason", async () => {
        const short = cacheOn(failureOf("BUDGET_TOO_SMALL"));
        await short.collect();
        expect([...short.cache.textLengths(root)]).toEqual([]);
        const changed = cacheOn(failureOf("FILE_CHANGED"));
        await expect(changed.collect()).rejects.toMatchObject({ code: "FILE_CHANGED" });
        expect(changed.fake.leftOpen).toEqual([]);
    });
});
