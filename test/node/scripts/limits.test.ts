// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { Sandbox } from "../../support/sandbox.js";
import { repositoryRoot } from "../../support/source-tree.js";

interface LimitsModule {
    groupLimits: (system?: string) => { memoryBytes: number; cores: number };
}
const { groupLimits } = (await import(join(repositoryRoot, "scripts/steps/limits.mjs"))) as LimitsModule;

/** The limits of a system with these files. */
function limitsOf(files: Record<string, string>) {
    using sandbox = new Sandbox();
    for (const [name, text] of Object.entries(files)) {
        const path = sandbox.path(name);
        mkdirSync(dirname(path), { recursive: true });
        writeFileSync(path, `${text}\n`);
    }
    return groupLimits(sandbox.folder);
}

test("version 2: the tightest of the own group and its parents", () => {
    const found = limitsOf({
        "proc/self/cgroup": "0::/outer/inner",
        "sys/fs/cgroup/outer/memory.max": "1000",
        "sys/fs/cgroup/outer/memory.current": "700",
        "sys/fs/cgroup/outer/memory.stat": "anon 500\ninactive_file 150\nactive_file 50",
        "sys/fs/cgroup/outer/inner/memory.max": "max",
        "sys/fs/cgroup/outer/inner/memory.current": "600",
        "sys/fs/cgroup/outer/cpu.max": "max 100000",
        "sys/fs/cgroup/outer/inner/cpu.max": "150000 100000"
    });
    expect(found).toEqual({ memoryBytes: 450, cores: 2 });
});

test("version 1, in a container that does not see its path on the host", () => {
    const found = limitsOf({
        "proc/self/cgroup": "4:memory:/docker/1\n3:cpu,cpuacct:/docker/1\n0::/",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "1000",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "800",
        "sys/fs/cgroup/memory/memory.stat": "inactive_file 10\ntotal_inactive_file 100",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"
    });
    expect(found).toEqual({ memoryBytes: 300, cores: 3 });
});

test("no limits where there are no control groups, or none that limits", () => {
    const none = { memoryBytes: Infinity, cores: Infinity };
    expect(limitsOf({})).toEqual(none);
    expect(limitsOf({ "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1" })).toEqual(none);
});
