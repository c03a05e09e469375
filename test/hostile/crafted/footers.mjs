// SPDX-License-Identifier: Apache-2.0
// Footers that name blocks twice, in another order, over one another, or in places that hold something else.
import { Int8, Null, Struct } from "apache-arrow";
import { batchesOf, field, layouts } from "../layouts.mjs";
import { batchPart, fileOf, partsOf } from "../parts.mjs";
import { keyedSchema, keyOf } from "./keyed.mjs";

const repeated = (list, times) => Array.from({ length: times }, () => list).flat();

/** What becomes of the blocks; each gets { dictionaries, batches, schema } and returns new lists. */
const changes = {
    "no batch": ({ dictionaries }) => ({ dictionaries, batches: [] }),
    "no dictionary": ({ batches }) => ({ dictionaries: [], batches }),
    "in reverse": ({ dictionaries, batches }) => ({
        dictionaries: dictionaries.toReversed(),
        batches: batches.toReversed()
    }),
    "each twice": ({ dictionaries, batches }) => ({
        dictionaries: repeated(dictionaries, 2),
        batches: repeated(batches, 2)
    }),
    "batches twice": ({ dictionaries, batches }) => ({ dictionaries, batches: repeated(batches, 2) }),
    "batches 300 times": ({ dictionaries, batches }) => ({ dictionaries, batches: repeated(batches, 300) }),
    "dictionaries 300 times": ({ dictionaries, batches }) => ({ dictionaries: repeated(dictionaries, 300), batches }),
    "batches as dictionaries": ({ batches }) => ({ dictionaries: batches, batches }),
    "dictionaries as batches": ({ dictionaries }) => ({ dictionaries, batches: dictionaries }),
    "lists exchanged": ({ dictionaries, batches }) => ({ dictionaries: batches, batches: dictionaries }),
    "the schema as a batch": ({ dictionaries, batches, schema }) => ({
        dictionaries,
        batches: [...schema, ...batches]
    }),
    "bodies over the next batch": ({ dictionaries, batches }) => ({
        dictionaries,
        batches: batches.map((block) => ({ ...block, bodyBytes: block.bodyBytes + 64 }))
    }),
    "bodies cut": ({ dictionaries, batches }) => ({
        dictionaries,
        batches: batches.map((block) => ({ ...block, bodyBytes: Math.max(0, block.bodyBytes - 8) }))
    }),
    "bodies without bytes": ({ dictionaries, batches }) => ({
        dictionaries,
        batches: batches.map((block) => ({ ...block, bodyBytes: 0 }))
    }),
    "heads over their bodies": ({ dictionaries, batches }) => ({
        dictionaries,
        batches: batches.map((block) => ({ ...block, metadataBytes: block.metadataBytes + 32 }))
    }),
    "a batch inside of another": ({ dictionaries, batches: [first, second] }) => ({
        dictionaries,
        batches: [
            { ...first, bodyBytes: second.offset + second.metadataBytes + second.bodyBytes - first.offset },
            second
        ]
    }),
    "a batch in the footer": ({ dictionaries, batches: [first, second] }) => ({
        dictionaries,
        batches: [first, { ...second, offset: second.offset + second.metadataBytes + second.bodyBytes }]
    })
};

function changedFooters() {
    const cases = {};
    for (const layout of ["utf8", "dictionary8", "structOfDictionaries", "listOfView", "sparseOfNested"]) {
        for (const [name, change] of Object.entries(changes)) {
            cases[`${layout}: ${name}`] = () => {
                const { schema, batches } = batchesOf(layout);
                return fileOf(schema, partsOf(schema, batches), change);
            };
        }
    }
    return cases;
}

/** One small batch of a column with many parts, named again and again: bytes of a batch times blocks. */
function amplified() {
    const cases = {};
    const struct = (children) =>
        new Struct(Array.from({ length: children }, (_, i) => field(`a${i}`, i === 0 ? new Int8() : new Null())));
    for (const [children, times] of [
        [1, 20_000],
        [500, 500],
        [3000, 3000]
    ]) {
        cases[`a batch of ${children} parts ${times} times`] = () => {
            const key = keyOf(1);
            const nodes = [[1], ...Array.from({ length: children }, () => [1, 0])];
            const buffers = [...key.buffers, new Uint8Array(), new Uint8Array(), Int8Array.of(1)];
            const batch = batchPart({ rows: 1, nodes: [...key.nodes, ...nodes], buffers });
            const schema = keyedSchema(struct(children));
            const [head] = partsOf(schema, []);
            return fileOf(schema, [head, batch], ({ batches }) => ({
                dictionaries: [],
                batches: repeated(batches, times)
            }));
        };
    }
    cases["a message hidden in a body"] = () => {
        const { schema, batches } = batchesOf("utf8");
        const [head, first] = partsOf(schema, batches);
        // The body of the outer batch is a whole message: both are named.
        const outer = { ...first, body: Buffer.concat([first.body, first.head, first.body]) };
        return fileOf(schema, [head, outer], ({ batches: [block] }) => ({
            dictionaries: [],
            batches: [
                block,
                {
                    offset: block.offset + first.head.length + first.body.length,
                    metadataBytes: first.head.length,
                    bodyBytes: first.body.length
                }
            ]
        }));
    };
    return cases;
}

/** Every layout with its batches named three times. */
function everyLayout() {
    const cases = {};
    for (const layout of Object.keys(layouts)) {
        cases[`${layout}: batches three times`] = () => {
            const { schema, batches } = batchesOf(layout);
            return fileOf(schema, partsOf(schema, batches), ({ dictionaries, batches: found }) => ({
                dictionaries,
                batches: repeated(found, 3)
            }));
        };
    }
    return cases;
}

export const footers = { ...changedFooters(), ...amplified(), ...everyLayout() };
