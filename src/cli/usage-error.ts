// SPDX-License-Identifier: Apache-2.0

/** The command line itself is wrong: nothing was computed or written. Ends with exit code 2. */
export class UsageError extends Error {
    override readonly name = "UsageError";
}
