// SPDX-License-Identifier: Apache-2.0

declare const brand: unique symbol;
type Handle<Name extends string> = { readonly [brand]: Name };

/** Host memory arbiter + spill folder + thread count of one runtime, and its GPU. */
export type EngineHandle = Handle<"Engine">;
/** A relation the engine can read any number of times. */
export type SourceHandle = Handle<"Source">;
/** Rows partitioned into pages: filled by `partitionSource` / `partitionBatch` or as the sink of another stage. */
export type PartitionsHandle = Handle<"Partitions">;
/** Where a stage's rows go. */
export type SinkHandle = Handle<"Sink">;
/** Cancellation and progress of one job (several stages may share it). */
export type JobHandle = Handle<"Job">;
/** A table in GPU memory. */
export type DeviceTableHandle = Handle<"DeviceTable">;
/** A join of such tables whose result comes in pieces. */
export type DevicePiecesHandle = Handle<"DevicePieces">;
