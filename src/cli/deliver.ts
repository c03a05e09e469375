// SPDX-License-Identifier: Apache-2.0
import type { Query } from "../index.js";
import type { CommandContext } from "./command.js";
import { parseCount } from "./parse/numbers.js";
import { progressFor, type ProgressRenderer } from "./render/progress.js";
import { batchAsJsonLines, RowTable } from "./render/rows.js";
import { runSummary } from "./render/summary.js";
import { UsageError } from "./usage-error.js";

export interface DeliveryArguments {
    output: string | undefined;
    overwrite: boolean;
    count: boolean;
    explain: boolean;
    rows: string;
    json: boolean;
    quiet: boolean;
}

function refuseContradictions(args: DeliveryArguments): void {
    const ways = [args.explain && "--explain", args.count && "--count", args.output != null && "--output"];
    const given = ways.filter((way) => way !== false);
    if (given.length > 1) throw new UsageError(`${given.join(" and ")} exclude each other; give one.`);
    if (args.overwrite && args.output == null) throw new UsageError("--overwrite needs --output.");
}

/** Runs a query the way the options ask for: plan, count, file, JSON lines or the first rows as a table. */
export async function deliver(query: Query, args: DeliveryArguments, context: CommandContext): Promise<void> {
    refuseContradictions(args);
    if (args.explain) return await explain(query, args, context);
    const bar = progressFor(context.stderr, args.quiet);
    try {
        if (args.count) await count(query, args, context, bar);
        else if (args.output != null) await writeFile(query, args.output, args, context, bar);
        else if (args.json) await printAll(query, context, bar);
        else await printHead(query, parseCount("rows", args.rows, 1), context, bar);
    } finally {
        bar.end();
    }
    const summary = runSummary(query);
    if (!args.quiet && summary != null) context.say(summary);
}

async function explain(query: Query, args: DeliveryArguments, context: CommandContext): Promise<void> {
    const explanation = await query.explain();
    await context.print(args.json ? `${JSON.stringify(explanation.plan)}\n` : `${String(explanation)}\n`);
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
    await context.print(args.json ? `${JSON.stringify({ rows })}\n` : `${rows}\n`);
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
    if (args.json) await context.print(`${JSON.stringify({ rows, path, report: query.report() })}\n`);
}

async function printAll(query: Query, context: CommandContext, bar: ProgressRenderer): Promise<void> {
    for await (const batch of query.batches(runOptions(context, bar))) {
        for (const lines of batchAsJsonLines(batch)) {
            bar.end();
            await context.print(lines);
        }
    }
}

async function printHead(query: Query, rows: number, context: CommandContext, bar: ProgressRenderer): Promise<void> {
    const table = new RowTable(query.schema, rows);
    for await (const batch of query.batches(runOptions(context, bar))) {
        if (!table.add(batch)) break;
    }
    bar.end();
    await context.print(`${table.toString()}\n`);
    if (table.more) {
        context.say("More rows follow: --output FILE writes all, --json prints all, --count counts them.");
    }
}
