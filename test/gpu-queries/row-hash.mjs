// SPDX-License-Identifier: Apache-2.0
// A hash of 128 bits of all rows of a result, whatever their order: results of many millions of rows are compared
// without keeping them.

// Odd, and as unlike each other as the digits of e, pi and the square roots of 2 and 3.
const factors = [0xadf85459, 0xc90fdaa3, 0xb504f333, 0xddb3d743].map((factor) => factor | 1);

function finished(state) {
    let value = Math.imul(state ^ (state >>> 16), 0x7feb352d);
    value = Math.imul(value ^ (value >>> 15), 0x846ca68b);
    return value ^ (value >>> 16);
}

/** The words of 32 bits of a column, row after row, and how many each row has. */
function wordsOf(vector, rows) {
    if (vector.nullCount > 0) throw new Error("rows with NULLs are not hashed");
    const values = vector.toArray();
    const perRow = values.BYTES_PER_ELEMENT / 4;
    if (!Number.isInteger(perRow) || values.length !== rows) throw new Error(`no words of 32 bits: ${vector.type}`);
    return { words: new Uint32Array(values.buffer, values.byteOffset, rows * perRow), perRow };
}

/**
 * Four sums, modulo 2^32, of four hashes of each row: a row that is missing, there twice or changed is seen unless all
 * four collide. Columns are numbers of 32 or 64 bits without NULLs.
 */
export class RowHash {
    rows = 0;
    #sums = new Uint32Array(factors.length);

    /** batch: a record batch or table of Arrow. */
    add(batch) {
        const rows = batch.numRows;
        if (rows === 0) return;
        const columns = batch.schema.fields.map((_, column) => wordsOf(batch.getChildAt(column), rows));
        factors.forEach((factor, lane) => {
            let sum = 0;
            for (let row = 0; row < rows; ++row) {
                let state = factor;
                for (const { words, perRow } of columns) {
                    for (let word = row * perRow; word < (row + 1) * perRow; ++word) {
                        state = finished(Math.imul(state, factor) + words[word]);
                    }
                }
                sum = (sum + state) | 0;
            }
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
export async function hashOfRows(query) {
    const hash = new RowHash();
    for await (const batch of query.batches()) hash.add(batch);
    return hash.toString();
}
