// SPDX-License-Identifier: Apache-2.0
// A hash of 128 bits of all rows of a result, whatever their order: results of many millions of rows are compared
// without keeping them.
import { DataType } from "apache-arrow";

// Odd, and as unlike each other as the digits of e, pi and the square roots of 2 and 3.
const factors = [0xadf85459, 0xc90fdaa3, 0xb504f333, 0xddb3d743].map((factor) => factor | 1);

function finished(state) {
    let value = Math.imul(state ^ (state >>> 16), 0x7feb352d);
    value = Math.imul(value ^ (value >>> 15), 0x846ca68b);
    return value ^ (value >>> 16);
}

/** Adds the words of a column to the hash of each row. */
function mix(states, { words, perRow, starts }, factor) {
    for (let row = 0; row < states.length; ++row) {
        const end = starts === undefined ? (row + 1) * perRow : starts[row + 1];
        let state = states[row];
        for (let word = starts === undefined ? row * perRow : starts[row]; word < end; ++word) {
            state = finished(Math.imul(state, factor) + words[word]);
        }
        states[row] = state;
    }
}

/** Of texts, row after row: the length, then its bytes, four to a word. NULL has no words. */
function wordsOfTexts(data, rows) {
    const { values, valueOffsets: offsets } = data;
    const bytes = Number(offsets[rows]) - Number(offsets[0]);
    const words = new Uint32Array(2 * rows + Math.ceil(bytes / 4));
    const starts = new Uint32Array(rows + 1);
    let next = 0;
    for (let row = 0; row < rows; ++row) {
        starts[row] = next;
        if (!data.getValid(row)) continue;
        const [begin, end] = [Number(offsets[row]), Number(offsets[row + 1])];
        words[next++] = end - begin;
        for (let at = begin; at < end; ++at) {
            const byte = (at - begin) % 4;
            words[next] |= values[at] << (8 * byte);
            if (byte === 3 || at === end - 1) ++next;
        }
    }
    starts[rows] = next;
    return { words, starts };
}

/** The words of 32 bits of a column, row after row: as many of each row, or from where its words start. */
function wordsOf(vector, rows, mayBeNull) {
    const hasNulls = vector.nullCount > 0;
    if (hasNulls && !mayBeNull) throw new Error("rows with NULLs are not hashed");
    const [data] = vector.data;
    if (vector.data.length === 1 && DataType.isUtf8(vector.type)) return wordsOfTexts(data, rows);
    const values = vector.toArray();
    const perRow = values.BYTES_PER_ELEMENT / 4;
    if (!Number.isInteger(perRow) || values.length !== rows) throw new Error(`no words of 32 bits: ${vector.type}`);
    const words = new Uint32Array(values.buffer, values.byteOffset, rows * perRow);
    if (!hasNulls) return { words, perRow };
    // What stands where NULL is differs between engines.
    const known = words.slice();
    for (let row = 0; row < rows; ++row) if (!vector.isValid(row)) known.fill(0, row * perRow, (row + 1) * perRow);
    return { words: known, perRow };
}

/** A word for each row that says which of its values are there. */
function presence(vectors, rows) {
    if (vectors.length > 32) throw new Error("more than 32 columns that may be NULL");
    const words = new Uint32Array(rows).fill(2 ** vectors.length - 1);
    vectors.forEach((vector, column) => {
        if (vector.nullCount === 0) return;
        for (let row = 0; row < rows; ++row) if (!vector.isValid(row)) words[row] ^= 1 << column;
    });
    return { words, perRow: 1 };
}

/**
 * Four sums, modulo 2^32, of four hashes of each row: a row that is missing, there twice or changed is seen unless all
 * four collide. Columns are numbers of 32 or 64 bits, or text. Rows have no NULLs unless they are expected, which
 * makes other hashes.
 */
export class RowHash {
    rows = 0;
    #sums = new Uint32Array(factors.length);
    #mayBeNull;

    constructor({ mayBeNull = false } = {}) {
        this.#mayBeNull = mayBeNull;
    }

    /** batch: a record batch or table of Arrow. */
    add(batch) {
        const rows = batch.numRows;
        if (rows === 0) return;
        const vectors = batch.schema.fields.map((_, column) => batch.getChildAt(column));
        const columns = vectors.map((vector) => wordsOf(vector, rows, this.#mayBeNull));
        if (this.#mayBeNull) columns.push(presence(vectors, rows));
        const states = new Int32Array(rows);
        factors.forEach((factor, lane) => {
            states.fill(factor);
            for (const column of columns) mix(states, column, factor);
            let sum = 0;
            for (const state of states) sum = (sum + state) | 0;
            this.#sums[lane] += sum;
        });
        this.rows += rows;
    }

    toString() {
        const digits = [...this.#sums].map((sum) => sum.toString(16).padStart(8, "0"));
        return `${this.rows} rows, hash ${digits.join("")}`;
    }
}

/** Of the rows of a query as they are delivered. */
export async function hashOfRows(query, nulls) {
    const hash = new RowHash(nulls);
    for await (const batch of query.batches()) hash.add(batch);
    return hash.toString();
}

/** `expected`: gives the hash by the CPU engine. `inspect`: says of the report of the run what is wrong. */
export async function compareHashes(query, expected, inspect = () => null, nulls = {}) {
    const [found, wanted] = [await hashOfRows(query, nulls), await expected()];
    return found === wanted ? await inspect(query.report()) : `${found} instead of ${wanted}`;
}
