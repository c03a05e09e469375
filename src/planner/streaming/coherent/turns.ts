// SPDX-License-Identifier: Apache-2.0
import type { OutOfCoreTurns } from "../../../plan/out-of-core-stage.js";

/** Pages of a turn at most. */
const turnMost = 64;
/** Shares that are compared, from none of what fits GPU memory to all of it. */
const steps = 32;
/** Fewer pages than fit are taken where that saves this share of the time: predictions are no better. */
const gainLeast = 0.01;

/** Shares as turns of few pages: the nearest ones that put no larger share into GPU memory. */
export function turnsOf(share: number): Pick<OutOfCoreTurns, "device" | "far"> {
    if (share >= 1) return { device: 1, far: 0 };
    if (share <= 0) return { device: 0, far: 1 };
    let best = { device: 1, far: Math.ceil(1 / share) - 1 };
    let error = Math.abs(share - 1 / (best.device + best.far));
    for (let all = 2; all <= turnMost; ++all) {
        const device = Math.floor(share * all);
        const off = share - device / all;
        if (device === 0 || off >= error) continue;
        best = { device, far: all - device };
        error = off;
    }
    return best;
}

/**
 * Share of the pages that is best in GPU memory, of which `most` fit. Far pages cost the link twice, near ones GPU
 * memory, and both are used at the same time (section 5.3 of the Triton join's paper): where the link is nearly as fast
 * as GPU memory, fewer near pages than fit take less time. `msOf`: the time with such a share.
 */
export function bestNearShare(most: number, msOf: (share: number) => number): number {
    let [best, bestMs] = [most, msOf(most) * (1 - gainLeast)];
    for (let step = steps - 1; step >= 0; --step) {
        const share = (most * step) / steps;
        const ms = msOf(share);
        if (ms < bestMs) [best, bestMs] = [share, ms];
    }
    return best;
}
