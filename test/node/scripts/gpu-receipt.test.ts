// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { Sandbox } from "../../support/sandbox.js";
import { repositoryRoot } from "../../support/source-tree.js";

interface Receipt {
    complete: boolean;
    commit: string | null;
    sources_sha256: string | null;
    not_run: string[];
    tests_passed: number;
    tests_failed: number;
    tests_left_out: number;
    tests: { name: string; status: string; message?: string }[];
    sanitizers: { tool: string; clean: boolean; errors: number }[];
}
interface ReceiptModule {
    readReceipt: (file?: string) => Receipt | null;
    receiptProblems: (receipt: unknown) => string[];
}
const { readReceipt, receiptProblems } = (await import(
    join(repositoryRoot, "scripts/steps/gpu-receipt.mjs")
)) as ReceiptModule;

interface Fake {
    tests?: Record<string, string>;
    errors?: Record<string, number>;
    noDevice?: boolean;
    crash?: boolean;
    hang?: boolean;
}
const green = { tests: { "room: one": "passed", "room: two": "passed" } };
const stamp = { sources_sha256: "a".repeat(64), commit: "b".repeat(40) };

/** A machine with what is packed for one without network: the scripts, the program (a fake) and its stamp. */
class Packed extends Sandbox {
    readonly receiptFile = this.path("test/gpu/receipt.json");

    constructor(stamped: object | null = stamp) {
        super();
        cpSync(join(repositoryRoot, "scripts"), this.path("scripts"), { recursive: true });
        for (const folder of ["build/gpu-tests", "test/gpu"]) mkdirSync(this.path(folder), { recursive: true });
        const source = readFileSync(join(repositoryRoot, "test/support/fake-gpu-program.mjs"), "utf8");
        // Without an ending a program is taken for CommonJS, unless the nearest package.json says otherwise.
        writeFileSync(this.path("package.json"), '{ "type": "module" }');
        for (const name of ["spillway_gpu_tests", "spillway_gpu_tests_plain", "compute-sanitizer"]) {
            const program = this.path(`build/gpu-tests/${name}`);
            writeFileSync(program, `#!${process.execPath}\n${source}`);
            chmodSync(program, 0o755);
        }
        if (stamped !== null) {
            writeFileSync(this.path("build/gpu-tests/spillway_gpu_tests.json"), JSON.stringify(stamped));
        }
    }

    run(fake: Fake, ...args: string[]) {
        writeFileSync(this.path("build/gpu-tests/fake.json"), JSON.stringify(fake));
        const sanitizer = this.path("build/gpu-tests/compute-sanitizer");
        const result = spawnSync(process.execPath, [this.path("scripts/test-gpu.mjs"), ...args], {
            cwd: this.folder,
            encoding: "utf8",
            env: { ...process.env, COMPUTE_SANITIZER: sanitizer, SPILLWAY_COMMIT: "", CUDA_VISIBLE_DEVICES: "" }
        });
        return { ...result, lines: result.stdout.trimEnd().split("\n") };
    }

    receipt(): Receipt {
        const receipt = JSON.parse(readFileSync(this.receiptFile, "utf8")) as Receipt;
        expect(receiptProblems(receipt)).toEqual([]);
        return receipt;
    }
}

test("the receipt of this tree is there and well-formed; one that says less than it should is not", () => {
    const receipt = readReceipt();
    expect(receipt).not.toBeNull();
    expect(receiptProblems(receipt)).toEqual([]);
    const broken = [{}, { ...receipt, tests_passed: -1 }, { ...receipt, sanitizers: undefined }];
    for (const each of broken) expect(receiptProblems(each)).not.toEqual([]);
    expect(readReceipt(join(repositoryRoot, "test/gpu/no-receipt.json"))).toBeNull();
});

