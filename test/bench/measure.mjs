// SPDX-License-Identifier: Apache-2.0
import Benchmark from "benchmark";

/**
 * Times an asynchronous operation with benchmark.js: one call that is not counted, then exactly `samples` calls.
 * `maxTime: 0` stops after `minSamples`; the tiny `minTime` keeps one call per sample however short it is.
 *
 * @param {string} name
 * @param {number} samples
 * @param {() => Promise<void>} operation
 * @param {() => void} after runs after each call, when its clock has stopped and the next one's has not begun
 * @returns {Promise<number[]>} milliseconds of each call
 */
export async function measure(name, samples, operation, after = () => undefined) {
    await operation();
    after();
    return new Promise((resolve, reject) => {
        let failure = null;
        const benchmark = new Benchmark(name, {
            defer: true,
            initCount: 1,
            minSamples: samples,
            minTime: 1e-9,
            maxTime: 0,
            fn(deferred) {
                operation().then(
                    () => {
                        // This stops the clock; benchmark.js starts the next call from a timer.
                        deferred.resolve();
                        after();
                    },
                    (error) => {
                        failure = error;
                        benchmark.abort();
                        deferred.resolve();
                    }
                );
            }
        });
        benchmark.on("complete abort error", () => {
            const error = failure ?? benchmark.error;
            if (error) reject(error);
            else resolve(benchmark.stats.sample.map((seconds) => seconds * 1000));
        });
        benchmark.run({ async: true });
    });
}

/** @param {readonly number[]} values */
export function median(values) {
    const sorted = [...values].sort((left, right) => left - right);
    const middle = sorted.length >> 1;
    return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
