// SPDX-License-Identifier: Apache-2.0

/** A time during which sets of pages are alive beside a stage's own memory. */
export interface Phase {
    /** Memory of the stage: buffers, tables, output. */
    readonly workingBytes: number;
    readonly live: readonly number[];
}

export interface PoolRequest {
    readonly min: number;
    readonly wanted: number;
}

/** Smallest memory with which every phase can run. */
export function leastMemory(phases: readonly Phase[], pools: readonly PoolRequest[]): number {
    return Math.max(
        0,
        ...phases.map((phase) => phase.live.reduce((sum, set) => sum + (pools[set]?.min ?? 0), phase.workingBytes))
    );
}

/** Memory with which every set keeps all of its rows. */
export function mostMemory(phases: readonly Phase[], pools: readonly PoolRequest[]): number {
    return Math.max(
        0,
        ...phases.map((phase) => phase.live.reduce((sum, set) => sum + (pools[set]?.wanted ?? 0), phase.workingBytes))
    );
}

/**
 * Pages for each set, so that no phase exceeds `bytes`. What is left beside the minima goes out in proportion to the
 * wishes: both sides of a join then keep the same share of their partitions in memory, and the pool spills the same
 * (highest-numbered) partitions on both sides, so that a partition that stays on one side stays on the other.
 * `fixed`: sets whose pages are counted already (finished passes); they keep exactly that.
 */
export function assignPools(
    bytes: number,
    phases: readonly Phase[],
    pools: readonly PoolRequest[],
    fixed: ReadonlyMap<number, number> = new Map()
): number[] {
    const growth = pools.map((pool) => Math.max(1, pool.wanted - pool.min));
    const factor = pools.map(() => Infinity);
    for (const phase of phases) {
        let free = bytes - phase.workingBytes;
        let growing = 0;
        for (const set of phase.live) {
            const known = fixed.get(set);
            free -= known ?? pools[set]?.min ?? 0;
            if (known === undefined) growing += growth[set] ?? 0;
        }
        const share = growing === 0 ? Infinity : Math.max(0, free) / growing;
        for (const set of phase.live) factor[set] = Math.min(factor[set] ?? Infinity, share);
    }
    return pools.map((pool, set) => {
        const known = fixed.get(set);
        if (known !== undefined) return known;
        const extra = Math.min(factor[set] ?? 0, Number.MAX_SAFE_INTEGER / (growth[set] ?? 1)) * (growth[set] ?? 0);
        return Math.min(Math.floor(pool.min + extra), bytes);
    });
}
