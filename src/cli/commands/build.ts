// SPDX-License-Identifier: Apache-2.0
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { SpillwayError } from "../../index.js";
import { defineCommand, type CommandContext } from "../command.js";

const script = fileURLToPath(new URL("../../../scripts/build.mjs", import.meta.url));

/** Runs the build; its progress goes to stderr. Resolves with its exit code; rejects when the run is to stop. */
async function runBuild(cuda: string, { signal }: CommandContext): Promise<number> {
    const child = spawn(process.execPath, [script, "--engine", "--cuda", cuda], {
        stdio: ["ignore", "inherit", "inherit"]
    });
    const stop = (): void => void child.kill("SIGTERM");
    signal.addEventListener("abort", stop, { once: true });
    try {
        return await new Promise((resolve, reject) => {
            child.once("error", reject).once("close", (code) => resolve(code ?? 1));
        });
    } finally {
        signal.removeEventListener("abort", stop);
        // An interruption is the reason why the run ends, whatever became of the child.
        signal.throwIfAborted();
    }
}

export const buildCommand = defineCommand({
    usage: "build",
    synopsis: "build [--cuda auto|on|off]",
    describe: "Compile the engine, once for each installed version; it stays when node_modules goes",
    examples: [
        ["$0 build", "the engine, and the CUDA plugin where a GPU and nvcc are"],
        ["SPILLWAY_ENGINE_FOLDER=/opt/spillway $0 build", "into a folder that other users may read"]
    ],
    positionals: {},
    options: {
        cuda: {
            type: "string",
            choices: ["auto", "on", "off"],
            default: "auto",
            describe: "The CUDA plugin: auto compiles it where a GPU is, on everywhere, off nowhere"
        }
    },
    remedies: { NATIVE_MISSING: "Mend what is told above and run it again." },
    run: async (args, context) => {
        const code = await runBuild(args.cuda, context);
        if (code !== 0) throw new SpillwayError("NATIVE_MISSING", "The engine was not built", { exitCode: code });
    }
});
