// SPDX-License-Identifier: Apache-2.0
// node scripts/build.mjs                  engine (build/Release), CUDA plugin where a GPU and nvcc are, dist
// node scripts/build.mjs --if-needed      does nothing for parts whose sources have not changed since their last build
// node scripts/build.mjs --native-only    leaves the JavaScript alone
// node scripts/build.mjs --debug          build/Debug, with debug information and without optimization
// node scripts/build.mjs --cuda on|off    auto (default): built where a GPU and a CUDA toolkit are, never an error
// node scripts/build.mjs --engine         the engine of an installed package, as `spillway build` does: into the folder
//                                         of src/native/engine-folder.ts, unless it is there; in a checkout into build/
// node scripts/build.mjs --package        what a package has and a checkout has not: dist, with the name of its engine
// Progress goes to stderr; the output of a compiler is shown only when it fails. Needs no network.
import { chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

import { installEngine } from "./steps/engine.mjs";
import { buildAddon, buildPlugin, configure, neededCuda } from "./steps/native.mjs";
import { missingTools } from "./steps/tools.mjs";
import { hashOf } from "./steps/sources.mjs";
import { withLock } from "./steps/lock.mjs";
import { BuildFailure, note, root, runStep } from "./steps/step.mjs";

const nativeSources = ["native", "cuda", "CMakeLists.txt"];
const scriptSources = ["src", "tsconfig.json", "configs/machines"];
const stampFile = join(root, "build", "stamps.json");
const engineNameFile = join(root, "dist", "native", "engine.json");

function readStamps() {
    try {
        return JSON.parse(readFileSync(stampFile, "utf8"));
    } catch {
        return {};
    }
}

/** `replaced`: stamps that no longer hold. */
function writeStamp(name, hash, replaced = []) {
    const others = Object.entries(readStamps()).filter(([each]) => !replaced.includes(each));
    mkdirSync(join(root, "build"), { recursive: true });
    writeFileSync(stampFile, `${JSON.stringify({ ...Object.fromEntries(others), [name]: hash }, null, 4)}\n`);
}

async function buildNative(kind, cuda, ifNeeded) {
    const stampOf = (plugin) => `${kind}, cuda ${plugin}`;
    const needed = neededCuda(cuda);
    const stamp = stampOf(needed);
    const hash = hashOf(nativeSources);
    const addon = join(root, "build", kind, "spillway.node");
    // A plugin more than is needed does no harm.
    const enough = needed === "off" ? [stamp, stampOf("on"), stampOf("auto")] : [stamp];
    const stamps = readStamps();
    if (ifNeeded && enough.some((each) => stamps[each] === hash) && existsSync(addon)) return;
    const missing = missingTools();
    if (missing !== null) throw new BuildFailure(missing);
    await configure(kind, cuda);
    await buildAddon(kind);
    await buildPlugin(kind, cuda);
    // One folder: a plugin of an earlier build is gone where this one leaves it out.
    writeStamp(stamp, hash, ["auto", "on", "off"].map(stampOf));
}

/** Outputs whose source has been deleted or renamed; the package must not ship them. */
function removeStaleOutputs() {
    const dist = join(root, "dist");
    for (const name of readdirSync(dist, { recursive: true }).map(String)) {
        const source = name.replace(/\.(d\.ts|d\.ts\.map|js|js\.map)$/, ".ts");
        if (source !== name && !existsSync(join(root, "src", source))) rmSync(join(dist, name));
    }
}

/** The machine profiles as data: to read them from YAML takes libraries that no query needs. */
async function writeProfiles() {
    const { readProfileFolder } = await import(pathToFileURL(join(root, "dist", "machine", "profile.js")).href);
    writeFileSync(join(root, "dist", "machine", "profiles.json"), JSON.stringify(readProfileFolder()));
}

/** `maps`: those of the sources, which no package has. */
async function buildScripts(ifNeeded, maps = true) {
    const hash = hashOf(scriptSources);
    const built = existsSync(join(root, "dist", "index.js"));
    if (ifNeeded && readStamps()["dist"] === hash && built) return;
    const compiler = join(root, "node_modules", "typescript", "bin", "tsc");
    if (!existsSync(compiler)) {
        // Plain `npm ci` leaves it out where NODE_ENV is "production".
        throw new BuildFailure("TypeScript is not installed; run `npm ci --include=dev` first.");
    }
    const withoutMaps = maps ? [] : ["--sourceMap", "false", "--declarationMap", "false"];
    await runStep("JavaScript", process.execPath, [compiler, "-p", "tsconfig.json", ...withoutMaps]);
    removeStaleOutputs();
    // As npm does where it installs the package: `npx spillway` runs it in a clone, too.
    chmodSync(join(root, "dist", "cli", "main.js"), 0o755);
    await writeProfiles();
    writeStamp("dist", maps ? hash : "");
}

/** With the name of the engine that belongs to these sources, which no checkout has (src/native/engine-folder.ts). */
async function buildPackageFiles() {
    await buildScripts(false, false);
    const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    writeFileSync(engineNameFile, JSON.stringify({ version, sources: hashOf(nativeSources).slice(0, 16) }));
}

/** The folder where an installed package has its engine; in a checkout there is none, and the result is null. */
async function installedFolder() {
    if (!existsSync(engineNameFile)) return null; // perhaps there is no dist either
    const { engineFolder } = await import(pathToFileURL(join(dirname(engineNameFile), "engine-folder.js")).href);
    return engineFolder();
}

async function buildEngine(cuda) {
    const folder = await installedFolder();
    if (folder !== null) return await installEngine(folder, cuda);
    await withLock(join(root, "build"), () => buildNative("Release", cuda, true));
}

function readArguments() {
    try {
        const { values } = parseArgs({
            options: {
                "if-needed": { type: "boolean", default: false },
                "native-only": { type: "boolean", default: false },
                debug: { type: "boolean", default: false },
                engine: { type: "boolean", default: false },
                package: { type: "boolean", default: false },
                cuda: { type: "string", default: "auto" }
            }
        });
        if (["auto", "on", "off"].includes(values.cuda)) return values;
        throw new Error(`Expected on, off or auto for --cuda but received '${values.cuda}'.`);
    } catch (error) {
        throw new BuildFailure(error.message, 2);
    }
}

async function build(options) {
    if (options.package) return await withLock(join(root, "build"), buildPackageFiles);
    if (options.engine) return await buildEngine(options.cuda);
    await withLock(join(root, "build"), async () => {
        await buildNative(options.debug ? "Debug" : "Release", options.cuda, options["if-needed"]);
        if (!options["native-only"]) await buildScripts(options["if-needed"]);
    });
}

async function main() {
    const options = readArguments();
    const start = Date.now();
    await build(options);
    const seconds = (Date.now() - start) / 1000;
    if (!options["if-needed"] || seconds > 2) note(`Built in ${seconds.toFixed(0)} s.`);
}

try {
    await main();
} catch (error) {
    if (!(error instanceof BuildFailure)) throw error;
    console.error(error.message);
    process.exitCode = error.exitCode;
}
