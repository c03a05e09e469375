// SPDX-License-Identifier: Apache-2.0

/**
 * The size of a regular file in bytes, which one it is, and its first and last bytes: as many as asked for, or all that
 * there are.
 */
export interface FileEnds {
    fileBytes: number;
    /**
     * Equal as long as nobody wrote to the file or put another one in its place: device, inode, size and times. Null
     * when it changed so lately that the next change may leave no other times.
     */
    identity: string | null;
    /** Device, inode, size and time of the last write, as they were when the file was opened to read its ends. */
    stamp: string;
    head: Uint8Array;
    tail: Uint8Array;
}
