// SPDX-License-Identifier: Apache-2.0

/** Seeded generator (splitmix64): the same seed gives the same data on every machine and Node version. */
export class Random {
    #state: bigint;

    constructor(seed: number | bigint | string) {
        this.#state = BigInt.asUintN(64, typeof seed === "string" ? hashText(seed) : BigInt(seed));
    }

    bits64(): bigint {
        this.#state = BigInt.asUintN(64, this.#state + 0x9e3779b97f4a7c15n);
        let z = this.#state;
        z = BigInt.asUintN(64, (z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
        z = BigInt.asUintN(64, (z ^ (z >> 27n)) * 0x94d049bb133111ebn);
        return z ^ (z >> 31n);
    }

    /** Uniform in [0, 1). */
    unit(): number {
        return Number(this.bits64() >> 11n) / 2 ** 53;
    }

    /** Uniform whole number in [0, end). */
    below(end: number): number {
        return Math.floor(this.unit() * end);
    }

    /** Uniform whole number in [first, last]. */
    between(first: number, last: number): number {
        return first + this.below(last - first + 1);
    }

    chance(probability: number): boolean {
        return this.unit() < probability;
    }

    pick<T>(items: readonly T[]): T {
        if (items.length === 0) throw new Error("nothing to pick from");
        return items[this.below(items.length)]!;
    }

    /** In a new order (Fisher and Yates). */
    shuffle<T>(items: readonly T[]): T[] {
        const result = [...items];
        for (let i = result.length - 1; i > 0; --i) {
            const j = this.below(i + 1);
            [result[i], result[j]] = [result[j]!, result[i]!];
        }
        return result;
    }

    bytes(length: number): Uint8Array {
        return Uint8Array.from({ length }, () => this.below(256));
    }

    /** Ranks in [0, count) by a Zipf law: rank r with weight 1 / (r + 1)^exponent. */
    zipf(count: number, exponent: number): () => number {
        const cumulative = new Float64Array(count);
        let total = 0;
        for (let rank = 0; rank < count; ++rank) cumulative[rank] = total += 1 / (rank + 1) ** exponent;
        return () => {
            const target = this.unit() * total;
            let [low, high] = [0, count - 1];
            while (low < high) {
                const middle = (low + high) >> 1;
                if (cumulative[middle]! > target) high = middle;
                else low = middle + 1;
            }
            return low;
        };
    }
}

function hashText(text: string): bigint {
    let hash = 0xcbf29ce484222325n;
    for (const byte of Buffer.from(text)) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
    return hash;
}

/** One seed is run alone: a test cannot count on what all of its seeds draw. */
export const runsOneSeed = process.env["SPILLWAY_SEED"] !== undefined;

/** Each test runs the seeds it names, no more and no fewer. */
export const runsUsualSeeds = !runsOneSeed && process.env["SPILLWAY_SEEDS"] === undefined;

/**
 * Runs `body` once per seed; a failure names the seed. SPILLWAY_SEED=<number> runs that seed alone,
 * SPILLWAY_SEEDS=<number> runs so many from `first` on instead of `count` (for a long search at night).
 */
export async function forSeeds(first: number, count: number, body: (random: Random, seed: number) => Promise<void>) {
    const only = process.env["SPILLWAY_SEED"];
    const many = Number(process.env["SPILLWAY_SEEDS"] ?? count);
    const seeds = only === undefined ? Array.from({ length: many }, (_, i) => first + i) : [Number(only)];
    for (const seed of seeds) {
        try {
            await body(new Random(seed), seed);
        } catch (error) {
            const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
            throw new Error(`seed ${seed} failed; repeat it with SPILLWAY_SEED=${seed}\n${text}`, { cause: error });
        }
    }
}
