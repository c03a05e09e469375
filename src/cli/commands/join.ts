// SPDX-License-Identifier: Apache-2.0
import { joinAlgorithms } from "../../index.js";
import { defineCommand, type ArgumentsOf, type CommandContext } from "../command.js";
import { checkDelivery, deliver } from "../deliver.js";
import { unlessStopped } from "../interruption.js";
import { parseKeys, parseList } from "../parse/lists.js";
import { parseExperiment } from "../parse/experiment.js";
import { joinInputs } from "./inputs.js";
import { experimentOption, openCommandRuntime, resultOptions, runtimeOptions } from "./shared-options.js";

export const joinPositionals = {
    relations: { type: "string", array: true, describe: "LEFT RIGHT: a path, a,b or 'pattern*.arrow' each" }
} as const;

/** What a join is, without where its result goes. */
export const joinQueryOptions = {
    on: {
        type: "string",
        array: true,
        demandOption: true,
        describe: "Key columns: LEFT=RIGHT, several separated by commas, one name if both sides have it"
    },
    type: {
        type: "string",
        choices: ["inner", "left", "right", "full", "semi", "anti"],
        default: "inner",
        describe: "Which rows come out"
    },
    select: { type: "string", array: true, describe: "Result columns, separated by commas (default: all)" },
    suffix: { type: "string", describe: 'Appended to right columns whose name the left has too (default: "_right")' },
    "null-equality": { type: "boolean", default: false, describe: "NULL keys equal each other (SQL: they do not)" },
    algorithm: {
        type: "string",
        choices: joinAlgorithms,
        default: "auto",
        describe: "How to join; a name of a GPU takes the query there where it can run, one out of core nowhere else"
    },
    experiment: experimentOption,
    left: { type: "string", array: true, describe: "File(s) of the left relation; repeatable" },
    right: { type: "string", array: true, describe: "File(s) of the right relation; repeatable" },
    ...runtimeOptions
} as const;

export const joinOptions = { ...joinQueryOptions, ...resultOptions } as const;

type JoinArguments = ArgumentsOf<typeof joinPositionals, typeof joinOptions>;

export async function runJoin(args: JoinArguments, context: CommandContext): Promise<void> {
    checkDelivery(args);
    const files = await joinInputs(args.relations, args.left, args.right, context.signal);
    const on = parseKeys("on", args.on);
    const select = args.select == null ? null : parseList("select", args.select);
    await using runtime = await openCommandRuntime(args);
    const query = runtime.join({
        left: await unlessStopped(context.signal, runtime.fromArrowFile(files.left)),
        right: await unlessStopped(context.signal, runtime.fromArrowFile(files.right)),
        on,
        type: args.type as "inner",
        nullEquality: args["null-equality"],
        algorithm: args.algorithm,
        ...(args.experiment == null ? {} : { experiment: parseExperiment("experiment", args.experiment) }),
        ...(select == null ? {} : { select }),
        ...(args.suffix == null ? {} : { suffix: args.suffix })
    });
    await deliver(query, args, context);
}

export const joinCommand = defineCommand({
    usage: "join [relations..]",
    synopsis: "join LEFT RIGHT --on KEYS [options]",
    describe: "Join two relations of Arrow files",
    examples: [
        ["$0 join orders.arrow lineitem.arrow --on o_orderkey=l_orderkey --count", "How many rows match"],
        ["$0 join a.arrow 'b-*.arrow' --on id -m 2GiB -o joined.arrow", "Write the result, within 2 GiB of memory"]
    ],
    positionals: joinPositionals,
    options: joinOptions,
    run: runJoin
});
