// SPDX-License-Identifier: Apache-2.0
// A package whose addon is missing, damaged or of another version says so and how to mend it.
import { execFile } from "node:child_process";
import { copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { addonPath } from "./support.js";

const dist = fileURLToPath(new URL("../../../dist", import.meta.url));

const program = `
    const { loadBinding } = await import(process.argv[1]);
    try {
        const binding = await loadBinding();
        console.log(JSON.stringify({ same: binding === (await loadBinding()), codes: binding.errorCodes().length }));
    } catch (error) {
        const { name, code, message, details } = error;
        console.log(JSON.stringify({ name, code, message, details }));
    }`;

let folder = "";

beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "spillway-load-"));
    mkdirSync(join(folder, "build", "Release"), { recursive: true });
    writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
    for (const name of ["errors.js", "native/load.js", "native/load-failure.js", "native/engine-folder.js"]) {
        cpSync(join(dist, name), join(folder, "dist", name), { recursive: true });
    }
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** What a process says that loads the package in `folder`. */
async function load(env: NodeJS.ProcessEnv = {}): Promise<Record<string, unknown>> {
    const script = join(folder, "dist", "native", "load.js");
    const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", program, script], {
        env: { ...process.env, ...env }
    });
    return JSON.parse(stdout) as Record<string, unknown>;
}

const addon = (kind = "Release"): string => join(folder, "build", kind, "spillway.node");
const missing = (message: RegExp) => ({
    name: "SpillwayError",
    code: "NATIVE_MISSING",
    message: expect.stringMatching(message) as string,
    details: { path: addon() }
});

test("the addon is loaded once", async () => {
    copyFileSync(addonPath, addon());
    expect(await load()).toEqual({ same: true, codes: 21 });
});

test("a debug build counts when there is no other", async () => {
    mkdirSync(join(folder, "build", "Debug"));
    copyFileSync(addonPath, addon("Debug"));
    expect(await load()).toEqual({ same: true, codes: 21 });
});

test("not built", async () => {
    expect(await load()).toMatchObject(missing(/has not been built yet: .*\n {2}- build it: run `npm run build`/));
});

test("a build that did not get to its end", async () => {
    writeFileSync(join(folder, "build", "CMakeCache.txt"), "");
    expect(await load()).toMatchObject(missing(/A build was begun but left no engine/));
});

test("damaged", async () => {
    for (const bytes of [Buffer.from("text"), Buffer.alloc(8192, 1)]) {
        writeFileSync(addon(), bytes);
        const message = /could not be loaded: .*built for another processor or its file is damaged.*delete the folder/s;
        expect(await load()).toMatchObject(missing(message));
    }
});

test("of another version", async () => {
    copyFileSync(addonPath, addon());
    const errors = join(folder, "dist", "errors.js");
    writeFileSync(errors, readFileSync(errors, "utf8").replace('"ABORTED"', '"STOPPED"'));
    expect(await load()).toMatchObject(
        missing(/another version of this package \(error codes differ: STOPPED, ABORTED/)
    );
});

describe("of an installed package", () => {
    const name = `1.2.3-abc-${process.platform}-${process.arch}`;
    let engines = "";

    beforeEach(() => {
        writeFileSync(join(folder, "dist", "native", "engine.json"), '{ "version": "1.2.3", "sources": "abc" }');
        engines = join(folder, "engines");
        mkdirSync(join(engines, name), { recursive: true });
    });

    test("the engine is where SPILLWAY_ENGINE_FOLDER says, else among the user's caches", async () => {
        copyFileSync(addonPath, join(engines, name, "spillway.node"));
        expect(await load({ SPILLWAY_ENGINE_FOLDER: engines })).toEqual({ same: true, codes: 21 });
        const caches = join(folder, "caches");
        cpSync(engines, join(caches, "spillway"), { recursive: true });
        const byCache = { SPILLWAY_ENGINE_FOLDER: "", XDG_CACHE_HOME: caches };
        expect(await load(byCache)).toEqual({ same: true, codes: 21 });
        cpSync(caches, join(folder, ".cache"), { recursive: true });
        const byHome = { SPILLWAY_ENGINE_FOLDER: "", XDG_CACHE_HOME: "relative", HOME: folder };
        expect(await load(byHome)).toEqual({ same: true, codes: 21 });
    });

    test("one that is not built is built with one command", async () => {
        const message = /there is no .*engines.*\n {2}- build it: run `npx spillway build` in your project/;
        expect(await load({ SPILLWAY_ENGINE_FOLDER: engines })).toMatchObject({
            ...missing(message),
            details: { path: join(engines, name, "spillway.node") }
        });
    });

    test("a damaged one is deleted and built anew", async () => {
        writeFileSync(join(engines, name, "spillway.node"), "text");
        const { message } = await load({ SPILLWAY_ENGINE_FOLDER: engines });
        expect(message).toContain(`delete the folder ${join(engines, name)}\n  - build it: run \`npx spillway build\``);
    });

    test("a checkout has its own in build/, whatever was packed of it", async () => {
        writeFileSync(join(folder, "tsconfig.json"), "{}");
        copyFileSync(addonPath, join(engines, name, "spillway.node"));
        expect(await load({ SPILLWAY_ENGINE_FOLDER: engines })).toMatchObject(missing(/run `npm run build`/));
    });
});
