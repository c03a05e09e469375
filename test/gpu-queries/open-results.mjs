// SPDX-License-Identifier: Apache-2.0
// Readers that pause: a query out of core, or in pieces, keeps its GPU memory while others run beside it.
import { openRuntime } from "../../dist/index.js";
import { check, knobs, options } from "./checks.mjs";
import { randomNumbers, relation } from "./relations.mjs";

/** What is read of a query so far: rows, and the sum of its first column. */
class Reader {
    rows = 0;
    sum = 0n;

    constructor(query) {
        this.query = query;
        this.batches = query.batches({ batchRows: options.small ? 200 : 20_000 })[Symbol.asyncIterator]();
    }

    async next() {
        const { done, value } = await this.batches.next();
        if (done) return false;
        this.rows += value.numRows;
        for (const cell of value.getChildAt(0)) this.sum += BigInt(cell ?? 0);
        return true;
    }

    async toEnd() {
        while (await this.next());
        return `${this.rows} rows, sum ${this.sum}`;
    }
}

function queries() {
    const rows = options.small ? 20_000 : 2_000_000;
    const common = { keys: ["int32"], rows, domain: rows, nullPercent: 1 };
    const [left, right] = ["_l", "_r"].map((suffix, side) =>
        relation(randomNumbers(9000 + side), { ...common, side, suffix })
    );
    const select = ["k0", "p_int32_l", "p_int64_l"];
    const joined = (runtime) =>
        runtime.join({ left: runtime.fromTable(left), right: runtime.fromTable(right), on: "k0", select });
    const grouped = (runtime) =>
        runtime.groupBy(runtime.fromTable(left), { keys: ["k0"], aggregates: { n: { count: "*" } } });
    return { joined, grouped };
}

/** The readers take turns; each has to get what it gets alone on the CPU engine. */
async function inTurn(gpu, cpu, makes) {
    const readers = makes.map((make) => new Reader(make(gpu)));
    for (let step = 0; step < 30; step++) await readers[step % readers.length].next();
    for (const [i, reader] of readers.entries()) {
        const [found, wanted] = [await reader.toEnd(), await new Reader(makes[i](cpu)).toEnd()];
        if (found !== wanted) return `reader ${i}: ${found} instead of ${wanted}`;
    }
    return null;
}

export async function openResults(cpu) {
    const { joined, grouped } = queries();
    const cases = {
        "a join beside another": [joined, joined],
        "a join beside a group-by": [joined, grouped],
        "a group-by beside joins": [grouped, joined, joined]
    };
    const chunkRows = options.small ? 512 : 65_536;
    for (const [how, debug] of [
        ["out of core", { outOfCore: true, chunkRows }],
        ["in pieces or whole", { gpu: true, pieceRows: options.small ? 500 : 100_000 }]
    ]) {
        for (const device of options.small ? ["512MiB"] : ["512MiB", "2GiB"]) {
            const gpu = await openRuntime({ device: "auto", memory: { host: "4GiB", device }, ...knobs(debug) });
            for (const [name, makes] of Object.entries(cases)) {
                await check(`open results ${how} in ${device}: ${name}`, () => inTurn(gpu, cpu, makes));
            }
            await gpu.close();
        }
    }
}
