// SPDX-License-Identifier: Apache-2.0
// Damages an Arrow file again and again and reads it each time: a result or a SpillwayError is right, all else is not.
// Argument: { file, work, kind: "truncate" | "flip" | "bits", count, seed, key, runtime }.
// Says "trying {...}" before each attempt, so that the parent can name the one that killed the process.
import { readFileSync, writeFileSync } from "node:fs";
import { Message } from "apache-arrow";
import { openRuntime, SpillwayError } from "spillway";

const { file, work, kind, count, seed, key, runtime: options } = JSON.parse(process.argv[2]);
const original = readFileSync(file);
const runtime = await openRuntime(options);

// A small generator of its own (xorshift32): the children know nothing of the tests' helpers.
let state = seed | 1;
function below(end) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % end;
}

/** First and last byte (exclusive) of what is not row data: message heads, and the footer of the file format. */
function metadataRanges() {
    const isFile = original.toString("latin1", 0, 6) === "ARROW1";
    const ranges = [];
    let at = isFile ? 8 : 0;
    for (let length = 1; length !== 0 && at + 8 <= original.length;) {
        length = original.readInt32LE(at + 4);
        const head = original.subarray(at + 8, at + 8 + length);
        ranges.push([at, at + 8 + length]);
        at += 8 + length + (length === 0 ? 0 : Message.decode(Uint8Array.from(head)).bodyLength);
    }
    return isFile ? [...ranges, [at, original.length]] : ranges;
}

function flipBits(copy) {
    const ranges = metadataRanges();
    return Array.from({ length: 1 + below(4) }, () => {
        const [first, end] = ranges[below(ranges.length)];
        const [at, bit] = [first + below(end - first), below(8)];
        copy[at] ^= 1 << bit;
        return [at, bit];
    });
}

function damage(attempt) {
    if (kind === "truncate") {
        const bytes = Math.floor((attempt * original.length) / count);
        return { bytes: original.subarray(0, bytes), what: { bytes } };
    }
    const copy = Buffer.from(original);
    if (kind === "bits") return { bytes: copy, what: { bits: flipBits(copy) } };
    // Metadata is small and matters most: half of the flips go to the last and first 2 KiB.
    const spots = Array.from({ length: 1 + below(4) }, () => {
        const edge = Math.min(2048, copy.length);
        const at = [below(copy.length), below(copy.length), below(edge), copy.length - 1 - below(edge)][below(4)];
        const to = [0, 255, copy[at] ^ (1 << below(8)), below(256)][below(4)];
        copy[at] = to;
        return [at, to];
    });
    return { bytes: copy, what: { spots } };
}

const outcomes = {};
const wrong = [];
for (let attempt = 0; attempt < count; ++attempt) {
    const { bytes, what } = damage(attempt);
    process.stdout.write(`trying ${JSON.stringify({ attempt, ...what })}\n`);
    writeFileSync(work, bytes);
    let outcome = "read";
    try {
        const relation = await runtime.fromArrowFile(work);
        let rows = 0;
        for await (const batch of relation.join(relation, { on: key, type: "left" }).batches()) {
            rows += batch.numRows;
            if (rows > 1e6) break;
        }
        await relation.groupBy({ keys: [key], aggregates: { rows: { count: "*" } } }).count();
        await relation.join(relation, { on: key, type: "semi" }).toTable();
    } catch (error) {
        outcome = error instanceof SpillwayError ? error.code : "other";
        // Nothing here is an argument of the caller's but the path and the name of the key.
        if (["other", "INTERNAL", "INVALID_ARGUMENT"].includes(outcome))
            wrong.push({ attempt, ...what, error: String(error.stack) });
    }
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
}
const { usedBytes } = runtime.memory().host;
await runtime.close();
process.stdout.write(
    `result ${JSON.stringify({ outcomes, wrong: wrong.slice(0, 3), wrongCount: wrong.length, usedBytes })}\n`
);
