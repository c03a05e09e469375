// SPDX-License-Identifier: Apache-2.0
// Places of a schema in its flatbuffer, and what buffers its columns have. Numbers are those of format/Schema.fbs.

const types = {
    int: 2,
    floatingPoint: 3,
    decimal: 7,
    list: 12,
    struct: 13,
    union: 14,
    fixedSizeBinary: 15,
    fixedSizeList: 16,
    map: 17,
    largeList: 21
};

/** Fields of the type tables by type number: [name, field number, bytes]. */
const typeFields = {
    2: [
        ["bitWidth", 0, 4],
        ["signed", 1, 1]
    ],
    3: [["precision", 0, 2]],
    7: [
        ["precision", 0, 4],
        ["scale", 1, 4],
        ["bitWidth", 2, 4]
    ],
    8: [["unit", 0, 2]],
    9: [
        ["unit", 0, 2],
        ["bitWidth", 1, 4]
    ],
    10: [["unit", 0, 2]],
    11: [["unit", 0, 2]],
    14: [["mode", 0, 2]],
    15: [["byteWidth", 0, 4]],
    16: [["listSize", 0, 4]],
    17: [["keysSorted", 0, 1]],
    18: [["unit", 0, 2]]
};

/** What the buffers of a node hold, by type number; a number is the bytes of one element, data without one is 1. */
const bufferRoles = {
    1: [],
    4: ["validity", "offsets", "data"],
    5: ["validity", "offsets", "data"],
    6: ["validity", "data"],
    12: ["validity", "offsets"],
    13: ["validity"],
    16: ["validity"],
    17: ["validity", "offsets"],
    19: ["validity", "largeOffsets", "data"],
    20: ["validity", "largeOffsets", "data"],
    21: ["validity", "largeOffsets"],
    23: ["validity", "views", "variadic"],
    24: ["validity", "views", "variadic"]
};

function rolesOf(typeNumber, type) {
    if (typeNumber === types.union) return type.int16(0) === 1 ? ["typeIds", "offsets"] : ["typeIds"];
    return bufferRoles[typeNumber] ?? ["validity", "data"];
}

/** Adds a place where the field is present: writers leave out what has its default value. */
function addField(places, name, table, number, bytes) {
    const at = table.slot(number);
    if (at !== 0) places.push({ group: "schema", name, at, bytes });
}

function addVector(places, name, table, number, elementBytes) {
    const { countAt, first, count } = table.vector(number);
    if (countAt === 0) return;
    places.push({ group: "links", name: `${name}.count`, at: countAt, bytes: 4 });
    for (let i = 0; elementBytes > 0 && i < count; ++i) {
        places.push({ group: "schema", name: `${name}[${i}]`, at: first + i * elementBytes, bytes: elementBytes });
    }
}

/**
 * The places of one column and its children. `nodes` collects the field nodes in the order of a record batch,
 * [{ name, roles }]; `dictionaries` the nodes of the values of each dictionary, by id.
 */
function columnPlaces(column, path, places, nodes, dictionaries) {
    const typeNumber = column.uint8(2);
    const type = column.table(3);
    addField(places, `${path}.nullable`, column, 1, 1);
    addField(places, `${path}.type`, column, 2, 1);
    for (const [name, number, bytes] of typeFields[typeNumber] ?? []) {
        addField(places, `${path}.${name}`, type, number, bytes);
    }
    if (typeNumber === types.union) addVector(places, `${path}.typeIds`, type, 1, 4);
    places.push({ group: "links", name: `${path}.vtable`, at: column.position, bytes: 4 });
    places.push({ group: "links", name: `${path}.typeTable`, at: column.slot(3), bytes: 4 });
    addVector(places, `${path}.children`, column, 5, 0);
    const encoding = column.table(4);
    let values = nodes;
    if (encoding === null) nodes.push({ name: path, roles: rolesOf(typeNumber, type) });
    else {
        addField(places, `${path}.dictionary.id`, encoding, 0, 8);
        const indices = encoding.table(1);
        if (indices !== null) {
            addField(places, `${path}.indices.bitWidth`, indices, 0, 4);
            addField(places, `${path}.indices.signed`, indices, 1, 1);
        }
        nodes.push({ name: path, roles: ["validity", `indices${indices?.int32(0) ?? 32}`] });
        values = [{ name: `${path}.values`, roles: rolesOf(typeNumber, type) }];
        dictionaries.set(encoding.int64(0), values);
    }
    column.tables(5).forEach((child, i) => columnPlaces(child, `${path}.${i}`, places, values, dictionaries));
}

/** Places and nodes of a schema table; `prefix` tells the one of the footer from that of the message. */
export function schemaPlaces(schema, prefix) {
    const places = [];
    const nodes = [];
    const dictionaries = new Map();
    addField(places, `${prefix}.endianness`, schema, 0, 2);
    addVector(places, `${prefix}.columns`, schema, 1, 0);
    schema.tables(1).forEach((column, i) => {
        columnPlaces(column, `${prefix}.${"kp"[i] ?? i}`, places, nodes, dictionaries);
    });
    return { places, nodes, dictionaries };
}
