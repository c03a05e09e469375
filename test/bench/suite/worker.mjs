// SPDX-License-Identifier: Apache-2.0
/**
 * The process of one engine of the suite: does what messages ask for, one after the other, and answers each. Needs
 * --expose-gc, so that a result is let go between runs and not in the next one's time. Argument: the options as JSON.
 */
import { performance } from "node:perf_hooks";

import { peakResidentBytes, resetPeak } from "../resident-memory.mjs";
import { queryByName } from "./data-sets.mjs";

const engines = {
    spillway: async () => (await import("./spillway-engine.mjs")).SpillwayEngine,
    duckdb: async () => (await import("./duckdb-engine.mjs")).DuckdbEngine
};

/** One sample: the mean of as many runs as the query has for one, with the time of all threads of this process. */
async function sample(engine, set, { name, as }) {
    const { repeat = 1, atOnce } = queryByName(set, name);
    const cpuBefore = process.cpuUsage();
    const start = performance.now();
    let told;
    for (let i = 0; i < repeat; i++) told = await (atOnce ? engine.runAtOnce(name, atOnce) : engine.run(name, as));
    const ms = (performance.now() - start) / repeat;
    const { user, system } = process.cpuUsage(cpuBefore);
    const cpuMs = (user + system) / 1000 / repeat;
    engine.drop();
    globalThis.gc();
    return { ms, cpuMs, ...told, peakBytes: peakResidentBytes() };
}

async function main(options) {
    const engine = await (await engines[options.engine]()).open(options);
    let set;
    const actions = {
        load: async (message) => {
            set = message.set;
            await engine.load(set);
        },
        sample: async ({ first, ...message }) => {
            if (first) resetPeak();
            return await sample(engine, set, message);
        },
        check: async ({ name, rows }) => {
            const answer = await engine.check(name, rows);
            engine.drop();
            globalThis.gc();
            return answer;
        },
        budget: async ({ bytes }) => await engine.setBudget(bytes),
        close: async () => await engine.close()
    };
    process.on("disconnect", () => process.exit()); // Whoever asked is gone.
    process.on("message", ({ action, ...message }) => {
        actions[action](message).then(
            (answer) => process.send({ answer }, () => action === "close" && process.exit()),
            ({ message, code, details }) => process.send({ error: { message, code, details } })
        );
    });
}

await main(JSON.parse(process.argv[2]));
