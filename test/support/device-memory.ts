// SPDX-License-Identifier: Apache-2.0
// The engine's model of GPU memory, for tests of the planner: it needs no engine, no plugin and no GPU.
import type { DeviceMemoryModel } from "../../src/plan/device-memory-model.js";
import { DeviceMemory } from "../../src/planner/streaming/device-memory.js";
import { binding } from "../node/addon/support.js";

export const memoryModel: DeviceMemoryModel = {
    stagedJoinMemory: (join) => binding.stagedJoinMemory(join),
    stagedGroupByMemory: (group) => binding.stagedGroupByMemory(group),
    coherentJoinMemory: (join, options) => binding.coherentJoinMemory(join, options),
    baselineJoinMemory: (join, options) => binding.baselineJoinMemory(join, options)
};

/** What a query has of it. */
export const deviceMemory = (): DeviceMemory => new DeviceMemory(memoryModel);
