// SPDX-License-Identifier: Apache-2.0
// One process of the attack. Argument: JSON of { package, work, shard, shards, from, seconds, limits } and of what is
// attacked, { seed, every, only, label }.
// Lines it prints: "> INDEX LABEL" before each attack, so that a crash has a name; "! JSON" for each failure; "= JSON"
// with what it has done so far, at the end and now and then.
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { tableFromArrays } from "apache-arrow";
import { attackOf, groupOf, labels } from "./cases.mjs";
import { modes, queries } from "./queries.mjs";
import { Unsound } from "./soundness.mjs";

const options = JSON.parse(process.argv[2]);
const { limits, work } = options;
const { openRuntime, SpillwayError } = await import(pathToFileURL(join(options.package, "dist/index.js")).href);
const say = (mark, value) =>
    process.stdout.write(`${mark} ${typeof value === "string" ? value : JSON.stringify(value)}\n`);

const output = join(work, "output.arrow");
const spill = join(work, "spill");
const memory = { host: limits.budgetBytes, spillDirectory: spill };
const runtime = await openRuntime({ device: "cpu", memory, threads: 2 });
const good = runtime.fromTable(
    tableFromArrays({
        k: Int32Array.from({ length: 30 }, (_, row) => row),
        x: Float64Array.from({ length: 30 }, (_, row) => row / 2)
    })
);
const sum = { cases: 0, queries: 0, codes: {}, groups: {}, slowest: { seconds: 0 }, peakBytes: 0 };

/** Resident memory of this process: what it has now, and the most since the last call. */
function resident() {
    const status = readFileSync("/proc/self/status", "utf8");
    const [now, peak] = ["VmRSS", "VmHWM"].map(
        (name) => Number(new RegExp(`${name}:\\s*(\\d+)`).exec(status)[1]) * 1024
    );
    writeFileSync("/proc/self/clear_refs", "5");
    return { now, peak };
}

const mebibytes = (bytes) => `${Math.round(bytes / 2 ** 20)} MiB`;
const tooMuch = (peak) => `${mebibytes(peak)} resident, ${mebibytes(limits.residentBytes)} allowed`;

const count = (code) => (sum.codes[code] = (sum.codes[code] ?? 0) + 1);

/** Codes that no file can bring about: a defect, or a caller's mistake, and the calls here make none. */
const wrongCodes = ["INTERNAL", "NATIVE_MISSING", "INVALID_ARGUMENT"];

/** What is wrong about how a query ended, or undefined. */
function judge(error, signal) {
    if (signal.aborted && error === signal.reason) {
        count("stopped");
        return undefined;
    }
    if (error instanceof Unsound) return `unsound result: ${error.message}`;
    if (!(error instanceof SpillwayError)) return `no SpillwayError: ${String(error?.stack ?? error).slice(0, 400)}`;
    count(error.code);
    return wrongCodes.includes(error.code) ? `${error.code}: ${error.message}` : undefined;
}

const deaf = Symbol("deaf");

/** Runs a query under the time limit: what is wrong with it, or undefined. `outcome`: what it counts as if it ends. */
async function ask(run, outcome) {
    const signal = AbortSignal.timeout(limits.querySeconds * 1000);
    const stopped = new AbortController();
    const late = wait((limits.querySeconds + limits.graceSeconds) * 1000, deaf, { signal: stopped.signal });
    late.catch(() => {});
    try {
        if ((await Promise.race([run(signal), late])) === deaf) {
            return `deaf: it still ran ${limits.graceSeconds} s after its ${limits.querySeconds} s were over`;
        }
        count(outcome);
    } catch (error) {
        return judge(error, signal);
    } finally {
        stopped.abort();
    }
    return undefined;
}

/** A column that is there in any case, to group and join by: `k`, or whatever is the first one. */
function keyOf(relation) {
    const names = relation.schema.fields.map(({ name }) => name);
    return names.includes("k") ? "k" : (names[0] ?? "k");
}

async function attack(label, path) {
    const { bytes, mode } = attackOf(label);
    writeFileSync(path, bytes);
    const { now: before } = resident(); // with the bytes of the file, which are not the engine's
    const failures = [];
    let file;
    const opening = await ask(async () => (file = await runtime.fromArrowFile(path)), "opened");
    if (opening !== undefined) failures.push(`opening: ${opening}`);
    if (opening?.startsWith("deaf")) return { failures, lost: true };
    for (const [name, run] of Object.entries(file === undefined ? {} : queries)) {
        const start = performance.now();
        const wrong = await ask(
            async (signal) => run({ runtime, file, good, options: modes[mode], key: keyOf(file), signal, output }),
            "rows"
        );
        const seconds = (performance.now() - start) / 1000;
        sum.queries += 1;
        if (seconds > sum.slowest.seconds) sum.slowest = { seconds, label, query: name };
        if (wrong !== undefined) failures.push(`${name}: ${wrong}`);
        if (wrong?.startsWith("deaf")) return { failures, lost: true };
        // Nothing is learned from the same slowness again.
        if (seconds >= limits.querySeconds) break;
    }
    const { peak } = resident();
    sum.peakBytes = Math.max(sum.peakBytes, peak);
    // Not where an attack before this one left the memory to the garbage collector.
    if (peak > limits.residentBytes && peak - before > limits.growthBytes) failures.push(tooMuch(peak));
    return { failures, lost: false };
}

const end = performance.now() + options.seconds * 1000;

function* chosen() {
    if (options.label !== undefined) {
        yield [0, options.label];
        return;
    }
    let index = 0;
    for (const label of labels(options.seed, options.every)) {
        if (performance.now() > end) return;
        if (!label.includes(options.only)) continue;
        if (index >= options.from && index % options.shards === options.shard) yield [index, label];
        index += 1;
    }
}

let failed = false;
for (const [index, label] of chosen()) {
    say(">", `${index} ${label}`);
    // A new name each time: of two files of one name, size and time of writing the runtime would know the first.
    const path = join(work, `attack-${index}.arrow`);
    const { failures, lost } = await attack(label, path);
    sum.cases += 1;
    sum.groups[groupOf(label)] = (sum.groups[groupOf(label)] ?? 0) + 1;
    const kept = join(work, `failed-${index}.arrow`);
    for (const what of failures) say("!", { label, what, file: kept });
    failed ||= failures.length > 0;
    if (failures.length > 0) renameSync(path, kept);
    else rmSync(path);
    if (sum.cases % 10 === 0 || lost) say("=", sum);
    if (lost) process.exit(3);
}

await runtime.close();
// Memory that grows little by little has no attack to blame.
if (!failed && sum.peakBytes > limits.residentBytes) say("!", { label: "all", what: tooMuch(sum.peakBytes) });
// The runtime has removed its names; what is left here would be left for ever.
const left = readdirSync(spill);
if (left.length > 0) say("!", { label: "all", what: `left in the spill folder: ${left.join(", ")}` });
const open = readdirSync("/proc/self/fd").length;
if (open > limits.openFiles) say("!", { label: "all", what: `${open} files are still open` });
say("=", sum);
