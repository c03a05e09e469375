// SPDX-License-Identifier: Apache-2.0

/** Seeded numbers (splitmix64), the same on every machine. */
export class Random {
    #state;

    constructor(seed) {
        this.#state = BigInt.asUintN(64, BigInt(seed));
    }

    bits64() {
        this.#state = BigInt.asUintN(64, this.#state + 0x9e3779b97f4a7c15n);
        let word = this.#state;
        word = BigInt.asUintN(64, (word ^ (word >> 30n)) * 0xbf58476d1ce4e5b9n);
        word = BigInt.asUintN(64, (word ^ (word >> 27n)) * 0x94d049bb133111ebn);
        return word ^ (word >> 31n);
    }

    below(end) {
        return Number(this.bits64() % BigInt(end));
    }

    pick(items) {
        return items[this.below(items.length)];
    }

    /** Any signed number of so many bits; small ones are as likely as large ones. */
    signed(bits) {
        return BigInt.asIntN(bits, this.bits64() >> BigInt(this.below(64)));
    }
}
