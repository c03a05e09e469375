// SPDX-License-Identifier: Apache-2.0
import type { OutOfCoreGroupStage } from "../../plan/out-of-core-group-stage.js";
import type { OutOfCoreStage } from "../../plan/out-of-core-stage.js";
import { freezePlan, type Plan } from "../../plan/plan.js";
import { NotOnDevice } from "../device-support.js";
import type { PlanQuery } from "../plan-search.js";
import { groupHostBytes, groupStageOf } from "./group-plan.js";
import { unknownLimitBytes } from "./host-memory.js";
import { joinHostBytes, joinStageOf } from "./join-plan.js";

/**
 * Host memory that a query could use for chunks and spilled rows; 0 where its tables are likely to fit GPU memory, or
 * where it cannot run out of core at all. `limitBytes` undefined: not known yet.
 */
export function outOfCoreHostBytes(query: PlanQuery, limitBytes = unknownLimitBytes): number {
    try {
        if (query.root.kind === "group") return groupHostBytes(query, query.root, limitBytes);
        return joinHostBytes(query, limitBytes);
    } catch (error) {
        if (error instanceof NotOnDevice) return 0;
        throw error;
    }
}

/** The plan of a join or group-by whose tables do not fit GPU memory, or why it cannot run there. */
export function planOutOfCore(query: PlanQuery, host: Plan, limitBytes: number): Plan | NotOnDevice {
    let stage: OutOfCoreStage | OutOfCoreGroupStage;
    try {
        stage =
            query.root.kind === "group"
                ? groupStageOf(query, query.root, host, limitBytes)
                : joinStageOf(query, host, limitBytes);
    } catch (error) {
        if (error instanceof NotOnDevice) return error;
        throw error;
    }
    return freezePlan<Plan>({
        ...host,
        device: "gpu",
        deviceReason: null,
        deviceMemory: {
            limitBytes,
            estimatedBytes: stage.deviceBytes,
            uploadedBytes: stage.predicted.h2dBytes,
            downloadedBytes: stage.predicted.d2hBytes
        },
        sets: [],
        stages: [stage],
        predictedMs: stage.predictedMs
    });
}
