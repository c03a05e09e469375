// SPDX-License-Identifier: Apache-2.0
// The records of node-delivery.mjs beside each other: what DuckDB took, whether engines agree, which of a file stay.

const sameInputs = (a, b) => a.columns === b.columns && a.rows.probe === b.rows.probe;
const shapeOf = ({ result, columns, rows }) => `${result}; ${columns}; ${rows.probe}`;
const duckdbFields = ["duckdb_ms", "duckdb_rows", "duckdb_refused", "duckdb_version", "duckdb_date"];
const cpuOf = ({ device }) => device.split("; ").at(-1);

const without = (record, names) => Object.fromEntries(Object.entries(record).filter(([name]) => !names.includes(name)));

/** What is known of DuckDB in a record. */
function duckdbOf(record) {
    return Object.fromEntries(
        duckdbFields.flatMap((name) => (record[name] === undefined ? [] : [[name, record[name]]]))
    );
}

/**
 * Records with those of a file that were not measured again, each of which has the commit and the date that it is of. A
 * record without a figure of DuckDB takes that of another one with the same result and inputs on the same processor:
 * what DuckDB takes does not depend on the commit, nor on the device beside it.
 */
export function mergeRecords(before, records) {
    const measured = new Set(records.map(({ workload }) => workload.name));
    const all = [...before.filter(({ workload }) => !measured.has(workload.name)), ...records];
    return all.map((record) => {
        if (record.duckdb_version !== undefined) return record;
        const others = [...records, ...before].filter(
            (other) =>
                other.duckdb_version !== undefined &&
                shapeOf(other.workload) === shapeOf(record.workload) &&
                cpuOf(other) === cpuOf(record)
        );
        return others.length === 0 ? record : { ...record, ...duckdbOf(others[0]) };
    });
}

/** Records with what DuckDB took for the same result of the same inputs. */
export function withDuckdb(records, { columns, rows, version, date, queries }) {
    return records.map((record) => {
        const { workload } = record;
        const told = queries.get(workload.result);
        if (told === undefined || workload.columns !== columns || workload.rows.probe !== rows) return record;
        return { ...without(record, duckdbFields), ...told, duckdb_version: version, duckdb_date: date };
    });
}

/** Rows that a result must have; undefined for group-bys, whose keys are drawn. */
function rowsExpected({ result, rows }) {
    if (result === "group-by") return undefined;
    return result === "sums" ? 1 : rows.probe;
}

/** Whether the result of another record tells something of this one's: the rows, or what they add up to. */
function isBeside(record, other) {
    const [mine, others] = [record.workload, other.workload];
    if (record === other || other.refused !== undefined || !sameInputs(mine, others)) return false;
    if (mine.result === "count" || others.result === "count") return mine.result === others.result;
    return (mine.result === "group-by") === (others.result === "group-by");
}

/** Two results agree: sums of the same columns, and rows where both are of the same kind. */
function agree(record, other) {
    const sameRows = record.workload.result !== other.workload.result || record.rows_out === other.rows_out;
    return sameRows && record.checksum === other.checksum;
}

/**
 * Records with `verified`: as many rows as keys let expect, and the sums that all other records with these inputs have,
 * whichever device and whichever way their rows took. Those without another to compare them with have none.
 */
export function verifyRecords(records) {
    return records.map((record) => {
        if (record.refused !== undefined) return record;
        const others = records.filter((other) => isBeside(record, other));
        const expected = rowsExpected(record.workload) ?? record.rows_out;
        const right = record.rows_out === expected && others.every((other) => agree(record, other));
        const rest = without(record, ["verified"]);
        return others.length === 0 && right ? rest : { ...rest, verified: right };
    });
}
