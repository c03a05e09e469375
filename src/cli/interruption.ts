// SPDX-License-Identifier: Apache-2.0
import type { ExitCode } from "./exit-code.js";

/** Why a run was stopped from outside: the reason of the abort signal. */
export class Interruption extends Error {
    override readonly name = "Interruption";
    constructor(
        message: string,
        readonly exitCode: ExitCode
    ) {
        super(message);
    }
}
