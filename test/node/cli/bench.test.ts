// SPDX-License-Identifier: Apache-2.0
// What the benchmark program says to a choice of no case; with any case it would run for minutes.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../../support/source-tree.js";

test.each(["nope", "count 10M"])('--quick --only "%s" is refused with the names of all cases', (only) => {
    const program = join(repositoryRoot, "test/bench/run.mjs");
    const words = [program, "--quick", "--only", only];
    const { status, stdout, stderr } = spawnSync(process.execPath, words, { encoding: "utf8" });
    expect([status, stdout]).toEqual([1, ""]);
    expect(stderr).toContain(`--only "${only}" names no case of this run`);
    for (const name of ["count 1M dense", "table 1M sparse", "file 1M sparse"]) expect(stderr).toContain(`"${name}"`);
});

test("the help of the GPU benchmark names the experiments that it takes: those that name no other program", () => {
    const run = (...words: string[]) =>
        spawnSync(process.execPath, [join(repositoryRoot, "test/bench/gpu.mjs"), ...words], { encoding: "utf8" });
    const folder = join(repositoryRoot, "configs/experiments");
    const programOf = (file: string) =>
        (JSON.parse(readFileSync(join(folder, file), "utf8")) as { program?: string }).program;
    const files = readdirSync(folder);
    const names = files.filter((file) => programOf(file) === undefined).map((file) => file.replace(".json", ""));
    expect(names.length).toBeGreaterThan(20);
    expect(files.length).toBeGreaterThan(names.length);
    for (const program of files.map(programOf).filter((name) => name !== undefined)) {
        expect(existsSync(join(repositoryRoot, `test/bench/${program}.mjs`))).toBe(true);
    }
    const { status, stdout } = run("--help");
    const described = /--experiment NAME[^]*?(?=\n {2}--)/.exec(stdout)![0].split(/[\s(),;:]+/);
    expect(status).toBe(0);
    const refused = run("--experiment", "nope");
    expect(refused.status).toBe(2);
    const taken = /^Expected (.*) for --experiment/.exec(refused.stderr)![1]!.split(", ");
    expect(taken.sort()).toEqual([...names, "all", "out-of-core"].sort());
    expect(taken.filter((name) => !described.includes(name))).toEqual([]);
    // Refused for the next option, not for this one.
    for (const name of taken) expect(run("--experiment", name, "--limit-s", "no").stderr).toMatch(/--limit-s/);
});
