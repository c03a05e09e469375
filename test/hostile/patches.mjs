// SPDX-License-Identifier: Apache-2.0
// Sound files with one to four numbers overwritten. The label of a case is its recipe:
// "file/utf8 ~spill batch0.nodes[1].length=-1" names format, layout, mode of the queries, and each number.
import { batchesOf, layouts, rowsOfBatch } from "./layouts.mjs";
import { fileOf, partsOf, streamOf } from "./parts.mjs";
import { placesOf } from "./places.mjs";

const bases = new Map();

/** The sound bytes of "file/<layout>" or "stream/<layout>", and their places by group and by name. */
export function baseOf(name) {
    const known = bases.get(name);
    if (known !== undefined) return known;
    const [format, layout] = name.split("/");
    const { schema, batches } = batchesOf(layout);
    const parts = partsOf(schema, batches);
    const bytes = format === "file" ? fileOf(schema, parts) : streamOf(parts);
    const places = [...placesOf(bytes), { group: "end", name: "end", at: bytes.length, bytes: 0 }];
    const base = {
        bytes,
        byName: new Map(places.map((place) => [place.name, place])),
        groups: groupsOf(places)
    };
    bases.set(name, base);
    return base;
}

function groupsOf(places) {
    const groups = {};
    for (const place of places) (groups[place.group] ??= []).push(place);
    return Object.values(groups);
}

export const baseNames = Object.keys(layouts).flatMap((layout) => [`file/${layout}`, `stream/${layout}`]);

const readers = {
    1: (bytes, at) => BigInt(bytes.readInt8(at)),
    2: (bytes, at) => BigInt(bytes.readInt16LE(at)),
    4: (bytes, at) => BigInt(bytes.readInt32LE(at)),
    8: (bytes, at) => bytes.readBigInt64LE(at)
};

/** Numbers at which sums, products and comparisons of a width go wrong, apart from those around the true one. */
const edges = {
    1: [...Array(28).keys(), 64, 127, 128, 255],
    2: [-1, 0, 1, 2, 3, 4, 5, 7, 255, 256, 32767, 32768],
    4: [
        -1,
        0,
        1,
        2,
        12,
        13,
        rowsOfBatch + 1,
        127,
        128,
        65535,
        65536,
        2 ** 20,
        2 ** 30,
        2 ** 31 - 8,
        2 ** 31 - 1,
        2 ** 31
    ],
    8: [-1, 0, 1, 7, rowsOfBatch + 1, 2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 40, 2 ** 52, 2 ** 53]
};
const words = [2n ** 53n - 1n, 2n ** 60n, 2n ** 61n, 2n ** 62n, 2n ** 63n - 1n, 2n ** 63n, -8n];
const distances = [-8n, -4n, -1n, 1n, 4n, 8n, 16n];
const fills = ["*0", "*1", "*127", "*128", "*255"];
const cuts = ["-1", "-4", "-8", "-9", "-16", "-64", "-200"];

/** What is written to a place, as text. */
export function valuesOf(base, place) {
    if (place.group === "fills") return fills;
    if (place.group === "end") return cuts;
    const { bytes } = place;
    const own = readers[bytes](base.bytes, place.at);
    const candidates = [
        ...edges[bytes].map(BigInt),
        ...(bytes === 8 ? words : []),
        ...distances.map((distance) => own + distance),
        own * 2n
    ].map((value) => BigInt.asIntN(bytes * 8, value));
    return [...new Set(candidates)].filter((value) => value !== own).map(String);
}

function write(bytes, place, value) {
    if (place.group === "end") return bytes.subarray(0, Math.max(0, bytes.length + Number(value)));
    if (value.startsWith("*")) return bytes.fill(Number(value.slice(1)), place.at, place.at + place.length);
    const number = BigInt.asUintN(place.bytes * 8, BigInt(value));
    if (place.bytes === 8) bytes.writeBigUInt64LE(number, place.at);
    else bytes.writeUIntLE(Number(number), place.at, place.bytes);
    return bytes;
}

/** The bytes of a base with every patch written: ["batch0.rows=-1", ...]. */
export function patched(name, patches) {
    const base = baseOf(name);
    let bytes = Buffer.from(base.bytes);
    const isCut = (patch) => patch.startsWith("end=");
    // What is cut off is cut last: places of other patches may lie there.
    for (const patch of patches.toSorted((a, b) => isCut(a) - isCut(b))) {
        const [, placeName, value] = /^(.*)=([^=]*)$/.exec(patch) ?? [];
        const place = base.byName.get(placeName);
        if (place === undefined) throw new Error(`'${name}' has no place '${placeName}'`);
        bytes = write(bytes, place, value);
    }
    return bytes;
}

/** Every base as it is, then with every single number overwritten by every value. */
export function* everyPatch() {
    for (const name of baseNames) {
        const base = baseOf(name);
        for (const place of base.byName.values()) {
            for (const value of valuesOf(base, place)) yield { name, patches: [`${place.name}=${value}`] };
        }
    }
}

/** One to four numbers of a random base; each group of places is as likely as the next, however many it has. */
export function randomPatch(random) {
    const name = random.pick(baseNames);
    const base = baseOf(name);
    const count = random.pick([1, 1, 1, 1, 1, 2, 2, 2, 3, 4]);
    const patches = Array.from({ length: count }, () => {
        const place = random.pick(random.pick(base.groups));
        const values = valuesOf(base, place);
        // Now and then any number at all.
        if (place.bytes > 0 && random.below(8) === 0) return `${place.name}=${random.signed(place.bytes * 8)}`;
        return `${place.name}=${random.pick(values)}`;
    });
    return { name, patches };
}
