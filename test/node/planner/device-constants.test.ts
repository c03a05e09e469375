// SPDX-License-Identifier: Apache-2.0
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../../support/source-tree.js";
import { binding } from "../addon/support.js";

const listed = (names: readonly string[]): string => names.map((name) => `    "${name}"`).join(",\n");

/** The file as the engine would write it. */
function written(): string {
    const { joins, groupBys, partitioners, baselineJoins, streamProbes } = binding.deviceAlgorithms();
    const lines = Object.entries(binding.deviceConstants()).map(([name, value]) => `    ${name}: ${String(value)}`);
    return `// SPDX-License-Identifier: Apache-2.0

/**
 * Numbers of kernels and operators that plans depend on. cuda/memory_model/device_constants.cpp says where each is
 * defined and explained. \`npx vitest run test/node/planner/device-constants.test.ts -u\` asks the engine and writes
 * this file; without -u it compares the two.
 */
export const deviceConstants = {
${lines.join(",\n")}
};

// prettier-ignore
export const deviceJoinAlgorithms = [
${listed(joins)}
] as const;

// prettier-ignore
export const deviceGroupAlgorithms = [
${listed(groupBys)}
] as const;

// prettier-ignore
export const deviceFarPartitioners = [
${listed(partitioners)}
] as const;

// prettier-ignore
export const deviceBaselineJoins = [
${listed(baselineJoins)}
] as const;

// prettier-ignore
export const deviceStreamProbes = [
${listed(streamProbes)}
] as const;
`;
}

test("the planner has the constants and algorithms of the engine", async () => {
    const constants = Object.values(binding.deviceConstants());
    expect(constants.every((value) => value > 0 && Number.isFinite(value))).toBe(true);
    await expect(written()).toMatchFileSnapshot(join(repositoryRoot, "src/model/device-constants.ts"));
});