describe("a run", () => {
    test("of everything leaves a complete receipt", () => {
        using packed = new Packed();
        const { status, lines } = packed.run(green, "--sanitize");
        expect(lines.at(-1)).toBe("10 passed, 0 failed");
        expect(status).toBe(0);
        const receipt = packed.receipt();
        expect(receipt).toMatchObject({ ...stamp, complete: true, not_run: [], tests_passed: 2, tests_failed: 0 });
        expect(receipt.sanitizers.map(({ tool }) => tool)).toEqual(["memcheck", "racecheck", "synccheck", "initcheck"]);
    });

    test("of initcheck and synccheck has no tests of kernels that kernels launch, which they do not follow", () => {
        using packed = new Packed();
        const some = { tests: { ...green.tests, "child kernels: three": "passed" } };
        expect(packed.run(some, "--sanitize").lines.at(-1)).toBe("13 passed, 0 failed");
        const receipt = packed.receipt();
        expect(receipt).toMatchObject({ complete: true, not_run: [], tests_passed: 3 });
        const [memcheck, , ...others] = receipt.sanitizers;
        expect(memcheck).toMatchObject({ tests_passed: 3 });
        const without = { tests_passed: 2, tests_without: ["child kernels: "] };
        expect(others).toMatchObject(["synccheck", "initcheck"].map((tool) => ({ tool, ...without })));
    });

    test("that leaves tests out has not passed them and says what the machine lacks", () => {
        using packed = new Packed();
        const some = { tests: { ...green.tests, "room: three": "left out", "room: four": "left out" } };
        const { status, lines } = packed.run(some, "--sanitize");
        expect(lines.at(-1)).toBe("10 passed, 0 failed");
        expect(lines.join("\n")).toContain("GPU tests: 2 passed and 0 failed, 2 left out, in 0 s");
        expect(status).toBe(0);
        const receipt = packed.receipt();
        expect(receipt).toMatchObject({ complete: true, not_run: [], tests_passed: 2, tests_left_out: 2 });
        expect(receipt.sanitizers[0]).toMatchObject({ tests_passed: 2, tests_failed: 0, tests_left_out: 2 });
        expect(receiptProblems({ ...receipt, tests_left_out: 0 })).toHaveLength(1);
        const verdict = packed.run(some, "--check-receipt").stdout;
        expect(verdict).toContain("2 passed; left out, at least in part: it is invented (2 tests)");
    });

    test("of everything at once has the tests of both halves of the suite", () => {
        using packed = new Packed();
        const five = ["one", "two", "three", "four", "five"].map((name) => [`room: ${name}`, "passed"]);
        const tests = Object.fromEntries(five) as Record<string, string>;
        expect(packed.run({ tests }, "--sanitize", "--at-once").lines.at(-1)).toBe("25 passed, 0 failed");
        const receipt = packed.receipt();
        expect(receipt).toMatchObject({ complete: true, tests_passed: 5, tests_failed: 0 });
        expect(receipt.tests.map(({ name }) => name)).toEqual(Object.keys(tests));
        expect(packed.run({ tests: { ...tests, "room: five": "failed" } }, "--at-once").status).toBe(1);
        expect(packed.receipt()).toMatchObject({ complete: false, tests_passed: 4, tests_failed: 1 });
    });

    test("on two GPUs has the tests of all parts, and each tool sees one GPU", () => {
        using packed = new Packed();
        const names = ["one", "two", "three", "four", "five", "six"].map((name) => [`room: ${name}`, "passed"]);
        const tests = Object.fromEntries(names) as Record<string, string>;
        const options = ["--at-once", "--tool", "memcheck", "--gpus"];
        const { lines } = packed.run({ tests }, ...options, "1,3");
        expect(lines.at(-1)).toBe("12 passed, 0 failed");
        const seen = lines.filter((line) => line.startsWith("only GPU")).sort();
        expect(seen).toEqual([1, 3].map((gpu) => `only GPU ${gpu} is seen, number 0 is used`));
        expect(packed.receipt().tests.map(({ name }) => name)).toEqual(Object.keys(tests));
        expect(packed.receipt().sanitizers).toMatchObject([{ tool: "memcheck", clean: true, tests_passed: 6 }]);
        const found = packed.run({ tests, errors: { memcheck: 2 } }, ...options, "1,3");
        expect([found.status, packed.receipt().sanitizers[0]?.clean]).toEqual([1, false]);
        expect(packed.run({ tests }, ...options, "one").stderr).toContain("numbers of GPUs such as 0,1 for --gpus");
        expect(packed.run({ tests }, "--gpus", "0,1").stderr).toContain("--gpus is for --at-once");
    });

    test("of the suite, then of the tools, some at a time, makes a receipt complete", () => {
        using packed = new Packed();
        const refused = packed.run(green, "--tools-only");
        expect([refused.status, refused.stderr]).toEqual([2, expect.stringContaining("no receipt of a run of these")]);
        packed.run(green, "--tool", "racecheck");
        const missing = ["memcheck", "synccheck", "initcheck"].map((tool) => `compute-sanitizer ${tool}`);
        expect(packed.receipt()).toMatchObject({ complete: false, not_run: missing });
        const { lines } = packed.run(green, "--tools-only", "--tool", "memcheck", "--tool", "initcheck", "--at-once");
        expect(lines.at(-1)).toBe("4 passed, 0 failed");
        expect(packed.receipt()).toMatchObject({ complete: false, not_run: ["compute-sanitizer synccheck"] });
        expect(packed.run({ ...green, errors: { synccheck: 1 } }, "--tools-only", "--tool", "synccheck").status).toBe(
            1
        );
        expect(packed.receipt().complete).toBe(false);
        packed.run(green, "--tools-only", "--tool", "synccheck");
        expect(packed.receipt()).toMatchObject({ ...stamp, complete: true, not_run: [], tests_passed: 2 });
        expect(packed.run(green, "--tool", "nothing").stderr).toContain("Expected memcheck, racecheck");
    });

    test("without the sanitizers, with a filter or of the small suite is not complete and says why", () => {
        using packed = new Packed();
        const { status } = packed.run(green, "--filter", "room", "--suite", "small");
        expect(status).toBe(0);
        const tools = ["memcheck", "racecheck", "synccheck", "initcheck"].map((tool) => `compute-sanitizer ${tool}`);
        expect(packed.receipt()).toMatchObject({
            complete: false,
            not_run: ["tests whose names do not contain 'room'", "the full suite", ...tools]
        });
    });

    test("that is partial but green leaves a complete receipt of the same sources, a red one does not", () => {
        using packed = new Packed();
        packed.run(green, "--sanitize");
        expect(packed.run(green, "--filter", "room").stdout).toContain("is kept");
        expect(packed.receipt().complete).toBe(true);
        packed.run({ tests: { "room: one": "failed" } });
        expect(packed.receipt().complete).toBe(false);
    });

    test("with a failed test names it", () => {
        using packed = new Packed();
        const { status, lines } = packed.run({ tests: { "room: one": "passed", "room: two": "failed" } });
        expect(status).toBe(1);
        expect(lines.slice(-2)).toEqual(["failed: GPU tests: room: two: invented", "1 passed, 1 failed"]);
        expect(packed.receipt()).toMatchObject({ complete: false, tests_failed: 1 });
    });

    test("with an error that only a sanitizer sees is not complete", () => {
        using packed = new Packed();
        const { status, lines } = packed.run({ ...green, errors: { racecheck: 3 } }, "--sanitize");
        expect(status).toBe(1);
        expect(lines.at(-1)).toBe("10 passed, 1 failed");
        const { complete, sanitizers } = packed.receipt();
        expect(complete).toBe(false);
        expect(sanitizers.filter(({ clean }) => !clean)).toMatchObject([{ tool: "racecheck", errors: 3 }]);
    });

    test("that crashes or hangs names the test that did it and those that were not run", () => {
        using packed = new Packed();
        const tests = { "room: one": "passed", "room: two": "running", "room: zero": "not run" };
        expect(packed.run({ tests, crash: true }).lines.at(-1)).toBe("1 passed, 1 failed");
        expect(packed.receipt().tests[1]).toMatchObject({ status: "failed", message: "the run ended in it: SIGSEGV" });
        expect(packed.receipt().not_run).toContain("test 'room: zero'");
        packed.run({ tests, hang: true }, "--limit-s", "1");
        expect(packed.receipt().tests[1]?.message).toBe("the run ended in it: the time limit of 1 s");
    });

    test("on a machine without a GPU has passed nothing, and leaves no receipt", () => {
        using packed = new Packed();
        const { status, stdout, stderr } = packed.run({ noDevice: true });
        expect([status, stdout, stderr]).toEqual([2, "", "No test was run: no GPU can be used (invented).\n"]);
        expect(existsSync(packed.receiptFile)).toBe(false);
    });

    test("of a program of unknown sources is not complete", () => {
        using packed = new Packed(null);
        packed.run(green, "--sanitize");
        expect(packed.receipt()).toMatchObject({ complete: false, sources_sha256: null });
    });
});

