// SPDX-License-Identifier: Apache-2.0
// Every number of a sound file or stream that says where something is or how much of it there is, by name.
import { Table } from "./flatbuffer.mjs";
import { schemaPlaces } from "./schema-places.mjs";

const headerKinds = { schema: 1, dictionary: 2, batch: 3 };
const elementBytes = {
    ...{ validity: 1, offsets: 4, largeOffsets: 8, data: 1, typeIds: 1, variadic: 1 },
    ...{ indices8: 1, indices16: 2, indices32: 4, indices64: 8 }
};

/** Elements of a buffer that are attacked: both ends, what lies beside them, and the middle. */
function chosen(count) {
    const wanted = [0, 1, 2, count >> 1, count - 2, count - 1];
    return [...new Set(wanted)].filter((index) => index >= 0 && index < count);
}

/** Numbers in a buffer of row data. A view is four of them: length, prefix, buffer, offset. */
function bufferPlaces(name, role, at, length) {
    if (length === 0) return [];
    const places = [{ group: "fills", name: `${name}.${role}`, at, bytes: 0, length }];
    if (role === "views") {
        for (const row of chosen(length >> 4)) {
            ["length", "prefix", "buffer", "offset"].forEach((what, i) => {
                places.push({
                    group: "values",
                    name: `${name}.views[${row}].${what}`,
                    at: at + row * 16 + i * 4,
                    bytes: 4
                });
            });
        }
        return places;
    }
    const bytes = elementBytes[role];
    for (const element of chosen(Math.floor(length / bytes))) {
        places.push({ group: "values", name: `${name}.${role}[${element}]`, at: at + element * bytes, bytes });
    }
    return places;
}

/** Names of the buffers of a batch in their order, as its schema and its counts of view buffers ask for them. */
function bufferNames(nodes, variadicCounts) {
    let views = 0;
    return nodes.flatMap(({ name, roles }) =>
        roles.flatMap((role) => {
            if (role !== "variadic") return [{ name, role }];
            return Array.from({ length: variadicCounts[views++] ?? 0 }, (_, i) => ({ name: `${name}.${i}`, role }));
        })
    );
}

function recordBatchPlaces(bytes, batch, name, nodes, body) {
    const places = [];
    const add = (group, what, at, width) => places.push({ group, name: `${name}.${what}`, at, bytes: width });
    if (batch.slot(0) !== 0) add("counts", "rows", batch.slot(0), 8);
    const fieldNodes = batch.vector(1);
    add("links", "nodes.count", fieldNodes.countAt, 4);
    for (let i = 0; i < fieldNodes.count; ++i) {
        add("counts", `nodes[${i}].length`, fieldNodes.first + i * 16, 8);
        add("counts", `nodes[${i}].nulls`, fieldNodes.first + i * 16 + 8, 8);
    }
    const buffers = batch.vector(2);
    add("links", "buffers.count", buffers.countAt, 4);
    const variadic = batch.vector(4);
    const counts = Array.from({ length: variadic.count }, (_, i) => {
        add("counts", `variadic[${i}]`, variadic.first + i * 8, 8);
        return Number(bytes.readBigInt64LE(variadic.first + i * 8));
    });
    const names = bufferNames(nodes, counts);
    for (let i = 0; i < buffers.count; ++i) {
        const at = buffers.first + i * 16;
        add("regions", `buffers[${i}].offset`, at, 8);
        add("regions", `buffers[${i}].length`, at + 8, 8);
        const { name: column, role } = names[i];
        const start = body + Number(bytes.readBigInt64LE(at));
        places.push(...bufferPlaces(`${name}.${column}`, role, start, Number(bytes.readBigInt64LE(at + 8))));
    }
    return places;
}

/** Walks the messages from `start` on; `state` carries the schema and how many of each kind there were. */
function messagePlaces(bytes, at, state) {
    const length = bytes.readInt32LE(at + 4);
    const message = Table.root(bytes, at + 8);
    const kind = message.uint8(1);
    const header = message.table(2);
    const name =
        kind === headerKinds.schema ? "schema" : `${kind === headerKinds.batch ? "batch" : "words"}${state[kind]++}`;
    const body = at + 8 + length;
    const places = [
        { group: "messages", name: `${name}.continuation`, at, bytes: 4 },
        { group: "messages", name: `${name}.head`, at: at + 4, bytes: 4 },
        { group: "messages", name: `${name}.version`, at: message.slot(0), bytes: 2 },
        { group: "messages", name: `${name}.kind`, at: message.slot(1), bytes: 1 },
        { group: "messages", name: `${name}.body`, at: message.slot(3), bytes: 8 },
        { group: "links", name: `${name}.root`, at: at + 8, bytes: 4 },
        { group: "links", name: `${name}.header`, at: message.slot(2), bytes: 4 }
    ].filter((place) => place.at !== 0);
    if (kind === headerKinds.schema) {
        Object.assign(state, schemaPlaces(header, "schema"));
        places.push(...state.places);
    } else if (kind === headerKinds.batch) {
        places.push(...recordBatchPlaces(bytes, header, name, state.nodes.map(ofColumn), body));
    } else {
        const id = header.int64(0);
        if (header.slot(0) !== 0) places.push({ group: "counts", name: `${name}.id`, at: header.slot(0), bytes: 8 });
        if (header.slot(2) !== 0)
            places.push({ group: "messages", name: `${name}.delta`, at: header.slot(2), bytes: 1 });
        places.push(...recordBatchPlaces(bytes, header.table(1), name, state.dictionaries.get(id).map(ofColumn), body));
    }
    return { places, next: body + message.int64(3) };
}

const ofColumn = ({ name, roles }) => ({ name: name.replace("schema.", ""), roles });

function footerPlaces(bytes) {
    const end = bytes.length - 10;
    const root = end - bytes.readInt32LE(end);
    const footer = Table.root(bytes, root);
    const places = [
        { group: "messages", name: "footer.length", at: end, bytes: 4 },
        { group: "messages", name: "footer.version", at: footer.slot(0), bytes: 2 },
        { group: "links", name: "footer.root", at: root, bytes: 4 }
    ].filter((place) => place.at !== 0);
    const lists = { words: 2, batch: 3 };
    for (const [name, number] of Object.entries(lists)) {
        const { countAt, first, count } = footer.vector(number);
        if (countAt !== 0) places.push({ group: "links", name: `footer.${name}.count`, at: countAt, bytes: 4 });
        for (let i = 0; i < count; ++i) {
            const block = `footer.${name}[${i}]`;
            places.push({ group: "blocks", name: `${block}.offset`, at: first + i * 24, bytes: 8 });
            places.push({ group: "blocks", name: `${block}.head`, at: first + i * 24 + 8, bytes: 4 });
            places.push({ group: "blocks", name: `${block}.body`, at: first + i * 24 + 16, bytes: 8 });
        }
    }
    return [...places, ...schemaPlaces(footer.table(1), "footer").places];
}

/** All places of a file or stream that Arrow JS wrote: { group, name, at, bytes, length? }. */
export function placesOf(bytes) {
    const isFile = bytes.toString("latin1", 0, 6) === "ARROW1";
    const state = { [headerKinds.dictionary]: 0, [headerKinds.batch]: 0 };
    const places = [];
    for (let at = isFile ? 8 : 0; bytes.readInt32LE(at + 4) !== 0;) {
        const found = messagePlaces(bytes, at, state);
        places.push(...found.places);
        at = found.next;
    }
    if (isFile) places.push(...footerPlaces(bytes));
    return places;
}
