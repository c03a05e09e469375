// SPDX-License-Identifier: Apache-2.0
import type { Query } from "../index.js";
import type { CommandContext } from "./command.js";
import { unlessStopped } from "./interruption.js";
import { parseCount } from "./parse/numbers.js";
import { refuseOtherFormat } from "./parse/output.js";
import { progressFor, type ProgressRenderer } from "./render/progress.js";
import { batchAsJsonLines, RowTable } from "./render/rows.js";
import { runSummary } from "./render/summary.js";
import { UsageError } from "./usage-error.js";

export interface DeliveryArguments {
    output: string | undefined;
    overwrite: boolean;
    count: boolean;
    explain: boolean;
    rows: string | undefined;
    json: boolean;
    quiet: boolean;
}

const rowsOfTable = 10;

/** Refuses options that cannot be followed, or not together, before any work. */
export function checkDelivery(args: DeliveryArguments): void {
    const ways = [args.explain && "--explain", args.count && "--count", args.output != null && "--output"];
    const given = ways.filter((way) => way !== false);
    if (args.count && args.output != null) throw new UsageError("--count and --output exclude each other; give one.");
    if (args.overwrite && args.output == null) throw new UsageError("--overwrite needs --output.");
    if (args.rows != null && given.length > 0) {
        throw new UsageError(`--rows limits the rows that are printed and ${given[0]} prints none; give one of both.`);
    }
    if (args.output === "") throw new UsageError('--output needs the path of the Arrow file to write, not "".');
    if (args.output === "-") {
        throw new UsageError(
            "--output writes an Arrow file, which standard output cannot be; name a file (./- for one of that name), " +
                "or give --json instead for rows as JSON lines on standard output."
        );
    }
    if (args.output != null) refuseOtherFormat(args.output);
}

/** Runs a query the way the options, which were checked, ask for: plan, count, file, JSON lines or a table. */
export async function deliver(query: Query, args: DeliveryArguments, context: CommandContext): Promise<void> {
    const rows = args.rows == null ? null : parseCount("rows", args.rows, 1);
    if (args.explain) return await explain(query, args, context);
    const bar = progressFor(context.stderr, args.quiet);
    const shown = shownOf(query, rows, args);
    let whole = true;
    try {
        if (args.count) await count(query, args, context, bar);
        else if (args.output != null) await writeFile(query, args.output, args, context, bar);
        else if (args.json) await printLines(shown, context, bar);
        else whole = await printHead(shown, rows ?? rowsOfTable, args.quiet, context, bar);
    } finally {
        bar.end();
    }
    // The figures of a run that ended at a limit are not those of the whole query.
    const summary = whole ? runSummary(shown) : null;
    if (!args.quiet && summary != null) context.say(...summary);
}

/** The query of the rows that are printed: of a table one more, which tells whether more follow. */
function shownOf(query: Query, rows: number | null, { count, output, json }: DeliveryArguments): Query {
    if (count || output != null) return query;
    if (json) return rows === null ? query : query.limit(rows);
    return query.limit(Math.min((rows ?? rowsOfTable) + 1, Number.MAX_SAFE_INTEGER));
}

async function explain(query: Query, args: DeliveryArguments, context: CommandContext): Promise<void> {
    const result = args.count ? "count" : args.output == null ? "batches" : "file";
    const explanation = await unlessStopped(context.signal, query.explain({ result }));
    if (args.json) await context.printJson(`${JSON.stringify(explanation.plan)}\n`);
    else await context.print(...String(explanation).split("\n"));
}

function runOptions(context: CommandContext, bar: ProgressRenderer) {
    return {
        signal: context.signal,
        onProgress: (event: Parameters<ProgressRenderer["update"]>[0]) => bar.update(event)
    };
}

async function count(
    query: Query,
    args: DeliveryArguments,
    context: CommandContext,
    bar: ProgressRenderer
): Promise<void> {
    const rows = await query.count(runOptions(context, bar));
    bar.end();
    if (args.json) await context.printJson(`${JSON.stringify({ rows, report: query.report() })}\n`);
    else await context.print(String(rows));
}

async function writeFile(
    query: Query,
    path: string,
    args: DeliveryArguments,
    context: CommandContext,
    bar: ProgressRenderer
): Promise<void> {
    const rows = await query.toArrowFile(path, { ...runOptions(context, bar), overwrite: args.overwrite });
    bar.end();
    if (args.json) await context.printJson(`${JSON.stringify({ rows, path, report: query.report() })}\n`);
}

/** Prints rows as JSON lines. */
async function printLines(query: Query, context: CommandContext, bar: ProgressRenderer): Promise<void> {
    for await (const batch of query.batches(runOptions(context, bar))) {
        for (const block of batchAsJsonLines(batch)) {
            bar.end();
            await context.printJson(block);
        }
    }
}

/** Prints the first rows as a table. Were these all? */
async function printHead(
    query: Query,
    rows: number,
    quiet: boolean,
    context: CommandContext,
    bar: ProgressRenderer
): Promise<boolean> {
    const table = new RowTable(query.schema, rows);
    for await (const batch of query.batches(runOptions(context, bar))) {
        for (const lines of table.add(batch)) {
            bar.end();
            await context.print(...lines);
        }
        if (table.more) break;
    }
    bar.end();
    await context.print(...table.lines());
    if (table.more && !quiet) {
        context.say("More rows follow: --output FILE writes all, --json prints all, --count counts them.");
    }
    return !table.more;
}
