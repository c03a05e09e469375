// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SpillwayError, type Progress, type Query, type RunOptions } from "../../index.js";
import { defineCommand, type ArgumentsOf, type CommandContext } from "../command.js";
import { arrowBatches, checkDemoResult, type DemoCheck, type DemoFiles } from "../demo/check-result.js";
import { folderError } from "../folders.js";
import { unlessStopped } from "../interruption.js";
import { parseNumber } from "../parse/numbers.js";
import { progressFor } from "../render/progress.js";
import { formatBytes, formatCount } from "../render/quantities.js";
import { RowTable } from "../render/rows.js";
import { summaryOf } from "../render/summary.js";
import { openWorkFolder } from "../work-folder.js";
import { openCommandRuntime, runtimeOptions } from "./shared-options.js";

const demoOptions = {
    scale: {
        type: "string",
        alias: "s",
        default: "1",
        describe: "1 = 1.5 M orders and about 6 M line items; at most 10"
    },
    folder: { type: "string", describe: "Where the demo's files go (default: the system's temporary folder)" },
    json: { type: "boolean", default: false, describe: "Report as JSON" },
    ...runtimeOptions,
    memory: { ...runtimeOptions.memory, default: "64MiB", describe: "Host memory budget of the join" }
} as const;

type DemoArguments = ArgumentsOf<Record<never, never>, typeof demoOptions>;

// What Node and the code of the process take beside the budget: docs/memory.md.
const processAllowanceBytes = 128 * 2 ** 20;

const select = ["o_orderkey", "o_orderdate", "o_orderpriority", "l_linenumber", "l_extendedprice", "l_shipdate"];

// Both relations and the result, measured: 1.5 GiB at scale 1, and spill files of the same disk.
const diskBytesPerScale = 2 * 2 ** 30;

const purpose = "the demo's files";

/** Most memory the process has had resident so far (VmHWM), or null where the kernel does not tell. */
function peakResidentBytes(): number | null {
    try {
        const match = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"));
        return match == null ? null : Number(match[1]) * 1024;
    } catch {
        return null;
    }
}

async function requireDisk(folder: string, scale: number): Promise<void> {
    const { bavail, bsize } = await statfs(folder).catch((error: unknown) => {
        throw folderError(folder, purpose, error);
    });
    const [wanted, free] = [scale * diskBytesPerScale, bavail * bsize];
    if (free >= wanted) return;
    throw new SpillwayError(
        "DISK_FULL",
        `The demo needs about ${formatBytes(wanted)} in ${folder}, where ${formatBytes(free)} are free; ` +
            `name another folder with --folder or make it smaller with --scale`,
        { path: folder, wantedBytes: wanted, freeBytes: free }
    );
}

async function watched<T>(context: CommandContext, step: (options: RunOptions) => Promise<T>): Promise<T> {
    const bar = progressFor(context.stderr, false);
    try {
        return await step({ signal: context.signal, onProgress: (event: Progress) => bar.update(event) });
    } finally {
        bar.end();
    }
}

/** Does one step; where the budget is too small for it, the error says for which: the others may need less. */
async function inStep<T>(what: string, step: () => Promise<T>): Promise<T> {
    try {
        return await step();
    } catch (error) {
        if (!(error instanceof SpillwayError) || error.code !== "BUDGET_TOO_SMALL") throw error;
        const { wantedBytes, freeBytes } = error.details;
        const text =
            `The demo needs at least ${formatBytes(Number(wantedBytes))} of memory to ${what} ` +
            `but has ${formatBytes(Number(freeBytes))}`;
        throw new SpillwayError(error.code, text, error.details, error);
    }
}

async function headOf(query: Query, path: string, signal: AbortSignal): Promise<string[]> {
    const table = new RowTable(query.schema, 5);
    const lines: string[] = [];
    for await (const batch of arrowBatches(path, signal)) {
        for (const lot of table.add(batch)) lines.push(...lot);
        if (table.more) break;
    }
    return [...lines, ...table.lines()];
}

