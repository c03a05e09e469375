// SPDX-License-Identifier: Apache-2.0
// Generates a file and runs a query with a progress bar that fails later; says "done" when it survived that.
// Argument: { output }: the file.
import { openRuntime } from "spillway";

const { output } = JSON.parse(process.argv[2]);
const onProgress = async () => {
    throw new Error("a broken progress bar");
};
const runtime = await openRuntime({ threads: 1, memory: { host: "64MiB" } });
const relation = await runtime.generate({ rows: 1000 }, { path: output, onProgress });
await relation.groupBy({ aggregates: { rows: { count: "*" } } }).count({ onProgress });
await runtime.close();
await new Promise((resolve) => setTimeout(resolve, 20));
console.log("done");
