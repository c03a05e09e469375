// SPDX-License-Identifier: Apache-2.0
// A join, grouped if there is a `groupBy`, whose spill files may not grow beyond a limit of the shell that started this
// process, and then the same query on the same runtime without that limit.
// Argument: { runtime, left, right, on, groupBy, output }.
// Says "error {...}" for the first and "used {...}" with what the runtime held then, "result {...}" for the second.
import { spawnSync } from "node:child_process";
import { openRuntime } from "spillway";

const options = JSON.parse(process.argv[2]);
const say = (word, value) => process.stdout.write(`${word} ${JSON.stringify(value)}\n`);

const runtime = await openRuntime(options.runtime);
const left = await runtime.fromArrowFile(options.left);
const right = await runtime.fromArrowFile(options.right);
const joined = runtime.join({ left, right, on: options.on });
const query = options.groupBy === undefined ? joined : joined.groupBy(options.groupBy);
try {
    await query.toTable();
} catch (error) {
    say("error", { name: error.name, code: error.code, message: error.message, details: error.details });
}
say("used", { bytes: runtime.memory().host.usedBytes });
// As a disk that somebody has made room on: a soft limit, which its process may raise.
const raised = spawnSync("prlimit", ["--pid", String(process.pid), "--fsize=unlimited"]);
if (raised.status !== 0) throw new Error(`prlimit: ${raised.error ?? raised.stderr}`);
const rows = await query.toArrowFile(options.output);
const report = query.report();
await runtime.close();
say("result", { rows, device: report.device, diskWrittenBytes: report.spilledBytes });
