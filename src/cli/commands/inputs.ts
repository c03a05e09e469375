// SPDX-License-Identifier: Apache-2.0
import { parseFiles } from "../parse/files.js";
import { UsageError } from "../usage-error.js";

export interface JoinInputs {
    left: string[];
    right: string[];
}

/** LEFT RIGHT by position, or --left and --right, each repeatable; a mixture would leave it open which is which. */
export async function joinInputs(
    positional: readonly string[] | undefined,
    left: readonly string[] | undefined,
    right: readonly string[] | undefined,
    signal: AbortSignal
): Promise<JoinInputs> {
    const files = async (side: "left" | "right", texts: readonly string[]): Promise<string[]> =>
        await parseFiles(`${side} relation`, texts, signal);
    const relations = positional ?? [];
    if (left == null && right == null) {
        const [first, second] = relations;
        if (first == null || second == null || relations.length > 2) {
            throw new UsageError(
                `A join takes two relations, LEFT and RIGHT, but ${relations.length} were given. ` +
                    "Several files of one relation: join them by commas, quote the pattern ('part-*.arrow') " +
                    "or repeat --left and --right."
            );
        }
        return { left: await files("left", [first]), right: await files("right", [second]) };
    }
    if (relations.length > 0) {
        throw new UsageError(
            `Give the relations by position or with --left and --right, not both ("${relations[0]}").`
        );
    }
    if (left == null || right == null) {
        throw new UsageError(`--${left == null ? "right" : "left"} needs --${left == null ? "left" : "right"} too.`);
    }
    return { left: await files("left", left), right: await files("right", right) };
}

export async function groupByInput(positional: readonly string[] | undefined, signal: AbortSignal): Promise<string[]> {
    if (positional == null || positional.length === 0) {
        throw new UsageError("No input: name its Arrow file, several files, or a 'pattern*.arrow'.");
    }
    return await parseFiles("input", positional, signal);
}
