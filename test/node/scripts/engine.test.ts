// SPDX-License-Identifier: Apache-2.0
// Building engines: of an installed package into the user's folder, of a checkout into build/.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { gpuFile } from "../../../src/machine/devices.js";
import { startProgram, type ChildResult } from "../../support/child.js";
import { Sandbox, until } from "../../support/sandbox.js";
import { writeSmallPackage } from "../../support/small-package.js";
import { repositoryRoot } from "../../support/source-tree.js";

let sandbox: Sandbox;
let engines = "";
const name = `1.2.3-abc-${process.platform}-${process.arch}`;
beforeEach(() => {
    sandbox = new Sandbox();
    writeSmallPackage(sandbox.folder);
    engines = sandbox.path("engines");
});
afterEach(() => sandbox[Symbol.dispose]());

/** Starts scripts/build.mjs of the small package, whose compilation takes at least so long. */
function start(words: readonly string[], seconds = 0) {
    const env = { SPILLWAY_ENGINE_FOLDER: engines, SMALL_SECONDS: String(seconds) };
    return startProgram(process.execPath, [sandbox.path("scripts/build.mjs"), ...words], { env });
}

async function build(...words: string[]): Promise<ChildResult> {
    const result = await start(words).result;
    expect(result.code, result.stderr).toBe(0);
    return result;
}

const found = (): string[] => (existsSync(engines) ? readdirSync(engines).sort() : []);
const isCompiling = (): boolean =>
    found().some((each) => each.includes(".building") && existsSync(join(engines, each, "CMakeCache.txt")));

test("the build looks for the same signs of a GPU as a runtime does", async () => {
    const tools = (await import(join(repositoryRoot, "scripts/steps/tools.mjs"))) as { gpuFile: RegExp };
    expect(String(tools.gpuFile)).toBe(String(gpuFile));
});

describe("of an installed package", () => {
    test("two builds at once compile once, and both succeed", async () => {
        const results = await Promise.all([start(["--engine"], 2).result, start(["--engine"], 2).result]);
        expect(results.map(({ code }) => code)).toEqual([0, 0]);
        expect(results.filter(({ stderr }) => stderr.includes("ok  engine and addon"))).toHaveLength(1);
        expect(found()).toEqual([name]);
        expect(readdirSync(join(engines, name)).sort()).toEqual(["cuda", "spillway.node"]);
    });

    test("a second one does nothing, and a plugin that is asked for is added", async () => {
        await build("--engine", "--cuda", "off");
        expect((await build("--engine", "--cuda", "off")).stderr).not.toContain("configuration");
        await build("--engine", "--cuda", "on");
        expect(readdirSync(join(engines, name))).toContain("libspillway_cuda.so");
    });

    test("a build that fails or is stopped leaves nothing, and the engine before it stays", async () => {
        await build("--engine", "--cuda", "off");
        const before = readFileSync(join(engines, name, "spillway.node"));
        const stopped = start(["--engine", "--cuda", "on"], 60);
        await until(isCompiling, 20_000);
        stopped.process.kill("SIGTERM");
        expect((await stopped.result).code).toBe(143);
        expect(found()).toEqual([name]);

        writeFileSync(sandbox.path("native/addon.cpp"), "no C++\n");
        const failed = await start(["--engine", "--cuda", "on"]).result;
        expect([failed.code, failed.stderr]).toEqual([1, expect.stringContaining("Building failed at step")]);
        expect(found()).toEqual([name]);
        expect(readFileSync(join(engines, name, "spillway.node"))).toEqual(before);
    });

    // In some containers nobody may mount a file system of his own.
    const mounts = spawnSync("unshare", ["-rm", "true"]).status === 0;
    test.skipIf(!mounts)("a folder that cannot be written to is told with the way out, as is a full disk", async () => {
        const small = sandbox.path("small");
        mkdirSync(small);
        const mounted = (size: string, more: string) => [
            "unshare",
            "-rm",
            "sh",
            "-c",
            `mount -t tmpfs -o size=${size} none ${small} && ${more} exec "$@"`,
            "sh"
        ];
        const run = (wrapper: string[]) =>
            startProgram(process.execPath, [sandbox.path("scripts/build.mjs"), "--engine"], {
                wrapper,
                env: { SPILLWAY_ENGINE_FOLDER: small, SMALL_SECONDS: "0" }
            }).result;
        const full = await run(mounted("128k", ""));
        expect([full.code, full.stderr]).toEqual([1, expect.stringMatching(/ENOSPC.*SPILLWAY_ENGINE_FOLDER/s)]);
        const fixed = await run(mounted("64k", `mount -o remount,ro ${small} &&`));
        expect([fixed.code, fixed.stderr]).toEqual([1, expect.stringMatching(/EROFS.*SPILLWAY_ENGINE_FOLDER/s)]);
    });

    test("a build of another container is left alone, and one that was killed long ago is removed", async () => {
        // Both have no process here: only the time of their last sign tells them apart.
        const [other, dead] = ["other", "dead"].map((each) => join(engines, `${name}.building-${each}`));
        for (const folder of [other!, dead!]) mkdirSync(folder, { recursive: true });
        const long = Date.now() / 1000 - 3600;
        utimesSync(dead!, long, long);
        await build("--engine");
        expect(found()).toEqual([name, `${name}.building-other`]);
    });
});

describe("of a checkout", () => {
    beforeEach(() => writeFileSync(sandbox.path("tsconfig.json"), "{}"));
    const plugin = (): boolean => existsSync(sandbox.path("build/Release/libspillway_cuda.so"));

    test("--if-needed builds a plugin again that a build without it has removed", async () => {
        await build("--native-only", "--cuda", "on");
        expect(plugin()).toBe(true);
        await build("--native-only", "--cuda", "off");
        expect(plugin()).toBe(false);
        await build("--native-only", "--cuda", "on", "--if-needed");
        expect(plugin()).toBe(true);
    });

    test("where TypeScript is missing, no package is made of an older dist", async () => {
        writeFileSync(sandbox.path("dist/index.js"), "");
        // Only the link to it.
        rmSync(sandbox.path("node_modules"));
        const { code, stderr } = await start(["--package"]).result;
        expect([code, stderr]).toEqual([1, expect.stringContaining("TypeScript is not installed")]);
    });
});
