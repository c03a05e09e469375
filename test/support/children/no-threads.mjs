// SPDX-License-Identifier: Apache-2.0
// Uses every call that needs a thread, and one of few rows that does not, in a process that gets none any more, then
// closes the runtime.
// Argument: { file, output, runtime }. Run it as a user of its own who is not root: the limit counts per user.
import { spawnSync } from "node:child_process";
import { tableFromArrays } from "apache-arrow";
import { openRuntime, SpillwayError } from "spillway";

const { file, output, runtime: options } = JSON.parse(process.argv[2]);
const runtime = await openRuntime(options);
const key = Int32Array.from({ length: 100_000 }, (_, i) => i);
const relation = runtime.fromTable(tableFromArrays({ key }));
const query = relation.join(relation, { on: "key" });
const few = runtime.fromTable(tableFromArrays({ key: key.slice(0, 10) }));
async function* stream() {
    yield tableFromArrays({ key }).batches[0];
}
const streamed = runtime.fromBatches(relation.schema, stream).join(relation, { on: "key" });
const generated = { rows: 1000, key: { name: "key" } };

const limited = spawnSync("prlimit", ["--pid", String(process.pid), "--nproc=1:1"]);
if (limited.status !== 0) throw new Error(`prlimit: ${String(limited.stderr ?? limited.error)}`);

const calls = {
    open: () => runtime.fromArrowFile(file),
    count: () => query.count(),
    table: () => query.toTable(),
    batches: () => query.batches().next(),
    stream: () => streamed.count(),
    file: () => query.toArrowFile(output),
    group: () => relation.groupBy({ keys: ["key"] }).count(),
    few: () => few.join(few, { on: "key" }).count(),
    generate: () => runtime.generate(generated, "memory"),
    generateFile: () => runtime.generate(generated, { path: output }),
    close: () => runtime.close()
};
const outcomes = {};
for (const [name, call] of Object.entries(calls)) {
    outcomes[name] = await call().then(
        () => "done",
        (error) => (error instanceof SpillwayError ? error.code : String(error))
    );
}
process.stdout.write(`result ${JSON.stringify(outcomes)}\n`);
