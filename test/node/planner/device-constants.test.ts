// SPDX-License-Identifier: Apache-2.0
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../../support/source-tree.js";
import { binding } from "../addon/support.js";

/** The file as the engine would write it. */
function written(constants: Record<string, number>): string {
    const lines = Object.entries(constants).map(([name, value]) => `    ${name}: ${String(value)}`);
    return `// SPDX-License-Identifier: Apache-2.0

/**
 * Numbers of kernels and operators that plans depend on. cuda/memory_model/device_constants.cpp says where each is
 * defined and explained. \`npx vitest run test/node/planner/device-constants.test.ts -u\` asks the engine and writes
 * this file; without -u it compares the two.
 */
export const deviceConstants = {
${lines.join(",\n")}
};
`;
}

test("the planner has the constants of the engine", async () => {
    const constants = binding.deviceConstants();
    expect(Object.values(constants).every((value) => value > 0 && Number.isFinite(value))).toBe(true);
    await expect(written(constants)).toMatchFileSnapshot(join(repositoryRoot, "src/plan/device-constants.ts"));
});
