// SPDX-License-Identifier: Apache-2.0
import { joinAlgorithms, outOfCoreJoinAlgorithms, type JoinAlgorithm } from "spillway";

const others: ReadonlySet<JoinAlgorithm> = new Set([...outOfCoreJoinAlgorithms, "cpu-radix"]);

/** What the option `algorithm` takes of joins whose tables are in GPU memory, and "auto". */
export const tableJoins = joinAlgorithms.filter((name) => !others.has(name));
