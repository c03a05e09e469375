// SPDX-License-Identifier: Apache-2.0
// One join in a process of its own, or, without `right`, one group-by. Argument: { runtime, left, right, on, type,
// action, output, groupBy, killAt }.
// killAt: "spilling" or "writing", the state in which the process kills itself, as SIGKILL from outside would.
// Says "progress {...}" as it goes, then "result {...}" with the rows and the peak memory of the process,
// or "error {...}" with the peak memory.
import { readFileSync } from "node:fs";
import { openRuntime } from "spillway";

const options = JSON.parse(process.argv[2]);
const say = (word, value) => process.stdout.write(`${word} ${JSON.stringify(value)}\n`);

function peakBytes() {
    return Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync("/proc/self/status", "utf8"))[1]) * 1024;
}

/** What a reader does with a batch before it drops it. */
const read = {
    batches: (batch) => batch.numRows,
    values(batch) {
        for (const column of batch.data.children.keys()) for (const value of batch.getChildAt(column)) void value;
        return batch.numRows;
    },
    objects(batch) {
        for (const row of batch) row.toJSON();
        return batch.numRows;
    }
};

const startBytes = peakBytes();
try {
    const runtime = await openRuntime(options.runtime);
    const left = await runtime.fromArrowFile(options.left);
    const joined = async () => {
        const right = await runtime.fromArrowFile(options.right);
        const join = runtime.join({ left, right, on: options.on, type: options.type ?? "inner" });
        return options.groupBy === undefined ? join : join.groupBy(options.groupBy);
    };
    const query = options.right === undefined ? runtime.groupBy(left, options.groupBy) : await joined();
    // From inside, since a signal that another process sends may come after the work is done.
    const onProgress = (progress) => {
        const { done, rowsOut, spilledBytes } = progress;
        const reached = { spilling: spilledBytes > 0, writing: rowsOut > 0 }[options.killAt] ?? false;
        if (reached && !done) process.kill(process.pid, "SIGKILL");
        say("progress", progress);
    };
    let rows = 0;
    if (options.action === "file") rows = await query.toArrowFile(options.output, { onProgress });
    else if (options.action === "count") rows = await query.count({ onProgress });
    else if (options.action === "table") rows = (await query.toTable({ onProgress })).numRows;
    else for await (const batch of query.batches({ onProgress })) rows += read[options.action](batch);
    const report = query.report();
    await runtime.close();
    say("result", { rows, peakBytes: peakBytes(), startBytes, spilledBytes: report?.spilledBytes ?? 0 });
} catch (error) {
    const { name, code, message, details } = error;
    say("error", { name, code, message, details, peakBytes: peakBytes() });
    process.exitCode = 1;
}
