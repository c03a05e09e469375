// SPDX-License-Identifier: Apache-2.0
// Files of the command line itself: profiles, the demo's folder, links of others.
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, lchownSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { writeOutput } from "../../../src/cli/output-file.js";
import { openWorkFolder } from "../../../src/cli/work-folder.js";
import { startProgram } from "../../support/child.js";
import { Sandbox, until } from "../../support/sandbox.js";
import { repositoryRoot } from "../../support/source-tree.js";
import { command } from "./in-process.js";

const program = join(repositoryRoot, "dist/cli/main.js");
let sandbox: Sandbox;
beforeEach(() => {
    sandbox = new Sandbox();
});
afterEach(() => sandbox[Symbol.dispose]());

describe("--machine", () => {
    // Reading is one call that does not come back: a process of its own can be ended.
    test.each([
        ["pipe", () => (execFileSync("mkfifo", [sandbox.path("pipe")]), sandbox.path("pipe"))],
        ["device without end", () => "/dev/zero"],
        ["folder", () => sandbox.folder]
    ])("takes no %s", (_, path) => {
        const words = [program, "join", "a", "b", "--on", "k", "--machine", path()];
        const { status, signal, stderr } = spawnSync(process.execPath, words, {
            timeout: 30_000,
            killSignal: "SIGKILL",
            encoding: "utf8"
        });
        expect([status, signal]).toEqual([1, null]);
        expect(stderr).toContain("is no regular file; name a file of machine calibrate");
    });

    test("takes no file that is larger than any profile", async () => {
        const path = sandbox.path("large.yaml");
        writeFileSync(path, `# ${"x".repeat(2 ** 20)}\n`);
        const { code, stderr } = await command(["join", "a", "b", "--on", "k", "--machine", path]);
        expect([code, stderr]).toEqual([2, expect.stringContaining("has more than 1 MiB")]);
    });

    test("says in one line what is wrong with a file", async () => {
        const path = sandbox.path("wrong.yaml");
        for (const text of ["a: b: c\n  - d", "name: 7\nread_bytes_per_ms: none\n"]) {
            writeFileSync(path, text);
            const { code, stderr } = await command(["join", "a", "b", "--on", "k", "--machine", path]);
            expect([code, stderr]).toEqual([
                2,
                expect.stringMatching(/^INVALID_ARGUMENT: Machine profile.*is not valid/)
            ]);
            expect(stderr).not.toContain("\\n");
        }
    });
});

describe("the demo's folder", () => {
    const words = (): string[] => ["demo", "--folder", sandbox.output, "--spill-directory", sandbox.spill];
    const folders = (): string[] => readdirSync(sandbox.output);

    async function stoppedBy(signal: NodeJS.Signals): Promise<number | null> {
        const child = startProgram(process.execPath, [program, ...words(), "--threads", "1"]);
        await until(() => folders().length > 0, 30_000);
        child.process.kill(signal);
        return (await child.result).code;
    }

    test("goes when the terminal is closed", async () => {
        expect(await stoppedBy("SIGHUP")).toBe(129);
        expect(folders()).toEqual([]);
    });

    test("goes with the next demo when the process was killed", async () => {
        expect(await stoppedBy("SIGKILL")).toBeNull();
        const [left] = folders();
        expect(left).toMatch(/^spillway-demo-\d+-\d+-\d+-/);
        const [, pid, start, namespace] = /-(\d+)-(\d+)-(\d+)-[^-]+$/.exec(left!)!;
        const own = await openWorkFolder(sandbox.output, "demo", "a test");
        const [again] = folders();
        expect([folders(), again]).toEqual([
            [own.path.slice(sandbox.output.length + 1)],
            expect.not.stringContaining(left!)
        ]);
        // Alive, of another namespace, of no known namespace, no folder, and what is not a demo's.
        const kept = [
            `spillway-demo-${pid}-${start}-${Number(namespace) + 1}-abcdef`,
            `spillway-demo-${pid}-${start}-0-abcdef`,
            `spillway-demo-${pid}-${start}-${namespace}-abc-def`,
            `spillway-demo-abcdef`,
            `my-spillway-demo-${pid}-${start}-${namespace}-abcdef`
        ];
        for (const name of kept) mkdirSync(join(sandbox.output, name));
        const file = `spillway-demo-${pid}-${start}-${namespace}-noFile`;
        writeFileSync(join(sandbox.output, file), "");
        const link = `spillway-demo-${pid}-${start}-${namespace}-link00`;
        symlinkSync(join(sandbox.output, kept[0]!), join(sandbox.output, link));
        const earlier = `spillway-demo-${process.pid}-1-${namespace}-abcdef`; // the number was used again
        mkdirSync(join(sandbox.output, earlier, "deep"), { recursive: true });
        expect((await command([...words(), "--scale", "0.001", "--threads", "1"])).code).toBe(0);
        expect(folders().sort()).toEqual([...kept, file, link, again!].sort());
        own.remove();
        expect(folders()).not.toContain(again);
    });
});

describe("a file of the command line's own", () => {
    test("is written through links of this user", () => {
        symlinkSync("second", sandbox.path("first"));
        symlinkSync(sandbox.path("real"), sandbox.path("second"));
        for (const text of ["one", "2"]) {
            writeOutput(sandbox.path("first"), text);
            expect(readFileSync(sandbox.path("real"), "utf8")).toBe(text);
        }
        symlinkSync("ring", sandbox.path("ring"));
        expect(() => writeOutput(sandbox.path("ring"), "x")).toThrow(/ELOOP/);
    });

    // Who is not root can give no link to another user.
    test.runIf(process.geteuid?.() === 0)(
        "is not written through another user's in a folder for everybody",
        async () => {
            const [real, link] = [sandbox.path("real"), sandbox.path("link")];
            writeFileSync(real, "old");
            symlinkSync("real", link);
            lchownSync(link, 12345, 12345);
            chmodSync(sandbox.folder, 0o1777);
            expect(() => writeOutput(link, "new")).toThrow(/a symbolic link of another user/);
            const lineitem = join(repositoryRoot, "test/fixtures/tpch/lineitem.arrow");
            const query = ["groupby", lineitem, "--aggregate", "n=count:*", "--threads", "1", "--overwrite"];
            const { code, stderr } = await command([...query, "--output", link]);
            expect([code, stderr]).toEqual([
                1,
                expect.stringMatching(/^OUTPUT_FAILED: .*a symbolic link of another user/)
            ]);
            expect(readFileSync(real, "utf8")).toBe("old");
            chmodSync(sandbox.folder, 0o777);
            writeOutput(link, "new");
            expect(readFileSync(real, "utf8")).toBe("new");
        }
    );
});
