// SPDX-License-Identifier: Apache-2.0
import { open } from "node:fs/promises";
import { RecordBatchReader, type Data, type DataType, type RecordBatch } from "apache-arrow";

export interface DemoFiles {
    orders: string;
    lineitem: string;
    result: string;
}

/**
 * Checks the demo's result without the engine: Arrow JS reads the files, an array indexed by the key stands for the
 * hash table. By the generator's definition every line item has exactly one order, so the result must have
 *  - as many rows as lineitem,
 *  - the same checksum over (key, price) pairs as lineitem: no line lost, doubled or changed,
 *  - in every row the date that orders gives for that key.
 */
export interface DemoCheck {
    expectedRows: number;
    rows: number;
    expectedChecksum: number;
    checksum: number;
    wrongDates: number;
    passed: boolean;
}

/**
 * Record batches of a file read by Arrow JS alone, one at a time: what any other Arrow program would see. Throws the
 * signal's reason instead of the next batch.
 */
export async function* arrowBatches(path: string, signal: AbortSignal): AsyncGenerator<RecordBatch> {
    const file = await open(path);
    try {
        const reader = await RecordBatchReader.from(file);
        for await (const batch of reader) {
            signal.throwIfAborted();
            yield batch;
        }
        signal.throwIfAborted(); // a signal that came during the last batch
    } finally {
        await file.close();
    }
}

function dataOf(batch: RecordBatch, name: string): Data<DataType> {
    return batch.getChild(name)!.data[0] as Data<DataType>;
}

/** Low 32-bit words of 64- or 128-bit integers: keys and prices of the demo's sizes fit them, and bigints are slow. */
function lowWords(batch: RecordBatch, name: string, wordsPerValue: 2 | 4): Uint32Array {
    const values = dataOf(batch, name).values as BigInt64Array | Uint32Array;
    const words = new Uint32Array(values.buffer, values.byteOffset, values.byteLength / 4);
    const low = new Uint32Array(batch.numRows);
    for (let row = 0; row < low.length; row++) low[row] = words[row * wordsPerValue]!;
    return low;
}

// Keys stay below 2^26 and prices (cents) below 2^24 up to scale 10, so a product and the running sum are exact
// doubles as long as the sum is folded back below 2^52.
const checksumModulus = 2 ** 52 - 47;

function addChecksum(checksum: number, keys: Uint32Array, prices: Uint32Array): number {
    let sum = checksum;
    for (let row = 0; row < keys.length; row++) sum = (sum + keys[row]! * prices[row]!) % checksumModulus;
    return sum;
}

async function datesByKey(path: string, signal: AbortSignal): Promise<Int32Array> {
    const batches: { keys: Uint32Array; dates: Int32Array }[] = [];
    let largestKey = 0;
    for await (const batch of arrowBatches(path, signal)) {
        const keys = lowWords(batch, "o_orderkey", 2);
        const dates = dataOf(batch, "o_orderdate").values as Int32Array;
        batches.push({ keys, dates: dates.slice(0, batch.numRows) });
        for (const key of keys) if (key > largestKey) largestKey = key;
    }
    const dateOf = new Int32Array(largestKey + 1);
    for (const { keys, dates } of batches) keys.forEach((key, row) => (dateOf[key] = dates[row]!));
    return dateOf;
}

/** Reads all three files; an abort ends it between two batches. */
export async function checkDemoResult(paths: DemoFiles, signal: AbortSignal): Promise<DemoCheck> {
    const check: DemoCheck = {
        expectedRows: 0,
        rows: 0,
        expectedChecksum: 0,
        checksum: 0,
        wrongDates: 0,
        passed: false
    };
    for await (const batch of arrowBatches(paths.lineitem, signal)) {
        check.expectedRows += batch.numRows;
        const [keys, prices] = [lowWords(batch, "l_orderkey", 2), lowWords(batch, "l_extendedprice", 4)];
        check.expectedChecksum = addChecksum(check.expectedChecksum, keys, prices);
    }
    const dateOf = await datesByKey(paths.orders, signal);
    for await (const batch of arrowBatches(paths.result, signal)) {
        check.rows += batch.numRows;
        const [keys, prices] = [lowWords(batch, "o_orderkey", 2), lowWords(batch, "l_extendedprice", 4)];
        check.checksum = addChecksum(check.checksum, keys, prices);
        const dates = dataOf(batch, "o_orderdate").values as Int32Array;
        for (let row = 0; row < keys.length; row++) if (dateOf[keys[row]!] !== dates[row]) check.wrongDates++;
    }
    const sameLines = check.rows === check.expectedRows && check.checksum === check.expectedChecksum;
    return { ...check, passed: sameLines && check.wrongDates === 0 };
}
