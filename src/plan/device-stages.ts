// SPDX-License-Identifier: Apache-2.0
import type { AlgorithmChoice, DeviceGroupAlgorithm, DeviceJoinAlgorithm } from "../model/algorithms.js";
import type { ColumnType, KeySpec } from "../model/column-type.js";
import type { DeviceChoice } from "./device-choice.js";
import type { AggregateKind } from "./logical.js";
import type { OutOfCoreGroupStage } from "./out-of-core-group-stage.js";
import type { OutOfCoreStage } from "./out-of-core-stage.js";
import type { OutOfCoreTreeStage } from "./out-of-core-tree-stage.js";
import type { StageCommon } from "./stage.js";

/** How a key column of a device table is normalized; mirrors KeyPart in cuda/api/table_spec.hpp. */
export interface DeviceKey {
    readonly column: number;
    readonly kind: "signed" | "unsigned" | "float" | "fixed" | "bytes";
    readonly width: number;
}

export interface DeviceJoinColumn {
    readonly side: "build" | "probe" | "either";
    readonly buildColumn: number;
    readonly probeColumn: number;
}

/** Decoded as cuda::OwnedTableJoin (cuda/api/table_spec.hpp). */
export interface DeviceJoinDescription {
    readonly algorithm: DeviceJoinAlgorithm;
    readonly emit: "pairs" | "buildOnce" | "probeOnce";
    readonly anti: boolean;
    readonly keepUnmatchedBuild: boolean;
    readonly keepUnmatchedProbe: boolean;
    readonly nullsEqual: boolean;
    readonly expectedRows: number;
    /**
     * "npj-perfect": smallest key, as 64 bits in hexadecimal, and how many values from there on have a slot; 0: not
     * known, found on the GPU.
     */
    readonly firstKey: string;
    readonly keyRange: number;
    readonly buildKeys: readonly DeviceKey[];
    readonly probeKeys: readonly DeviceKey[];
    readonly columns: readonly DeviceJoinColumn[];
}

export interface DeviceAggregate {
    readonly kind: AggregateKind;
    readonly column: number;
    readonly valueKind: "signed" | "unsigned" | "float" | "decimal" | "bytes";
    readonly resultWidth: number;
    readonly decimalScale: number;
}

/** Decoded as cuda::OwnedTableGroupBy. */
export interface DeviceGroupDescription {
    readonly algorithm: DeviceGroupAlgorithm;
    /** By the user: then "hgb" stays a group-by by hashing, and does not give way to "pgb-tr". */
    readonly named: boolean;
    readonly expectedGroups: number;
    readonly keys: readonly DeviceKey[];
    readonly aggregates: readonly DeviceAggregate[];
}

interface DeviceStageCommon extends StageCommon {
    /** Tables that no later stage needs: freed when the stage has ended. */
    readonly frees: readonly number[];
}

/** An input becomes a table in GPU memory. */
export interface UploadStage extends DeviceStageCommon {
    readonly kind: "upload";
    readonly input: number;
    readonly table: number;
    readonly columns: readonly UploadedColumn[];
    readonly bytes: number;
    /** What is expected to cross the link: fewer bytes where values are packed. */
    readonly sentBytes: number;
}

export interface UploadedColumn {
    readonly column: number;
    /** A dictionary column's values instead of its indices. */
    readonly decode: boolean;
    /** Values cross the link in as many bits as they need. */
    readonly packed: boolean;
}

/** A join whose rows need not be in GPU memory all at once, since nothing but their delivery follows. */
export interface DevicePieces {
    readonly rowsMax: number;
    /** The whole result is not tried, as it is not expected to fit; else pieces are what happens when it does not. */
    readonly planned: boolean;
}

/** Key columns of an input, by its place among those of the query. */
export interface InputKeys {
    readonly input: number;
    readonly keys: readonly KeySpec[];
}

export interface DeviceJoinStage extends DeviceStageCommon {
    readonly kind: "deviceJoin";
    readonly build: number;
    /** Where the values of the build keys come from, through joins and group-bys, of which there may be a sample. */
    readonly sampled: InputKeys | null;
    readonly probe: number;
    /** The result; null where its rows are only counted. */
    readonly table: number | null;
    /** Where the result is delivered as it is. */
    readonly pieces: DevicePieces | null;
    readonly chosenBy: AlgorithmChoice;
    readonly spec: DeviceJoinDescription;
    readonly choice: DeviceChoice<DeviceJoinAlgorithm>;
}

export interface DeviceGroupStage extends DeviceStageCommon {
    readonly kind: "deviceGroup";
    readonly from: number;
    readonly table: number;
    readonly chosenBy: AlgorithmChoice;
    readonly spec: DeviceGroupDescription;
    readonly choice: DeviceChoice<DeviceGroupAlgorithm>;
}

/** The rows of a table go to the query's sink. */
export interface DeliverStage extends DeviceStageCommon {
    readonly kind: "deliver";
    readonly from: number;
    readonly columns: readonly { readonly column: number; readonly type: ColumnType }[];
    readonly bytes: number;
    /** Values cross the link in as many bits as they need. */
    readonly packed: boolean;
}

/** Stages whose tables stay in GPU memory from one to the next. */
export type TableStage = UploadStage | DeviceJoinStage | DeviceGroupStage | DeliverStage;
export type DeviceStage = TableStage | OutOfCoreStage | OutOfCoreGroupStage | OutOfCoreTreeStage;

/** Is a stage of this kind one whose relations need not fit GPU memory? */
export function isOutOfCore(kind: string): boolean {
    return kind === "deviceOutOfCoreJoin" || kind === "deviceOutOfCoreGroupBy" || kind === "deviceOutOfCoreTree";
}
