// SPDX-License-Identifier: Apache-2.0
// The stream format, where only lengths tell where the next message begins.
import { batchesOf } from "../layouts.mjs";
import { endOfStream, partsOf, streamOf } from "../parts.mjs";

function partsFrom(layout) {
    const { schema, batches } = batchesOf(layout);
    return partsOf(schema, batches);
}

/** A message whose head says `length` and, where given, starts with another word than the continuation mark. */
function withHead(part, length, mark = -1) {
    const head = Buffer.from(part.head);
    head.writeInt32LE(mark, 0);
    head.writeInt32LE(length, 4);
    return { ...part, head };
}

/** Lengths without the mark, as Arrow wrote them before 2019. */
const old = (part) => ({ ...part, head: part.head.subarray(4) });

const orders = {
    "no schema": ([, ...rest]) => rest,
    "the schema last": ([schema, ...rest]) => [...rest, schema],
    "the schema twice": ([schema, ...rest]) => [schema, schema, ...rest],
    "the schema again at the end": ([schema, ...rest]) => [schema, ...rest, schema],
    "only a schema": ([schema]) => [schema],
    "in reverse": (parts) => parts.toReversed(),
    "without marks": (parts) => parts.map(old),
    "without a mark behind the schema": ([schema, ...rest]) => [schema, ...rest.map(old)],
    "each message twice": ([schema, ...rest]) => [schema, ...rest.flatMap((part) => [part, part])],
    "3,000 batches": ([schema, ...rest]) => [schema, ...rest, ...Array.from({ length: 3000 }, () => rest.at(-1))],
    "3,000 bodies without bytes": ([schema, ...rest]) => [
        schema,
        ...Array.from({ length: 3000 }, () => ({ ...rest.at(-1), body: Buffer.alloc(0) }))
    ],
    "a body cut": ([schema, first, ...rest]) => [schema, { ...first, body: first.body.subarray(8) }, ...rest],
    "a body with more": ([schema, first, ...rest]) => [
        schema,
        { ...first, body: Buffer.concat([first.body, Buffer.alloc(8, 255)]) },
        ...rest
    ],
    "a head of length 0": ([schema, first, ...rest]) => [schema, withHead(first, 0), ...rest],
    "a head of length -1": ([schema, first, ...rest]) => [schema, withHead(first, -1), ...rest],
    "a head of length 8": ([schema, first, ...rest]) => [schema, withHead(first, 8), ...rest],
    "a head of length 2^31 - 1": ([schema, first, ...rest]) => [schema, withHead(first, 2 ** 31 - 1), ...rest],
    "a head over the body": ([schema, first, ...rest]) => [schema, withHead(first, first.head.length + 16), ...rest],
    "another mark": ([schema, first, ...rest]) => [schema, withHead(first, first.head.length - 8, -2), ...rest]
};

const ends = {
    "no end": Buffer.alloc(0),
    "half an end": endOfStream.subarray(0, 4),
    "bytes behind the end": Buffer.concat([endOfStream, Buffer.alloc(1000, 255)]),
    "an end of zeros": Buffer.alloc(8),
    "two ends": Buffer.concat([endOfStream, endOfStream]),
    "a file behind the end": Buffer.concat([endOfStream, Buffer.from("ARROW1\0\0")]),
    "odd bytes for an end": Buffer.alloc(7, 255)
};

function ordered() {
    const cases = {};
    for (const layout of ["utf8", "dictionary8", "listOfView", "nestedDictionary"]) {
        for (const [name, change] of Object.entries(orders)) {
            cases[`${layout}: ${name}`] = () => streamOf(change(partsFrom(layout)));
        }
    }
    for (const [name, end] of Object.entries(ends)) cases[name] = () => streamOf(partsFrom("utf8"), end);
    cases["two streams, one behind the other"] = () => {
        const stream = streamOf(partsFrom("utf8"));
        return Buffer.concat([stream, stream]);
    };
    cases["a schema of another stream"] = () => streamOf([partsFrom("largeUtf8")[0], ...partsFrom("utf8").slice(1)]);
    return cases;
}

/** Every pair of layouts: the schema of one, the batches of the other. */
function exchanged() {
    const cases = {};
    const names = [
        "int8",
        "utf8",
        "largeUtf8",
        "utf8View",
        "list",
        "fixedListOfUtf8",
        "struct",
        "dense",
        "dictionary32"
    ];
    for (const schema of names) {
        for (const rows of names.filter((name) => name !== schema)) {
            cases[`schema of ${schema}, rows of ${rows}`] = () =>
                streamOf([partsFrom(schema)[0], ...partsFrom(rows).slice(1)]);
        }
    }
    return cases;
}

/** Cut at every message and beside it. */
function cut() {
    const cases = {};
    for (const distance of [-9, -8, -4, -1, 0, 1, 4, 7, 8, 12]) {
        for (const message of [0, 1, 2, 3]) {
            cases[`cut ${distance} bytes from message ${message}`] = () => {
                const parts = partsFrom("dictionary8");
                const before = parts
                    .slice(0, message)
                    .reduce((sum, { head, body }) => sum + head.length + body.length, 0);
                return streamOf(parts).subarray(0, Math.max(0, before + distance));
            };
        }
    }
    return cases;
}

export const streams = { ...ordered(), ...exchanged(), ...cut() };