test("receipts that claim more than their lists show are found out", () => {
    using packed = new Packed();
    packed.run(green);
    const receipt = packed.receipt();
    expect(receiptProblems({ ...receipt, complete: true })).toEqual(["'complete' is true, its lists say false"]);
    expect(receiptProblems({ ...receipt, tests_passed: 3 })).toEqual([
        "the numbers of tests are not those of the list"
    ]);
    expect(receiptProblems({ ...receipt, not_run: [] })).toEqual(["'not_run' is not what the lists lack"]);
    expect(receiptProblems({ ...receipt, tests: [{ name: "room: one" }], date: "soon" })).toEqual([
        "'date' is missing or malformed",
        "'tests' is missing or malformed"
    ]);
    expect(receiptProblems(null)).toEqual(["it is no object"]);
});

test("the line for CI warns of a missing receipt and of one of other sources", () => {
    using packed = new Packed();
    const missing = packed.run(green, "--check-receipt");
    expect([missing.status, missing.lines.length]).toEqual([0, 1]);
    expect(missing.stdout).toMatch(/^warning: .*there is no test\/gpu\/receipt\.json$/m);
    packed.run(green, "--sanitize");
    expect(packed.run(green, "--check-receipt").stdout).toMatch(/^warning: .*is of other sources \(Invented, /);
});
