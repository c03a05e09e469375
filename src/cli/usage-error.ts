// SPDX-License-Identifier: Apache-2.0

/** The command line itself is wrong: nothing was computed or written. Ends with exit code 2. */
export class UsageError extends Error {
    override readonly name = "UsageError";
    readonly lines: readonly string[];

    /** Each is printed as one line, whatever words of the command line are in it. */
    constructor(...lines: string[]) {
        super(lines.join("\n"));
        this.lines = lines;
    }
}
