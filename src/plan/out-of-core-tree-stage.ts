// SPDX-License-Identifier: Apache-2.0
import type { ColumnType, KeySpec } from "../model/column-type.js";
import type {
    OutOfCoreChunkColumn,
    OutOfCoreGroupColumn,
    OutOfCoreGroupLayout,
    OutOfCoreGroupShape,
    OutOfCoreGroupSizes
} from "./out-of-core-group-stage.js";
import type { OutOfCoreGathered, OutOfCoreJoin, OutOfCorePart, OutOfCoreShape } from "./out-of-core-stage.js";
import type { HeldRows, StageCommon } from "./stage.js";

/** Where a value is in the result rows of an operator. */
export type OutOfCorePipePart = Omit<OutOfCorePart, "from">;

/**
 * How result rows of an operator become chunks of the next one, in GPU memory; mirrors PipeSpec in
 * cuda/api/pipe_spec.hpp.
 */
export interface OutOfCorePipe {
    /** Output of the operator with the presence byte; -1: none. */
    readonly presence: number;
    /** Byte of the key with a flag for each key that is NULL; -1: none. */
    readonly nullByte: number;
    readonly keys: readonly {
        readonly key: KeySpec;
        readonly type: ColumnType;
        readonly parts: readonly OutOfCorePipePart[];
    }[];
    readonly columns: readonly (Omit<OutOfCoreChunkColumn, "column" | "distinct"> & {
        readonly type: ColumnType;
        readonly parts: readonly OutOfCorePipePart[];
    })[];
}

/** An operator, and which of its inputs the rows are: of a join 0 is the build side and 1 the probe side. */
export interface OutOfCoreStep {
    readonly operator: number;
    readonly input: number;
    /** null: the rows come from a source. */
    readonly pipe: OutOfCorePipe | null;
}

/** The rows of a source on their way through operators, until the last of them keeps them or gives the result. */
export interface OutOfCoreFlow {
    /** Number of the query's input. */
    readonly input: number;
    readonly side: OutOfCoreGroupLayout["side"];
    readonly steps: readonly OutOfCoreStep[];
}

/** coherent: null where copy engines bring chunks into GPU memory and packed rows out. */
export type OutOfCoreTreeJoin = OutOfCoreShape & Pick<OutOfCoreJoin, "sizes" | "coherent">;

export type OutOfCoreOperator =
    | { readonly kind: "join"; readonly join: OutOfCoreTreeJoin }
    | { readonly kind: "group"; readonly group: OutOfCoreGroupShape & { readonly sizes: OutOfCoreGroupSizes } };

/** As OutOfCorePart, but that a column of a source is that of a flow: -1 where the value comes from the GPU. */
export interface OutOfCoreTreePart extends Omit<OutOfCorePart, "from"> {
    readonly from: "gpu" | "flow";
    readonly flow: number;
}

export interface OutOfCoreTreeColumn {
    readonly type: ColumnType;
    /** The first one that is there counts. */
    readonly parts: readonly OutOfCoreTreePart[];
}

/** A column that no operator hands on, of the source of a flow, and why. */
export interface OutOfCoreTreeGathered extends Omit<OutOfCoreGathered, "side"> {
    readonly flow: number;
}

/** How the columns of the result are made of the last operator's. */
export type OutOfCoreResult =
    | {
          readonly kind: "join";
          readonly columns: readonly OutOfCoreTreeColumn[];
          readonly presence: number;
          /** Outputs with the row numbers of each flow's source, the largest number for no row; -1: none. */
          readonly rowNumbers: readonly number[];
      }
    | { readonly kind: "group"; readonly columns: readonly OutOfCoreGroupColumn[]; readonly nullByte: number };

/** What one operator is expected to do. */
export interface OutOfCoreOperatorPrediction {
    readonly name: string;
    /** Of a join: the build side, and the other one; of a group-by its only input. */
    readonly rowsIn: readonly number[];
    readonly rowsOut: number;
    /** Packed. */
    readonly spilledBytes: number;
    /** Share of the build rows, or of the groups, that GPU memory holds. */
    readonly residentShare: number;
    readonly deviceBytes: number;
}

/** What each direction of the link will carry, and how long each flow takes with what it makes come back. */
export interface OutOfCoreTreePrediction {
    readonly h2dBytes: number;
    readonly d2hBytes: number;
    /** Packed; part of both directions. */
    readonly spilledBytes: number;
    /** The part of these bytes in the memory of another GPU. */
    readonly peerBytes: number;
    /** The part of them that host memory has no room for. */
    readonly diskBytes: number;
    readonly flowsMs: readonly number[];
    /** Values that workers gather from host memory: part of the last flow. */
    readonly gatherMs: number;
    readonly operators: readonly OutOfCoreOperatorPrediction[];
}

/** Joins of joins and group-bys of joins beyond GPU memory, from their sources to the sink. */
export interface OutOfCoreTreeStage extends StageCommon {
    readonly kind: "deviceOutOfCoreTree";
    /** Nothing: its tables are its own. */
    readonly frees: readonly number[];
    /** Left out: its rows are the result. */
    readonly holds?: HeldRows;
    readonly operators: readonly OutOfCoreOperator[];
    /** Inputs whose values cross the link in as many bits as they need, and whether rows of a join do as the result. */
    readonly packed: readonly number[];
    readonly packsResults: boolean;
    readonly flows: readonly OutOfCoreFlow[];
    readonly result: OutOfCoreResult;
    /** Columns that no operator hands on: they are gathered by row number when the result is delivered. */
    readonly gathered: readonly OutOfCoreTreeGathered[];
    readonly deviceBytes: number;
    /** Host memory for columns that are gathered. */
    readonly heldBytes: number;
    readonly predicted: OutOfCoreTreePrediction;
}
