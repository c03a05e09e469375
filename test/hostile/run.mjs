// SPDX-License-Identifier: Apache-2.0
// Attacks the built package with hostile files, in processes of their own (attack.mjs).
// node test/hostile/run.mjs              60 s of them in two processes; a new seed each time, which is printed
//     --seconds N  --shards N            for so long, in so many processes
//     --seed N                           the same files in the same order
//     --every                            each crafted file in each mode, each number with each value, once: hours
//     --only TEXT                        those whose names contain TEXT
//     --label "file/utf8 ~spill end=-8"  one file, by the name that a failure was printed with
//     --sanitized build/sanitize-address with the addon that was built there under sanitizers
// Its last lines are like those of the native tests: "FAILED ..." for each failure, then "N passed, N failed". What
// passes or fails is a layout or a family of crafted files.
import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { craftedCount, groupOf } from "./cases.mjs";
import { sanitizedPackage } from "./sanitized.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const mebibyte = 2 ** 20;

/** Budget of the runtime, and what a process may take of memory and time. */
const plainLimits = {
    budgetBytes: 32 * mebibyte,
    // What README promises beside the budget, and what the attacking code takes to make its files.
    residentBytes: (32 + 128 + 64) * mebibyte,
    // An attack that takes less than this is not to blame for what is resident.
    growthBytes: 64 * mebibyte,
    // Killed above this, so that one file cannot take the machine down.
    killBytes: 1024 * mebibyte,
    querySeconds: 3,
    graceSeconds: 4,
    stallSeconds: 30,
    openFiles: 100
};

/**
 * Shadow memory, red zones and freed blocks that are kept in quarantine take more than the program does, and the more
 * the longer it runs: 677 MiB after 10,500 files that took 194 without them. The promise is held by the plain run.
 */
const sanitizedLimits = {
    ...plainLimits,
    residentBytes: (32 + 128 + 864) * mebibyte,
    killBytes: 1536 * mebibyte,
    graceSeconds: 8,
    stallSeconds: 60
};

/** Processes that were lost to a crash or a hang are begun again behind the attack that did it, but not for ever. */
const restartsMax = 30;

function residentBytes(pid) {
    try {
        return Number(/VmRSS:\s*(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1024;
    } catch {
        return 0; // it has just ended
    }
}

/** What a sanitizer said, or the last lines of what the process said. */
function causeOf(stderr) {
    const report = /^.*(?:ERROR: \w+Sanitizer|runtime error|FATAL ERROR): .*$/m.exec(stderr)?.[0];
    const frame = /#\d+ 0x\w+ in (?!__|std::|operator)(.*native\/.*)$/m.exec(stderr)?.[1];
    if (report !== undefined) return `${report.trim()}${frame === undefined ? "" : ` in ${frame}`}`.slice(0, 400);
    return stderr.trim().split("\n").slice(-3).join(" | ").slice(0, 400);
}

/** Runs one process until it ends, is lost or has to be killed; what it says goes into `state`. */
async function runProcess(argument, env, state) {
    const script = fileURLToPath(new URL("attack.mjs", import.meta.url));
    const child = spawn(process.execPath, [script, JSON.stringify(argument)], {
        stdio: ["ignore", "pipe", "pipe"],
        env: { ...process.env, ...env }
    });
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text) => (stderr = (stderr + text).slice(-64 * 1024)));
    let heard = performance.now();
    let killed;
    const { killBytes, stallSeconds } = argument.limits;
    const watch = setInterval(() => {
        const resident = residentBytes(child.pid);
        if (resident > killBytes) killed = `${Math.round(resident / mebibyte)} MiB resident: killed`;
        else if (performance.now() - heard > stallSeconds * 1000)
            killed = `no sign of life for ${stallSeconds} s: killed`;
        if (killed !== undefined) child.kill("SIGKILL");
    }, 50);
    createInterface({ input: child.stdout }).on("line", (line) => {
        heard = performance.now();
        const text = line.slice(2);
        if (line.startsWith("> ")) state.current = text;
        else if (line.startsWith("! ")) state.failures.push(JSON.parse(text));
        else if (line.startsWith("= ")) state.sums.set(child.pid, JSON.parse(text));
    });
    const [status, signal] = await new Promise((resolve, reject) => {
        child.on("error", reject);
        child.on("close", (...ended) => resolve(ended));
    });
    clearInterval(watch);
    return { status, cause: killed ?? [signal ?? `exit code ${status}`, causeOf(stderr)].filter(Boolean).join(": ") };
}

