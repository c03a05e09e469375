// SPDX-License-Identifier: Apache-2.0
// Trees of joins and group-bys of three or four relations, drawn from a seed, as queries and as SQL: all types of
// joins, NULLs, skewed keys, keys of several columns, rows from narrow to wide. Needs nothing but Node and Arrow.
import {
    Bool,
    DateDay,
    Decimal,
    Dictionary,
    Float64,
    Int16,
    Int32,
    Int64,
    Table,
    Utf8,
    vectorFromArray
} from "apache-arrow";

const joinTypes = ["inner", "left", "right", "full", "semi", "anti"];

const dictionary = new Dictionary(new Utf8(), new Int32());
/** A decimal of 128 bits as Arrow JS takes it: four words, the lowest first. */
const decimal = (number) => Uint32Array.from([0n, 32n, 64n, 96n], (bit) => Number((number >> bit) & 0xffff_ffffn));

/** Columns of each relation, by the end of their names: type, value of a number, and from how many numbers. */
const kinds = {
    i32: [new Int32(), (i) => i - 9, Infinity],
    i64: [new Int64(), (i) => (BigInt(i) << 33n) - 5n, Infinity],
    v16: [new Int16(), (i) => i, 100],
    v64: [new Int64(), (i) => (BigInt(i) << 33n) - 5n, 1000],
    float: [new Float64(), (i) => [NaN, -0, 0][i % 50] ?? i / 4, 100],
    flag: [new Bool(), (i) => i % 2 === 1, 2],
    day: [new DateDay(), (i) => i * 86_400_000, 50],
    word: [dictionary, (i) => `text ${i}`, 20],
    text: [new Utf8(), (i) => (i % 50 === 0 ? "" : `text ${i}${"x".repeat(i % 30)}`), Infinity],
    price: [new Decimal(2, 15, 128), (i) => decimal(BigInt(i - 40) * 1_000_000_007n), 90]
};

/** Kinds of two columns that can be compared. */
const keyPairs = [
    ["i32", "i32"],
    ["i32", "i32"],
    ["i64", "i64"],
    ["i64", "v64"],
    ["day", "day"],
    ["i32", "v16"],
    ["float", "float"],
    ["text", "text"],
    ["word", "word"],
    ["price", "price"]
];
/** Kinds of keys of groups, of values that are told apart, and of those that have an order. */
const groupKeys = ["v16", "flag", "day", "word", "text", "i32", "i64", "v64", "float", "price"];
const distinctKinds = ["v16", "flag", "day", "word", "text", "i32", "i64", "price"];
const orderedKinds = ["v16", "i32", "day", "price", "text"];

/** Numbers below `domain`: all alike, more small ones than large ones, or one more often than all others. */
const draws = [
    (random, domain) => random(domain),
    (random, domain) => Math.floor(domain * (random(1000) / 1000) ** 3),
    (random, domain) => (random(3) === 0 ? 7 % domain : random(domain))
];

/** Columns named after the relation, as a_i32. All of its columns are drawn the same way. */
function relation(random, name, rows, { domain, nullPercent, draw }) {
    const columns = Object.entries(kinds).map(([kind, [type, value, most]]) => {
        const nulls = kind === "float" ? 0 : nullPercent;
        const cells = Array.from({ length: rows }, () =>
            random(100) < nulls ? null : value(draw(random, Math.min(domain, most)))
        );
        return [`${name}_${kind}`, vectorFromArray(cells, type)];
    });
    return new Table(Object.fromEntries(columns));
}

const quoted = (name) => `"${name}"`;
const leaf = (name) => ({
    text: name,
    columns: Object.keys(kinds).map((kind) => ({ name: `${name}_${kind}`, kind })),
    sql: `(SELECT * EXCLUDE (row) FROM ${quoted(name)})`,
    make: (relations) => relations[name]
});

const pick = (random, from) => from[random(from.length)];
const named = ({ columns }, kind) => columns.filter((column) => column.kind === kind).map(({ name }) => name);

/** Columns that a join compares: of the tree so far, and of the other one. */
function drawnKeys(random, tree, other) {
    const count = random(4) === 0 ? 2 : 1;
    const keys = new Map();
    for (let tried = 0; tried < 20 && keys.size < count; ++tried) {
        const [ours, theirs] = pick(random, keyPairs);
        const [left, right] = [named(tree, ours), named(other, theirs)];
        if (left.length > 0 && right.length > 0) keys.set(pick(random, left), pick(random, right));
    }
    return [...keys].filter(([, theirs], at, all) => all.findIndex(([, name]) => name === theirs) === at);
}

function drawnJoin(random, tree, other) {
    const keys = drawnKeys(random, tree, other);
    if (keys.length === 0) return tree;
    const type = random(3) === 0 ? pick(random, joinTypes) : "inner";
    const nullEquality = random(8) === 0;
    const swapped = random(3) === 0;
    const [left, right] = swapped ? [other, tree] : [tree, other];
    const on = Object.fromEntries(keys.map(([ours, theirs]) => (swapped ? [theirs, ours] : [ours, theirs])));
    const equals = nullEquality ? "IS NOT DISTINCT FROM" : "=";
    const equations = Object.entries(on).map(([own, its]) => `l.${quoted(own)} ${equals} r.${quoted(its)}`);
    const rows = `${left.sql} AS l ${type.toUpperCase()} JOIN ${right.sql} AS r`;
    const once = type === "semi" || type === "anti";
    const say = `${type}${nullEquality ? " null" : ""} ${keys.map((pair) => pair.join("=")).join(",")}`;
    return {
        text: `(${left.text} ${say} ${right.text})`,
        columns: once ? left.columns : [...left.columns, ...right.columns],
        sql: `(SELECT * FROM ${rows} ON ${equations.join(" AND ")})`,
        make: (relations, more = {}) =>
            left.make(relations).join(right.make(relations), { on, type, nullEquality, ...more })
    };
}

