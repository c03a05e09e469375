// SPDX-License-Identifier: Apache-2.0

/**
 * Does the memory of an ArrayBuffer stay where it is while the engine reads it, also when the buffer is transferred to
 * somebody else? "unlessResized": but for `ArrayBuffer.prototype.transfer` with another length (Node 22).
 */
export type KeptMemory = "always" | "unlessResized" | "never";
