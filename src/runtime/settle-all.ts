// SPDX-License-Identifier: Apache-2.0

/**
 * Results of work that runs side by side. Waits for all of it even when some fails, so that nothing goes on unobserved,
 * and then throws the first error in the order of the list.
 */
export async function settleAll<T>(work: Iterable<Promise<T>>): Promise<T[]> {
    const outcomes = await Promise.allSettled(work);
    return outcomes.map((outcome) => {
        if (outcome.status === "rejected") throw outcome.reason;
        return outcome.value;
    });
}
