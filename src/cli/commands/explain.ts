// SPDX-License-Identifier: Apache-2.0
import { defineCommand, defineCommandGroup } from "../command.js";
import { groupByPositionals, groupByQueryOptions, runGroupBy } from "./groupby.js";
import { joinPositionals, joinQueryOptions, runJoin } from "./join.js";

// A plan is that of the whole result, so the options that say what becomes of the rows are not offered.
const planOptions = { json: { type: "boolean", default: false, describe: "Plan and errors as JSON" } } as const;
const noDelivery = { output: undefined, overwrite: false, count: false, rows: undefined, quiet: false };

const explainJoin = defineCommand({
    usage: "join [relations..]",
    synopsis: "explain join LEFT RIGHT --on KEYS [options]",
    describe: "The plan of a join",
    examples: [["$0 explain join orders.arrow lineitem.arrow --on o_orderkey=l_orderkey -m 64MiB", ""]],
    positionals: joinPositionals,
    options: { ...joinQueryOptions, ...planOptions },
    run: (args, context) => runJoin({ ...args, ...noDelivery, explain: true }, context)
});

const explainGroupBy = defineCommand({
    usage: "groupby [input..]",
    synopsis: "explain groupby FILE.. --keys COLUMNS --aggregate AGGREGATES [options]",
    describe: "The plan of a group-by",
    examples: [["$0 explain groupby lineitem.arrow --keys l_orderkey --aggregate 'n=count:*' --json", ""]],
    positionals: groupByPositionals,
    options: { ...groupByQueryOptions, ...planOptions },
    run: (args, context) => runGroupBy({ ...args, ...noDelivery, explain: true }, context)
});

export const explainCommand = defineCommandGroup({
    usage: "explain",
    synopsis: "explain COMMAND",
    describe: "Print the plan of a join or group-by without running it",
    examples: [],
    subcommands: [explainJoin, explainGroupBy]
});
