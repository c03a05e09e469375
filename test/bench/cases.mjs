// SPDX-License-Identifier: Apache-2.0

const rowBytes = 16; // int64 key + int64 payload
const keyBytes = 8;

/**
 * What is compared. `columns` are the bytes per input row that an operation needs: the key alone to count, key and
 * payload to materialise. The budget of a quarter is a quarter of that over both inputs.
 */
const operations = [
    { operation: "count", neededBytes: keyBytes, targetRatio: 4, budgeted: true },
    { operation: "table", neededBytes: rowBytes, targetRatio: 3, budgeted: false },
    { operation: "file", neededBytes: rowBytes, targetRatio: 3, budgeted: true }
];

// Below this a quarter of the working set is less than the buffers of either engine.
const budgetRowsMin = 10e6;

export const targets = {
    /** With a budget of a quarter of the working set a run may take this much longer than without. */
    budgetSlowdownMax: 1.2,
    /** Peak RSS may exceed the budget by this much: Node itself and the code. */
    rssAllowanceBytes: 128 * 2 ** 20
};

/**
 * @typedef {object} Case
 * @property {string} name
 * @property {number} rows rows of each relation
 * @property {"dense" | "sparse"} keys
 * @property {"count" | "table" | "file"} operation
 * @property {number | null} budgetBytes null = no limit set
 * @property {number} targetRatio DuckDB time / Spillway time to reach
 */

/** @param {readonly number[]} rowCounts @returns {Case[]} */
export function joinCases(rowCounts) {
    return rowCounts.flatMap((rows) =>
        ["dense", "sparse"].flatMap((keys) =>
            operations.flatMap(({ operation, neededBytes, targetRatio, budgeted }) => {
                const quarter = Math.floor((2 * rows * neededBytes) / 4);
                const withBudget = budgeted && rows >= budgetRowsMin;
                return [null, ...(withBudget ? [quarter] : [])].map((budgetBytes) => ({
                    name: `${operation} ${rows / 1e6}M ${keys}${budgetBytes == null ? "" : " budget/4"}`,
                    rows,
                    keys,
                    operation,
                    budgetBytes,
                    targetRatio
                }));
            })
        )
    );
}
