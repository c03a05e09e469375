// SPDX-License-Identifier: Apache-2.0
import type { RunRequest } from "./query-run.js";
import {
    checkBoolean,
    checkFunction,
    checkInteger,
    checkOneOf,
    checkOptions,
    checkSignal
} from "../model/arguments.js";
import type { Progress } from "../model/progress.js";
import type { SinkKind } from "../plan/plan.js";

const sinkKinds = ["batches", "count", "table", "file"] as const satisfies readonly SinkKind[];

export function checkExplainOptions(options: unknown): SinkKind {
    const { result } = checkOptions(options, "", ["result"]);
    return result === undefined ? "batches" : checkOneOf(result, "result", sinkKinds);
}

const runNames = ["signal", "onProgress"];

function runRequest(given: Record<string, unknown>): RunRequest {
    const request: RunRequest = {};
    if (given["signal"] !== undefined) request.signal = checkSignal(given["signal"], "signal");
    if (given["onProgress"] !== undefined) {
        request.onProgress = checkFunction(given["onProgress"], "onProgress") as (progress: Progress) => void;
    }
    if (given["batchRows"] !== undefined) {
        request.batchRows = checkInteger(given["batchRows"], "batchRows", 1, 2 ** 31 - 1);
    }
    if (given["overwrite"] !== undefined) request.overwrite = checkBoolean(given["overwrite"], "overwrite");
    return request;
}

export function checkRunOptions(options: unknown): RunRequest {
    return runRequest(checkOptions(options, "", runNames));
}

export function checkBatchesOptions(options: unknown): RunRequest {
    return runRequest(checkOptions(options, "", [...runNames, "batchRows"]));
}

export function checkFileOptions(options: unknown): RunRequest {
    return runRequest(checkOptions(options, "", [...runNames, "batchRows", "overwrite"]));
}
