// SPDX-License-Identifier: Apache-2.0
// A process that is kept still has the mutant of the run before switched on while it loads the tests of the next one.
const stryker = (globalThis as { __stryker__?: { activeMutant?: string | undefined } }).__stryker__;
if (stryker !== undefined) stryker.activeMutant = undefined;
