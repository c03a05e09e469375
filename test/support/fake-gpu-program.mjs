// SPDX-License-Identifier: Apache-2.0
// Stands in for spillway_gpu_tests and, when called with --tool, for compute-sanitizer: writes the report that
// fake.json beside it holds, and ends as that says.
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const args = process.argv.slice(2);
const valueOf = (name) => args[args.indexOf(name) + 1];
const fake = JSON.parse(readFileSync(join(dirname(process.argv[1]), "fake.json"), "utf8"));

if (args.includes("--tool")) {
    const program = args.findIndex((arg) => /spillway_gpu_tests(_plain)?$/.test(arg));
    const { status } = spawnSync(args[program], args.slice(program + 1), { stdio: "inherit" });
    const errors = fake.errors?.[valueOf("--tool")] ?? 0;
    console.log(`========= ERROR SUMMARY: ${errors} errors`);
    process.exit(errors > 0 ? Number(valueOf("--error-exitcode")) : status);
}
if (args.includes("--list")) {
    for (const name of Object.keys(fake.tests)) console.log(name);
    process.exit(0);
}
if (fake.noDevice) {
    console.error("No test was run: no GPU can be used (invented).");
    process.exit(2);
}
const seen = process.env["CUDA_VISIBLE_DEVICES"];
if (seen) console.log(`only GPU ${seen} is seen, number ${valueOf("--device")} is used`);
const [part, parts] = args.includes("--part") ? valueOf("--part").split("/").map(Number) : [1, 1];
const filters = args.flatMap((arg, at) => (arg === "--filter" ? [args[at + 1]] : []));
const isWanted = ([name]) => filters.length === 0 || filters.some((filter) => name.includes(filter));
const all = Object.entries(fake.tests).filter(isWanted);
const cut = (end) => Math.floor((all.length * end) / parts);
const tests = all.slice(cut(part - 1), cut(part)).map(([name, status]) => ({
    ...{ name, status, ms: 1 },
    ...(status === "failed" ? { message: "invented" } : {}),
    ...(status === "left out" ? { left_out: "it is invented" } : {})
}));
const report = {
    device: { name: "Invented", compute_capability: "9.0", memory_bytes: 1024 },
    cuda: { driver: "13.0", runtime: "13.0" },
    seed: "1",
    suite: valueOf("--suite"),
    tests
};
writeFileSync(valueOf("--json"), JSON.stringify(report));
if (fake.crash) process.kill(process.pid, "SIGSEGV");
while (fake.hang);
const failed = tests.filter(({ status }) => status === "failed" || status === "not run").length;
console.log(`${tests.filter(({ status }) => status === "passed").length} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
