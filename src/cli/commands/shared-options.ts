// SPDX-License-Identifier: Apache-2.0
import { openRuntime, type Runtime } from "../../index.js";
import { parseCount } from "../parse/numbers.js";

// What `openRuntime` takes.
const threadsMax = 1024;

/** Options of every command that runs the engine. */
export const runtimeOptions = {
    device: {
        type: "string",
        choices: ["auto", "cpu", "gpu"],
        default: "auto",
        describe: "Where to run; auto takes the best there is"
    },
    memory: {
        type: "string",
        alias: "m",
        describe: "Host memory budget, such as 512MiB or 2GiB (default: chosen from what is free)"
    },
    "device-memory": {
        type: "string",
        describe: "GPU memory budget, such as 16GiB (default: what is free when a query first needs it)"
    },
    "peer-memory": {
        type: "string",
        describe: "Memory of a second GPU for rows that leave the first one's, such as 16GiB (default: none)"
    },
    threads: { type: "string", alias: "t", describe: "Worker threads (default: all cores)" },
    machine: { type: "string", describe: "Speeds of this machine, a file of machine calibrate" },
    "spill-directory": {
        type: "string",
        describe:
            "Folder for what does not fit the budget (default: the temporary folder, or /var/tmp where that is memory)"
    }
} as const;

/** What the planner decides and an experiment varies. */
export const experimentOption = {
    type: "string",
    array: true,
    describe: "Decisions of the planner to overrule, NAME=VALUE separated by commas, such as interleave=1:3"
} as const;

/** Where the rows go. Without any of these: the first rows as a table. */
export const resultOptions = {
    output: { type: "string", alias: "o", describe: "Write the result to this Arrow file" },
    overwrite: { type: "boolean", default: false, describe: "Replace the output file if it exists" },
    count: { type: "boolean", default: false, describe: "Print the number of result rows only" },
    explain: {
        type: "boolean",
        default: false,
        describe: "Print the plan (with --count: of counting) and run nothing"
    },
    rows: { type: "string", describe: "Rows to print; no more are computed (default: 10 in a table, all with --json)" },
    json: { type: "boolean", default: false, describe: "Results (rows as JSON lines), plans and errors as JSON" },
    quiet: { type: "boolean", alias: "q", default: false, describe: "Nothing on stderr but errors" }
} as const;

export interface RuntimeArguments {
    device: string;
    memory: string | undefined;
    "device-memory": string | undefined;
    "peer-memory": string | undefined;
    threads: string | undefined;
    machine: string | undefined;
    "spill-directory": string | undefined;
}

/** Opens a runtime for one command; `await using` closes it, whatever happens. */
export async function openCommandRuntime(args: RuntimeArguments): Promise<Runtime> {
    const spillDirectory = args["spill-directory"];
    const deviceMemory = args["device-memory"];
    const peerMemory = args["peer-memory"];
    return await openRuntime({
        device: args.device as "auto" | "cpu" | "gpu", // yargs has checked the choices
        ...(args.threads == null ? {} : { threads: parseCount("threads", args.threads, 1, threadsMax) }),
        ...(args.machine == null ? {} : { machine: args.machine }),
        memory: {
            ...(args.memory == null ? {} : { host: args.memory }),
            ...(deviceMemory == null ? {} : { device: deviceMemory }),
            ...(peerMemory == null ? {} : { peer: peerMemory }),
            ...(spillDirectory == null ? {} : { spillDirectory })
        }
    });
}
