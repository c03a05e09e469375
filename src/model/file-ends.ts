// SPDX-License-Identifier: Apache-2.0

/** The size of a regular file in bytes, and its first and last bytes: as many as asked for, or all there are. */
export interface FileEnds {
    fileBytes: number;
    head: Uint8Array;
    tail: Uint8Array;
}