/** One share of the attacks; a process that is lost costs the attack that did it and no other. */
async function runShard(shard, settings, work) {
    const folder = join(work, `${shard}`);
    mkdirSync(join(folder, "spill"), { recursive: true });
    const state = { failures: [], sums: new Map(), current: undefined };
    const end = performance.now() + settings.seconds * 1000;
    let from = 0;
    for (let restarts = 0; restarts <= restartsMax; ++restarts) {
        const seconds = (end - performance.now()) / 1000;
        if (seconds <= 0) break;
        state.current = undefined;
        const argument = { ...settings, env: undefined, work: folder, shard, from, seconds };
        const { status, cause } = await runProcess(argument, settings.env, state);
        if (status === 0) break;
        const [index = "0", ...words] = state.current?.split(" ") ?? [];
        const label = state.current === undefined ? "before the first attack" : words.join(" ");
        const file = join(folder, `attack-${index}.arrow`);
        const kept = join(folder, `failed-${index}.arrow`);
        // A process that gave itself up (exit code 3) has told why and kept the file.
        if (existsSync(file)) renameSync(file, kept);
        if (status !== 3) state.failures.push({ label, what: cause, ...(existsSync(kept) ? { file: kept } : {}) });
        if (state.current === undefined || settings.label !== undefined) break;
        from = Number(index) + 1;
    }
    return state;
}

function added(sums) {
    const total = { cases: 0, queries: 0, codes: {}, groups: {}, slowest: { seconds: 0 }, peakBytes: 0 };
    for (const sum of sums) {
        total.cases += sum.cases;
        total.queries += sum.queries;
        for (const name of ["codes", "groups"]) {
            for (const [key, count] of Object.entries(sum[name])) total[name][key] = (total[name][key] ?? 0) + count;
        }
        if (sum.slowest.seconds > total.slowest.seconds) total.slowest = sum.slowest;
        total.peakBytes = Math.max(total.peakBytes, sum.peakBytes);
    }
    return total;
}

/** Removes the folders of shards that keep no file of a failure. */
function tidy(work, states) {
    states.forEach(({ failures }, shard) => {
        if (failures.every(({ file }) => file === undefined)) rmSync(join(work, `${shard}`), { recursive: true });
    });
    if (readdirSync(work).length === 0) rmSync(work, { recursive: true });
}

/**
 * Attacks for `seconds` in `shards` processes. settings: { package, env, limits, seconds, shards } and those of
 * attack.mjs: { seed, every, only, label }.
 * Returns { total, failures: [{ label, what, file? }] }.
 */
async function attackPackage(settings) {
    const work = mkdtempSync(join(tmpdir(), "spillway-hostile-"));
    const shards = Array.from({ length: settings.shards }, (_, shard) => runShard(shard, settings, work));
    const states = await Promise.all(shards);
    tidy(work, states);
    const failures = states.flatMap((state) => state.failures);
    const total = added(states.flatMap((state) => [...state.sums.values()]));
    if (total.cases === 0 && failures.length === 0) failures.push({ label: "all", what: "nothing was attacked" });
    return { total, failures };
}

/** Cases, codes, the slowest query and the most memory; then failures and counts as the native tests print them. */
function* report({ total, failures }, { seed, seconds }) {
    const codes = Object.entries(total.codes).sort(([, a], [, b]) => b - a);
    const { slowest } = total;
    yield (
        `${total.cases} hostile files (${craftedCount} crafted ones, then patched ones), ${total.queries} queries in ` +
        `${seconds} s, --seed ${seed}`
    );
    yield `how queries ended: ${codes.map(([code, count]) => `${code} ${count}`).join(", ")}`;
    yield `most resident memory: ${Math.round(total.peakBytes / mebibyte)} MiB`;
    if (slowest.seconds > 0)
        yield `slowest query: ${slowest.seconds.toFixed(1)} s, ${slowest.query} of ${slowest.label}`;
    for (const { label, what, file } of failures) {
        yield `FAILED ${label}: ${what.replaceAll(/\s+/g, " ")}${file === undefined ? "" : ` (${file})`}`;
    }
    if (failures.length > 0)
        yield 'one file again: node scripts/test.mjs hostile --label "<what stands behind FAILED>"';
    const failed = new Set(failures.map(({ label }) => groupOf(label)));
    const passed = Object.keys(total.groups).filter((group) => !failed.has(group));
    yield `${passed.length} passed, ${failed.size} failed`;
}

async function main() {
    const { values } = parseArgs({
        options: {
            ...{ seconds: { type: "string" }, seed: { type: "string" }, shards: { type: "string" } },
            ...{ every: { type: "boolean" }, only: { type: "string" }, label: { type: "string" } },
            sanitized: { type: "string" }
        }
    });
    const { label, every = false, only = "", sanitized } = values;
    const settings = {
        ...(sanitized === undefined ? { package: root, env: {} } : sanitizedPackage(root, resolve(sanitized))),
        limits: sanitized === undefined ? plainLimits : sanitizedLimits,
        seconds: Number(values.seconds ?? (label === undefined ? 60 : 3600)),
        seed: Number(values.seed ?? randomInt(2 ** 31)),
        shards: Number(values.shards ?? (label === undefined ? 2 : 1)),
        ...{ every, only, label }
    };
    const result = await attackPackage(settings);
    for (const line of report(result, settings)) console.log(line);
    process.exitCode = result.failures.length === 0 ? 0 : 1;
}

await main();
