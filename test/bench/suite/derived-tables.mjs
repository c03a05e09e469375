// SPDX-License-Identifier: Apache-2.0
// Tables that queries of the suite read beside those of TPC-H and the Star Schema Benchmark, as Arrow files. They are
// made of these with Spillway's own semi joins, joins and group-bys, or of numbers; both engines read the same files.
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { Int64, Table, Utf8, makeData, makeVector, tableFromIPC, tableToIPC, vectorFromArray } from "apache-arrow";

import { factsSpec } from "../node-generated-queries.mjs";
import { ssbFilters } from "./ssb-queries.mjs";

const writeTable = (table, path) => writeFileSync(path, tableToIPC(table, "file"));

/** A nation's key and name under other names: a customer's nation and a supplier's are joined in one query. */
async function renamedNation(prefix, { paths }, path) {
    const nation = tableFromIPC(readFileSync(paths.nation));
    const columns = { nationkey: nation.getChild("n_nationkey"), name: nation.getChild("n_name") };
    const renamed = Object.entries(columns).map(([name, column]) => [`${prefix}_${name}`, column]);
    writeTable(new Table(Object.fromEntries(renamed)), path);
}

const textDigits = 9;

/** Texts of 18 bytes, "Customer#000000001", of these numbers from 0 on. */
function namesOf(numbers) {
    const prefix = Buffer.from("Customer#");
    const width = prefix.length + textDigits;
    const data = new Uint8Array(numbers.length * width);
    const valueOffsets = new Int32Array(numbers.length + 1);
    for (const [row, number] of numbers.entries()) {
        data.set(prefix, row * width);
        for (let digit = 1, rest = number; digit <= textDigits; digit++) {
            data[(row + 1) * width - digit] = 48 + (rest % 10);
            rest = Math.floor(rest / 10);
        }
        valueOffsets[row + 1] = (row + 1) * width;
    }
    return { type: new Utf8(), length: numbers.length, data, valueOffsets };
}

/** The same numbers in every run (a linear congruential generator): `next(n)` gives one below n. */
function randomNumbers() {
    let state = 1;
    return (below) => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return Math.floor((state / 2 ** 32) * below);
    };
}

/** A bitmap in which about one row of `every` is NULL, and how many are. */
function someNulls(rows, every, next) {
    const nullBitmap = new Uint8Array(Math.ceil(rows / 8)).fill(0xff);
    let nullCount = 0;
    for (let row = 0; row < rows; row++) {
        if (next(every) > 0) continue;
        nullBitmap[row >> 3] &= ~(1 << (row & 7));
        nullCount++;
    }
    return { nullBitmap, nullCount };
}

const wholeNumbers = (rows, of) => ({
    type: new Int64(),
    length: rows,
    data: BigInt64Array.from({ length: rows }, (_, row) => BigInt(of(row)))
});

/** Each name once, in no order. */
async function writeNames({ scale }, path) {
    const next = randomNumbers();
    const rows = Math.round(500_000 * scale);
    const order = Uint32Array.from({ length: rows }, (_, row) => row);
    for (let row = rows - 1; row > 0; row--) {
        const other = next(row + 1);
        [order[row], order[other]] = [order[other], order[row]];
    }
    const columns = { n_key: namesOf(order), n_value: wholeNumbers(rows, (row) => order[row]) };
    writeTable(tableOf(columns), path);
}

/** Six rows for each of these names on average, some without a name, some without a value. */
async function writeVisits({ scale }, path) {
    const next = randomNumbers();
    const [rows, names] = [3_000_000, 500_000].map((count) => Math.round(count * scale));
    const numbers = Uint32Array.from({ length: rows }, () => next(names));
    const key = { ...namesOf(numbers), ...someNulls(rows, 100, next) };
    const value = { ...wholeNumbers(rows, () => next(1_000_000)), ...someNulls(rows, 20, next) };
    writeTable(tableOf({ v_key: key, v_value: value }), path);
}

const tableOf = (columns) =>
    new Table(Object.fromEntries(Object.entries(columns).map(([name, data]) => [name, makeVector(makeData(data))])));

const rowsToFile = async (query, path) => void (await query.toArrowFile(path));

/** How each table is made: `(data set, path, runtime, relations)`. */
const tpchTables = {
    clerks: async (_, path, { orders }) =>
        rowsToFile(orders.groupBy({ keys: ["o_clerk"], aggregates: { clerk_orders: { count: "*" } } }), path),
    order_names: async (_, path, { customer, orders }) => {
        const select = ["o_orderkey", "o_totalprice", "c_name", "c_address"];
        await rowsToFile(customer.join(orders, { on: { c_custkey: "o_custkey" }, select }), path);
    },
    customer_nation: async (set, path) => renamedNation("cn", set, path),
    supplier_nation: async (set, path) => renamedNation("sn", set, path),
    names: async (set, path) => writeNames(set, path),
    visits: async (set, path) => writeVisits(set, path),
    facts_64: async ({ scale }, path, _, runtime) => {
        const rows = Math.round(4_000_000 * scale);
        await runtime.generate(factsSpec(rows, { domainRows: 64, columns: 10 }), { path });
    }
};

/** Rows whose columns have one of these values, by a semi join for each column. */
async function writeFiltered([from, columns], path, relations, runtime) {
    let rows = relations[from];
    for (const [name, values] of Object.entries(columns)) {
        const { type } = rows.schema.fields.find((field) => field.name === name);
        const allowed = new Table({ [name]: vectorFromArray(valuesOf(type, values), type) });
        rows = rows.join(runtime.fromTable(allowed), { on: name, type: "semi" });
    }
    await rowsToFile(rows, path);
}

const valuesOf = (type, values) => (type.bitWidth === 64 ? values.map(BigInt) : values);

const ssbTables = Object.fromEntries(
    Object.entries(ssbFilters).map(([name, filter]) => [
        name,
        async (_, path, relations, runtime) => writeFiltered(filter, path, relations, runtime)
    ])
);

/** Rows of a side of a small join: a key each, and for group-bys eight groups at least. */
async function writeSmall(seed, { rows }, path) {
    const column = seed === 0 ? "a" : "b";
    const factor = seed === 0 ? 7919 : 104_729; // Coprime to the numbers of rows: each key once, in another order.
    const columns = {
        k: wholeNumbers(rows, (row) => (row * factor) % rows),
        g: wholeNumbers(rows, (row) => row % Math.max(8, rows / 10)),
        [column]: wholeNumbers(rows, (row) => row * 3)
    };
    if (seed !== 0) delete columns.g;
    writeTable(tableOf(columns), path);
}

const smallTables = {
    small_left: async (set, path) => writeSmall(0, set, path),
    small_right: async (set, path) => writeSmall(1, set, path)
};

/** What makes each derived table of a suite, by its name. */
export const derivedTables = { tpch: tpchTables, ssb: ssbTables, small: smallTables };

/** Writes a table to its path; the file appears when it is whole. */
export async function writeDerived(make, set, path, relations, runtime) {
    const unfinished = `${path}.${process.pid}`;
    await make(set, unfinished, relations, runtime);
    renameSync(unfinished, path);
}