function memoryLine(budgetBytes: number, peakBytes: number | null): string {
    if (peakBytes == null) return "This system does not tell the peak memory of a process.";
    const verdict = peakBytes <= budgetBytes + processAllowanceBytes ? "kept" : "EXCEEDED";
    return (
        `Peak memory of the whole process ${formatBytes(peakBytes)}; allowed are the budget of ` +
        `${formatBytes(budgetBytes)} and ${formatBytes(processAllowanceBytes)} for Node and the code: ${verdict}`
    );
}

function checkLines(check: DemoCheck): string[] {
    const line = (good: boolean, text: string): string => `${good ? "ok   " : "WRONG"}  ${text}`;
    return [
        line(check.rows === check.expectedRows, `${formatCount(check.rows)} rows, one for each line item`),
        line(check.checksum === check.expectedChecksum, `checksum of (key, price) ${check.checksum}, as in lineitem`),
        line(check.wrongDates === 0, `${formatCount(check.wrongDates)} rows with another date than orders has`)
    ];
}

async function runDemo(args: DemoArguments, scale: number, files: DemoFiles, context: CommandContext): Promise<void> {
    await using runtime = await openCommandRuntime(args);
    context.say("1. Generate two relations as Arrow files");
    for (const table of ["orders", "lineitem"] as const) {
        const { rows, bytes } = await inStep("generate its relations (step 1)", () =>
            watched(context, (options) => runtime.generate({ table, scale }, { path: files[table], ...options }))
        );
        context.say(`${table}: ${formatCount(rows ?? 0)} rows, ${formatBytes(bytes ?? 0)}`);
    }
    const query = runtime.join({
        left: await runtime.fromArrowFile(files.orders),
        right: await runtime.fromArrowFile(files.lineitem),
        on: { o_orderkey: "l_orderkey" },
        select
    });
    context.say("", `2. Plan the join for a budget of ${formatBytes(runtime.memory().host.limitBytes)}`);
    const explain = async (): Promise<unknown> => await unlessStopped(context.signal, query.explain());
    context.say(...String(await inStep("join (steps 2 and 3)", explain)).split("\n"));
    context.say("", "3. Join into an Arrow file");
    await inStep("join (steps 2 and 3)", () => watched(context, (options) => query.toArrowFile(files.result, options)));
    const report = query.report()!;
    // Before the check, which holds an array of all dates and is not part of the join.
    const peakBytes = peakResidentBytes();
    context.say(summaryOf(report), memoryLine(runtime.memory().host.limitBytes, peakBytes));
    if (!args.json) await context.print("", ...(await headOf(query, files.result, context.signal)));
    context.say("", "4. Check the result without the engine: Arrow JS and an array instead of a hash table");
    const check = await checkDemoResult(files, context.signal);
    context.say(...checkLines(check));
    if (args.json) await context.printJson(`${JSON.stringify({ scale, report, peakBytes, check })}\n`);
    if (!check.passed)
        throw new SpillwayError("INTERNAL", "The result of the demo's join is wrong", { ...check, passed: 0 });
}

export const demoCommand = defineCommand({
    usage: "demo",
    synopsis: "demo [options]",
    describe: "Generate two relations, join them in less memory than they take, check the result, clean up",
    examples: [["$0 demo --scale 5 --memory 128MiB", "More rows, another budget"]],
    remedies: {
        OUTPUT_FAILED: "Name a folder that exists and can be written to with --folder.",
        DISK_FULL: "Free space, or name another disk with --folder and --spill-directory."
    },
    positionals: {},
    options: demoOptions,
    run: async (args, context) => {
        const scale = parseNumber("scale", args.scale, 0.001, 10);
        const parent = args.folder ?? tmpdir();
        await requireDisk(parent, scale);
        const folder = await openWorkFolder(parent, "demo", purpose);
        const path = (name: string): string => join(folder.path, `${name}.arrow`);
        try {
            const files = { orders: path("orders"), lineitem: path("lineitem"), result: path("joined") };
            await runDemo(args, scale, files, context);
        } finally {
            folder.remove();
        }
        context.signal.throwIfAborted();
        context.say("", "The demo's files are removed. Next: spillway --help");
    }
});
