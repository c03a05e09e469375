// SPDX-License-Identifier: Apache-2.0
// A package whose addon is missing, damaged or of another version says so and how to mend it.
import { execFile } from "node:child_process";
import { copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";
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
    for (const name of ["errors.js", "native/load.js", "native/load-failure.js"]) {
        cpSync(join(dist, name), join(folder, "dist", name), { recursive: true });
    }
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** What a process says that loads the package in `folder`. */
async function load(): Promise<Record<string, unknown>> {
    const script = join(folder, "dist", "native", "load.js");
    const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", program, script]);
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
