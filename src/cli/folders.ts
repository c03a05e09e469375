// SPDX-License-Identifier: Apache-2.0
import { SpillwayError } from "../index.js";

const reasons: Readonly<Record<string, string>> = {
    EEXIST: "there is a file of that name; name a folder",
    ENOTDIR: "a part of that path is a file; name a folder",
    ENOENT: "there is no such folder and none can be made here; create it or name another",
    EACCES: "this user may not write there; name another folder or change its permissions",
    EPERM: "the system does not allow it; name another folder",
    EROFS: "that file system is read-only; name another folder"
};

/**
 * A system call that failed on a folder for results, in words of the command line: Node's own error is no
 * SpillwayError, and would be reported as a defect.
 */
export function folderError(folder: string, purpose: string, error: unknown): unknown {
    const { code: errno, message } = error as NodeJS.ErrnoException;
    if (typeof errno !== "string") return error;
    const full = errno === "ENOSPC" || errno === "EDQUOT";
    const text = `Cannot use "${folder}" for ${purpose}: ${reasons[errno] ?? message}`;
    return new SpillwayError(full ? "DISK_FULL" : "OUTPUT_FAILED", text, { path: folder, errno }, error);
}
