// SPDX-License-Identifier: Apache-2.0
// The records of node-delivery.mjs beside each other: what DuckDB took, whether engines agree, which of a file stay.

const sameInputs = (a, b) => a.columns === b.columns && a.rows.probe === b.rows.probe;
const shapeOf = ({ result, columns, rows }) => `${result}; ${columns}; ${rows.probe}`;
const duckdbFields = ["duckdb_ms", "duckdb_rows", "duckdb_refused", "duckdb_version", "duckdb_date"];
const cpuOf = ({ device }) => device.split("; ").at(-1);

/** What is known of DuckDB in a record. */
function duckdbOf(record) {
    return Object.fromEntries(
        duckdbFields.flatMap((name) => (record[name] === undefined ? [] : [[name, record[name]]]))
    );
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
 * A record with `verified`: as many rows as keys let expect, and the sums that all other records with these inputs
 * have, whichever device and whichever way their rows took. Without another to compare it with it has none.
 */
function verified(record, all) {
    if (record.refused !== undefined) return record;
    const others = all.filter((other) => isBeside(record, other));
    const expected = rowsExpected(record.workload) ?? record.rows_out;
    const right = record.rows_out === expected && others.every((other) => agree(record, other));
    return others.length === 0 && right ? record : { ...record, verified: right };
}

/** A record with the figure of DuckDB for the same result of the same inputs on the same processor, if one has it. */
function withDuckdb(record, all) {
    if (record.duckdb_version !== undefined) return record;
    const isSame = (other) => shapeOf(other.workload) === shapeOf(record.workload) && cpuOf(other) === cpuOf(record);
    const other = all.find((one) => one.duckdb_version !== undefined && isSame(one));
    return other === undefined ? record : { ...record, ...duckdbOf(other) };
}

/**
 * Records of a run, verified, behind those of a file whose cells were not measured again: each of these has the commit
 * and the date that it is of. Figures of DuckDB go to records without one, since what it takes depends neither on the
 * commit nor on the device beside it; the newest comes first.
 */
export function mergeRecords(before, records) {
    const measured = new Set(records.map(({ workload }) => workload.name));
    const kept = before.filter(({ workload }) => !measured.has(workload.name));
    const all = [...kept, ...records.map((record) => verified(record, [...kept, ...records]))];
    return all.map((record) => withDuckdb(record, [...records, ...before]));
}
