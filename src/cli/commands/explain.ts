// SPDX-License-Identifier: Apache-2.0
import { defineCommand, defineCommandGroup } from "../command.js";
import { groupByOptions, groupByPositionals, runGroupBy } from "./groupby.js";
import { joinOptions, joinPositionals, runJoin } from "./join.js";

const explainJoin = defineCommand({
    usage: "join [relations..]",
    synopsis: "explain join LEFT RIGHT --on KEYS [options]",
    describe: "The plan of a join",
    examples: [["$0 explain join orders.arrow lineitem.arrow --on o_orderkey=l_orderkey -m 64MiB", ""]],
    positionals: joinPositionals,
    options: joinOptions,
    run: (args, context) => runJoin({ ...args, explain: true }, context)
});

const explainGroupBy = defineCommand({
    usage: "groupby [input..]",
    synopsis: "explain groupby FILE.. --keys COLUMNS --aggregate AGGREGATES [options]",
    describe: "The plan of a group-by",
    examples: [["$0 explain groupby lineitem.arrow --keys l_orderkey --aggregate n=count:* --json", ""]],
    positionals: groupByPositionals,
    options: groupByOptions,
    run: (args, context) => runGroupBy({ ...args, explain: true }, context)
});

export const explainCommand = defineCommandGroup({
    usage: "explain",
    synopsis: "explain COMMAND",
    describe: "Print the plan of a join or group-by without running it",
    examples: [],
    subcommands: [explainJoin, explainGroupBy]
});
