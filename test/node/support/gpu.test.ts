// SPDX-License-Identifier: Apache-2.0
import { readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { useGpu, usesRealGpu } from "../../support/gpu.js";

const variable = "SPILLWAY_GPU_FOLDER";
const given = process.env[variable];

beforeEach(() => delete process.env[variable]);
afterEach(() => {
    if (given === undefined) delete process.env[variable];
    else process.env[variable] = given;
});

test.skipIf(usesRealGpu)("the folder of the tests' GPU is one for all, and none is left behind", () => {
    const folder = (): string => {
        delete process.env[variable];
        useGpu();
        return process.env[variable]!;
    };
    const first = folder();
    expect(folder()).toBe(first);
    expect(dirname(first)).not.toBe(tmpdir());
    expect(readdirSync(first).sort()).toEqual(["libspillway_cuda.so", "spillway_gpu_probe"]);
});