/** id: ends the names of its aggregates. */
function drawnGroup(random, tree, id) {
    const keys = new Map();
    for (let tried = random(4); tried > 0; --tried) {
        const { name, kind } = pick(random, tree.columns);
        if (groupKeys.includes(kind)) keys.set(name, kind);
    }
    const among = (wanted) => tree.columns.filter(({ kind }) => wanted.includes(kind));
    const [sums, ordered] = [among(["v16", "v64", "price"]), among(orderedKinds)];
    const aggregates = { [`n_${id}`]: { count: "*" } };
    const sql = [`count(*) AS n_${id}`];
    const columns = [...keys].map(([name, kind]) => ({ name, kind }));
    columns.push({ name: `n_${id}`, kind: "i64" });
    const add = (name, operation, { name: of }, kind) => {
        aggregates[name] = { [operation]: of };
        const call = operation === "countDistinct" ? "count(DISTINCT " : `${operation}(`;
        sql.push(`${call}${quoted(of)}) AS ${name}`);
        columns.push({ name, kind });
    };
    for (const [at, one] of [pick(random, sums), pick(random, sums)].entries()) {
        if (one !== undefined && (at === 0 || random(2) === 0)) add(`s${at}_${id}`, "sum", one, "sum");
    }
    const least = pick(random, ordered);
    const extreme = pick(random, ["min", "max"]);
    if (least !== undefined) add(`m_${id}`, extreme, least, least.kind === "price" ? "sum" : least.kind);
    const apart = pick(random, among(distinctKinds));
    if (apart !== undefined && random(4) === 0) add(`d_${id}`, "countDistinct", apart, "i64");
    const names = [...keys.keys()].map(quoted);
    const by = names.length === 0 ? "" : ` GROUP BY ${names.join(", ")}`;
    return {
        text: `[${tree.text} by ${[...keys.keys()].join(",")}]`,
        columns,
        sql: `(SELECT ${[...names, ...sql].join(", ")} FROM ${tree.sql}${by})`,
        make: (relations) => tree.make(relations).groupBy({ keys: [...keys.keys()], aggregates })
    };
}

/** Columns of the result: a few of each relation, or nearly all, so that rows do not travel as they are. */
function drawnColumns(random, { columns }) {
    const share = pick(random, [3, 3, 9]);
    const names = columns.filter(() => random(10) < share).map(({ name }) => name);
    return names.length > 0 ? names : [columns[0].name];
}

/**
 * Relations of `rows` rows and of fewer, and a tree of them: its text, tables by name, the names of its result's
 * columns, SQL over tables of these names that have a column `row` beside, and the query over relations of these names.
 * random: gives whole numbers below an end.
 */
export function drawnTree(random, rows) {
    const names = ["a", "b", "c", "d"].slice(0, 3 + random(2));
    // One of them is skewed: two would have the square of a hot key's rows in common.
    const skewed = random(names.length + 1);
    const tables = {};
    let tree;
    for (const [at, name] of names.entries()) {
        const count = random(20) === 0 ? 0 : Math.ceil(rows / pick(random, [1, 4]));
        const shape = {
            domain: rows,
            nullPercent: random(2) * 5,
            draw: at === skewed ? pick(random, draws) : draws[0]
        };
        tables[name] = relation(random, name, count, shape);
        const next = random(12) === 0 ? drawnGroup(random, leaf(name), name) : leaf(name);
        tree = tree === undefined ? next : drawnJoin(random, tree, next);
        if (at > 0 && at < names.length - 1 && random(8) === 0) tree = drawnGroup(random, tree, `${at}`);
    }
    if (random(2) === 0 || !tree.text.startsWith("(")) tree = drawnGroup(random, tree, "g");
    const isJoin = tree.text.startsWith("(");
    const wanted = isJoin ? drawnColumns(random, tree) : tree.columns.map(({ name }) => name);
    const make = (relations) => tree.make(relations, isJoin ? { select: wanted } : {});
    const sql = `SELECT ${wanted.map(quoted).join(", ")} FROM ${tree.sql}`;
    return { text: `${tree.text} ${wanted.length} columns`, tables, names: wanted, sql, make };
}

/** Ways to run such trees beyond GPU memory: what stays resident, where the rest goes. */
export const drawnTiers = [
    { residentShare: 1, radixBits: 0 },
    { residentShare: 0.4, radixBits: 4 },
    { residentShare: 0, radixBits: 3 },
    { residentShare: 0.2, radixBits: 6, hostSpillBytes: 4096 }
];

/** What trees are refused for beyond GPU memory. */
export const refusedTrees = /of a join do not pass more than one operator out of core/;
