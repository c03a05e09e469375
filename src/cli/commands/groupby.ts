// SPDX-License-Identifier: Apache-2.0
import { groupByAlgorithms } from "../../index.js";
import { defineCommand, type ArgumentsOf, type CommandContext } from "../command.js";
import { checkDelivery, deliver } from "../deliver.js";
import { unlessStopped } from "../interruption.js";
import { parseAggregates } from "../parse/aggregates.js";
import { parseExperiment } from "../parse/experiment.js";
import { parseList } from "../parse/lists.js";
import { UsageError } from "../usage-error.js";
import { groupByInput } from "./inputs.js";
import { experimentOption, openCommandRuntime, resultOptions, runtimeOptions } from "./shared-options.js";

export const groupByPositionals = {
    input: { type: "string", array: true, describe: "Arrow file(s): paths, a,b or 'pattern*.arrow'" }
} as const;

/** What a group-by is, without where its result goes. */
export const groupByQueryOptions = {
    keys: { type: "string", array: true, describe: "Columns whose equal values make a group (default: one group)" },
    aggregate: {
        type: "string",
        array: true,
        describe:
            "NAME=FUNCTION:COLUMN, several separated by commas; " +
            "sum, min, max, mean, count, first, any, count-distinct; 'n=count:*' counts rows (quoted for the shell)"
    },
    algorithm: {
        type: "string",
        choices: groupByAlgorithms,
        default: "auto",
        describe: "How a GPU groups; a name takes the query there where it can run"
    },
    experiment: experimentOption,
    ...runtimeOptions
} as const;

const groupByOptions = { ...groupByQueryOptions, ...resultOptions } as const;

type GroupByArguments = ArgumentsOf<typeof groupByPositionals, typeof groupByOptions>;

export async function runGroupBy(args: GroupByArguments, context: CommandContext): Promise<void> {
    checkDelivery(args);
    const files = await groupByInput(args.input, context.signal);
    const keys = args.keys == null ? [] : parseList("keys", args.keys);
    const aggregates = parseAggregates(args.aggregate ?? []);
    if (args.keys == null && args.aggregate == null) {
        throw new UsageError(
            "groupby needs --keys, --aggregate or both and has neither; " +
                "give --keys COLUMN for the groups, or --aggregate 'n=count:*' to count the rows."
        );
    }
    const clash = keys.find((key) => key in aggregates);
    if (clash != null) {
        throw new UsageError(
            `"${clash}" is a column of --keys and a result of --aggregate; ` +
                "give the result another name: --aggregate NAME=FUNCTION:COLUMN."
        );
    }
    await using runtime = await openCommandRuntime(args);
    const relation = await unlessStopped(context.signal, runtime.fromArrowFile(files));
    const algorithm = args.algorithm;
    const experiment = args.experiment == null ? {} : parseExperiment("experiment", args.experiment);
    await deliver(runtime.groupBy(relation, { keys, aggregates, algorithm, experiment }), args, context);
}

export const groupByCommand = defineCommand({
    usage: "groupby [input..]",
    synopsis: "groupby FILE.. --keys COLUMNS --aggregate AGGREGATES [options]",
    describe: "Group a relation of Arrow files by key columns and aggregate",
    examples: [
        ["$0 groupby lineitem.arrow --keys l_returnflag --aggregate 'revenue=sum:l_extendedprice,n=count:*'", ""],
        ["$0 groupby 'part-*.arrow' --aggregate 'rows=count:*'", "One group of all rows"]
    ],
    positionals: groupByPositionals,
    options: groupByOptions,
    run: runGroupBy
});
