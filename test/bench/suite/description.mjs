// SPDX-License-Identifier: Apache-2.0
// Queries of the suite as descriptions, from which both the query of Spillway's API and the SQL for DuckDB are made.

/** @typedef {{ kind: "table", name: string }} Table the table of a data set by its name */
/** @typedef {Table | Join | GroupBy | Limit} Source what a query is made of */
/** @typedef {{ kind: "join", left: Source, right: Source, options: object }} Join with the options of `Runtime.join` */
/** @typedef {{ kind: "groupBy", input: Source, keys: string[], aggregates: object }} GroupBy */
/** @typedef {{ kind: "limit", input: Source, rows: number }} Limit */

/** @returns {Table} */
export const table = (name) => ({ kind: "table", name });

/** @returns {Join} */
export const join = (left, right, on, options = {}) => ({ kind: "join", left, right, options: { on, ...options } });

/** @returns {GroupBy} */
export const groupBy = (input, keys, aggregates) => ({ kind: "groupBy", input, keys, aggregates });

/** @returns {Limit} */
export const limit = (input, rows) => ({ kind: "limit", input, rows });

/** Names of the tables that a query reads. */
export function tablesOf(source) {
    if (source.kind === "table") return [source.name];
    const inputs = source.kind === "join" ? [source.left, source.right] : [source.input];
    return [...new Set(inputs.flatMap(tablesOf))];
}

/** The query of Spillway's API; `relations` by the names of tables. */
export function spillwayQuery(source, relations) {
    const made = (input) => spillwayQuery(input, relations);
    if (source.kind === "table") return relations[source.name];
    if (source.kind === "join") return made(source.left).join(made(source.right), source.options);
    if (source.kind === "limit") return made(source.input).limit(source.rows);
    return made(source.input).groupBy({ keys: source.keys, aggregates: source.aggregates });
}

const joinWords = {
    inner: "JOIN",
    left: "LEFT JOIN",
    right: "RIGHT JOIN",
    full: "FULL JOIN",
    semi: "SEMI JOIN",
    anti: "ANTI JOIN"
};

function conditionOf(on) {
    if (typeof on === "string") return `USING (${on})`;
    if (Array.isArray(on)) return `USING (${on.join(", ")})`;
    return `ON ${Object.entries(on)
        .map(([left, right]) => `${left} = ${right}`)
        .join(" AND ")}`;
}

const functions = { sum: "sum", min: "min", max: "max", mean: "avg", count: "count" };

function aggregateSql([alias, aggregate]) {
    const [[name, column]] = Object.entries(aggregate);
    const call = name === "countDistinct" ? `count(DISTINCT ${column})` : `${functions[name]}(${column})`;
    return `${call} AS ${alias}`;
}

/** What stands behind FROM. */
function fromSql(source) {
    if (source.kind === "table") return source.name;
    if (source.kind !== "join" || source.options.select !== undefined) return `(${sqlOf(source)})`;
    const { on, type = "inner" } = source.options;
    return `(${fromSql(source.left)} ${joinWords[type]} ${fromSql(source.right)} ${conditionOf(on)})`;
}

/** The same query for DuckDB; its columns have the names and the order of Spillway's. */
export function sqlOf(source) {
    if (source.kind === "table") return `SELECT * FROM ${source.name}`;
    if (source.kind === "limit") return `${sqlOf(source.input)} LIMIT ${source.rows}`;
    if (source.kind === "join") {
        const { select, ...options } = source.options;
        return `SELECT ${select?.join(", ") ?? "*"} FROM ${fromSql({ ...source, options })}`;
    }
    const { keys, aggregates } = source;
    const columns = [...keys, ...Object.entries(aggregates).map(aggregateSql)].join(", ");
    return `SELECT ${columns} FROM ${fromSql(source.input)}${keys.length > 0 ? ` GROUP BY ${keys.join(", ")}` : ""}`;
}
