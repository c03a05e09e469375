// SPDX-License-Identifier: Apache-2.0
export { openRuntime } from "./runtime/open-runtime.js";
export { Runtime, type MemoryState } from "./runtime/runtime.js";
export { Query, Relation, Source, type Input, type JoinOptions } from "./runtime/query.js";
export { errorCodes, SpillwayError, type ErrorCode, type ErrorDetails } from "./errors.js";
export type {
    BatchesOptions,
    FileOptions,
    ExplainOptions,
    FromArrowFileOptions,
    FromBatchesOptions,
    GroupByHints,
    GroupByOptions,
    JoinHints,
    MemoryOptions,
    NameOption,
    RunOptions,
    RuntimeOptions
} from "./runtime/options.js";
export { benchmarkTables, type SsbTable, type TpchTable } from "./runtime/benchmark-tables.js";
export type {
    GenerateColumn,
    GenerateKey,
    GenerateOptions,
    GenerateRelationOptions,
    GenerateSsbOptions,
    GenerateTpchOptions
} from "./runtime/generate-options.js";
export type {
    AggregateName,
    AggregateOf,
    GroupColumns,
    JoinColumns,
    JoinOn,
    JoinType,
    Name,
    ResultType,
    Selected
} from "./model/schema-types.js";
export type { ByteSize } from "./model/sizes.js";
export { releaseBatch } from "./execute/read-batches.js";
export { plainRows, plainValue } from "./values/plain.js";
export type { PlainJson, PlainRow, PlainValue } from "./values/plain-types.js";
export { groupByAlgorithms, joinAlgorithms, outOfCoreJoinAlgorithms } from "./model/algorithms.js";
export type { AlgorithmChoice, GroupByAlgorithm, JoinAlgorithm } from "./model/algorithms.js";
export type { AlgorithmName, DebugKnobs, HashingScheme } from "./model/debug-knobs.js";
export type {
    CoPartitionJoin,
    ExperimentOptions,
    FarPartitioner,
    Interleave,
    PagePlaces,
    StreamProbe
} from "./model/experiment.js";
export type { Progress } from "./model/progress.js";
export type { DeviceInfo } from "./machine/devices.js";
export type { MachineInfo, NumaNode } from "./machine/machine.js";
export type { Explanation } from "./plan/plan-text.js";
export type { Plan, PlanInput, PlanMemory, PlanStage } from "./plan/plan.js";
export type { DevicePhases, DeviceStageReport, RunReport, StageReport } from "./execute/run-report.js";
