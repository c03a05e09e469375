// SPDX-License-Identifier: Apache-2.0
// The engine of an installed package: built beside its folder and renamed when it is whole.
import {
    existsSync,
    mkdirSync,
    mkdtempSync,
    readFileSync,
    readdirSync,
    renameSync,
    rmSync,
    statSync,
    statfsSync,
    utimes,
    writeFileSync
} from "node:fs";
import { basename, dirname, join } from "node:path";

import { withLock } from "./lock.mjs";
import { buildAddon, buildPlugin, configure, neededCuda, pluginName } from "./native.mjs";
import { BuildFailure, note } from "./step.mjs";
import { missingTools } from "./tools.mjs";

const kind = "Release";
const addonName = "spillway.node";
// A build shows every so often that it lives. Its pid would say nothing where containers share a folder of caches.
const livesMs = 10_000;
const deadMs = 600_000;
// With less, writes fail, and a tool may say something else of it or nothing.
const fullBytes = 4 << 20;

/** For which `--cuda` the engine in the folder was built; null where there is none. */
function builtFor(folder) {
    if (!existsSync(join(folder, addonName))) return null;
    if (existsSync(join(folder, pluginName))) return "on";
    try {
        return readFileSync(join(folder, "cuda"), "utf8");
    } catch {
        return "off";
    }
}

/** Where a plugin was tried and did not compile, `auto` does not try again. */
function isEnough(folder, cuda) {
    const built = builtFor(folder);
    const needed = neededCuda(cuda);
    return built !== null && (needed === "off" || built === "on" || built === needed);
}

async function buildIn(work, folder, cuda) {
    await configure(kind, cuda, work);
    await buildAddon(kind, work);
    await buildPlugin(kind, cuda, work);
    const made = join(work, kind);
    writeFileSync(join(made, "cuda"), neededCuda(cuda));
    rmSync(folder, { recursive: true, force: true }); // processes that run keep what they have loaded
    renameSync(made, folder);
}

/** Folders of builds that were killed. */
function removeDead(folder) {
    const prefix = `${basename(folder)}.building-`;
    for (const name of readdirSync(dirname(folder)).filter((each) => each.startsWith(prefix))) {
        const work = join(dirname(folder), name);
        const status = statSync(work, { throwIfNoEntry: false });
        if (status !== undefined && Date.now() - status.mtimeMs > deadMs) {
            rmSync(work, { recursive: true, force: true });
        }
    }
}

function isFull(folder) {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize < fullBytes;
}

async function buildLocked(work, folder, cuda) {
    if (isEnough(folder, cuda)) return; // somebody else built it meanwhile
    removeDead(folder);
    try {
        await buildIn(work, folder, cuda);
    } catch (error) {
        throw isFull(work) ? Object.assign(new Error("the disk is full", { cause: error }), { code: "ENOSPC" }) : error;
    }
}

async function buildBeside(folder, cuda) {
    mkdirSync(dirname(folder), { recursive: true });
    // Before the lock: it shows whether the folder can be written to.
    const work = mkdtempSync(`${folder}.building-`);
    const clean = () => rmSync(work, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
    const alive = setInterval(() => utimes(work, new Date(), new Date(), () => {}), livesMs);
    process.once("exit", clean);
    try {
        await withLock(dirname(folder), () => buildLocked(work, folder, cuda));
    } finally {
        clearInterval(alive);
        clean();
        process.removeListener("exit", clean);
    }
}

function explained(folder, error) {
    if (error instanceof BuildFailure || error.code === undefined) return error;
    return new BuildFailure(
        `Expected to write the engine to '${folder}' but that failed (${error.code}); mend that, or name a folder ` +
            "that you may write to in the environment variable SPILLWAY_ENGINE_FOLDER, also for programs that use it."
    );
}

/** Builds the engine into `folder` unless it is there. Nothing of a build that failed or was stopped is left. */
export async function installEngine(folder, cuda) {
    if (isEnough(folder, cuda)) return note(`The engine is built: ${folder}`);
    const missing = missingTools();
    if (missing !== null) throw new BuildFailure(missing);
    try {
        await buildBeside(folder, cuda);
    } catch (error) {
        throw explained(folder, error);
    }
    note(`The engine is built: ${folder}`);
}
