// SPDX-License-Identifier: Apache-2.0
// The GPU benchmark's own code, with a fake program in the place of the one that needs a GPU.
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox } from "./sandbox.js";
import { repositoryRoot } from "./source-tree.js";

export interface BenchRecord {
    workload: { name: string; build_rows: number; zipf: number };
    algorithm: string;
    samples_ms: number[];
    verified: boolean;
}
export interface FakeBench {
    median_ms: number;
    noDevice?: boolean;
    wrong?: boolean;
    crash?: boolean;
    hang?: boolean;
    link_efficiency?: number;
}

/** A machine with what is packed for one without sources, and the built package for its planner. */
export class PackedBench extends Sandbox {
    readonly results = this.path("docs/results/h200/in-core-joins.json");
    commit = "abc1234";

    constructor(withProgram = true) {
        super();
        const bench = readdirSync(join(repositoryRoot, "test/bench"))
            .filter((name) => /^gpu.*\.mjs$/.test(name))
            .map((name) => `test/bench/${name}`);
        const packed = ["scripts/steps", "configs/experiments", ...bench];
        for (const name of packed) cpSync(join(repositoryRoot, name), this.path(name), { recursive: true });
        mkdirSync(this.path("build/gpu-tests"), { recursive: true });
        writeFileSync(this.path("package.json"), '{ "type": "module" }');
        symlinkSync(join(repositoryRoot, "dist"), this.path("dist"));
        if (!withProgram) return;
        const source = readFileSync(join(repositoryRoot, "test/support/fake-gpu-bench.mjs"), "utf8");
        const program = this.path("build/gpu-tests/spillway_gpu_bench");
        writeFileSync(program, `#!${process.execPath}\n${source}`);
        chmodSync(program, 0o755);
    }

    removePackage(): void {
        rmSync(this.path("dist"));
    }

    run(fake: FakeBench, ...args: string[]) {
        writeFileSync(this.path("build/gpu-tests/fake.json"), JSON.stringify(fake));
        return spawnSync(process.execPath, [this.path("test/bench/gpu.mjs"), ...args], {
            cwd: this.folder,
            encoding: "utf8",
            env: { ...process.env, SPILLWAY_COMMIT: this.commit }
        });
    }

    records(file = this.results): BenchRecord[] {
        return JSON.parse(readFileSync(file, "utf8")) as BenchRecord[];
    }
}
