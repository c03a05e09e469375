// SPDX-License-Identifier: Apache-2.0

/** What the process exits with; documented in docs/cli.md. Signals use 128 + their number, as shells do. */
export const exitCode = {
    ok: 0,
    operatingError: 1,
    usageError: 2,
    hungUp: 129,
    interrupted: 130,
    terminated: 143
} as const;

export type ExitCode = (typeof exitCode)[keyof typeof exitCode];
