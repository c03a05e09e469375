// SPDX-License-Identifier: Apache-2.0
// Many queries under a small budget, most of them aborted or left somewhere in their middle, some side by side.
// Argument: { seed, queries, sideBySide, threads, budget, folder, left, right }. Says the most bytes that the process
// has had resident, how many queries came to their end, and errors other than aborts and budgets.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { openRuntime } from "spillway";

const { seed, queries, sideBySide, threads, budget, folder, ...paths } = JSON.parse(process.argv[2]);
let state = (seed * 2_654_435_761) >>> 0 || 1;
function random() {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state / 2 ** 32;
}
const pick = (list) => list[Math.floor(random() * list.length)];

const runtime = await openRuntime({ device: "cpu", threads, memory: { host: budget, spillDirectory: folder } });
const [left, right] = [await runtime.fromArrowFile(paths.left), await runtime.fromArrowFile(paths.right)];
const makers = {
    join: () => runtime.join({ left, right, on: "key", type: pick(["inner", "left", "full", "semi", "anti"]) }),
    text: () => runtime.join({ left, right, on: { text: "words" } }),
    group: () =>
        runtime.groupBy(left, {
            keys: [pick(["key", "text"])],
            aggregates: { n: { count: "*" }, last: { max: "text" }, kinds: { countDistinct: "value" } }
        }),
    chain: () =>
        runtime.join({ left, right, on: "key" }).groupBy({ keys: ["text"], aggregates: { sum: { sum: "value" } } })
};
let files = 0;
const ways = {
    async batches(query, signal) {
        let left = pick([1, 3, 10, 1000]);
        for await (const batch of query.batches({ signal })) if (batch.numRows >= 0 && --left === 0) break;
    },
    count: (query, signal) => query.count({ signal }),
    table: (query, signal) => query.toTable({ signal }),
    file: (query, signal) => {
        const path = join(folder, `out-${files++ % sideBySide}-${process.pid}.arrow`);
        return query.toArrowFile(path, { signal, overwrite: true });
    }
};
const ended = { whole: 0, aborted: 0, tooSmall: 0, others: [] };

async function one() {
    const controller = new AbortController();
    const [query, way] = [pick(Object.values(makers))(), pick(Object.values(ways))];
    const delay = pick([0, 1, 3, 10, 30, 100, 300, 1000]) * random();
    const timer = random() < 0.8 ? setTimeout(() => controller.abort(), delay) : undefined;
    try {
        await way(query, controller.signal);
        ended.whole++;
    } catch (error) {
        if (error === controller.signal.reason) ended.aborted++;
        else if (error.code === "BUDGET_TOO_SMALL") ended.tooSmall++;
        else ended.others.push(String(error));
    } finally {
        clearTimeout(timer);
    }
}

let begun = 0;
async function many() {
    while (begun++ < queries) await one();
}
await Promise.all(Array.from({ length: sideBySide }, many));
const peakBytes = Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync("/proc/self/status", "utf8"))[1]) * 1024;
await runtime.close();
process.stdout.write(`result ${JSON.stringify({ peakBytes, ...ended })}\n`);
