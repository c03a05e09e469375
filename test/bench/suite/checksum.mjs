// SPDX-License-Identifier: Apache-2.0
// A checksum of all values of a result that depends neither on the order of rows nor on how an engine stores values:
// integers, decimals of equal scale and dates count by their number, dictionaries by their texts, NULL as itself.
import { DataType } from "apache-arrow";

const [nullFirst, nullSecond] = [0x2545f491, 0x7f4a7c15];

/** Marks of the values of one column: two words for each row, or the number itself of a column of doubles. */
class Marks {
    constructor(rows) {
        this.first = new Int32Array(rows);
        this.second = new Int32Array(rows);
    }

    setNumber(row, low, high) {
        this.first[row] = Math.imul(low ^ Math.imul(high, 0x9e3779b1), 0x85ebca6b);
        this.second[row] = Math.imul(high ^ Math.imul(low, 0xc2b2ae35), 0x27d4eb2f);
    }

    /** Numbers of 128 bits that fit 64 count as such. */
    setWide(row, words, at) {
        const [low, high] = [words[at] | 0, words[at + 1] | 0];
        this.setNumber(row, low, high);
        const [third, fourth] = [words[at + 2] | 0, words[at + 3] | 0];
        if (third === high >> 31 && fourth === third) return;
        this.first[row] = Math.imul(this.first[row] ^ third, 0x9e3779b1);
        this.second[row] = Math.imul(this.second[row] ^ fourth, 0x85ebca6b);
    }

    setBytes(row, bytes, begin, end) {
        let [first, second] = [0x811c9dc5 | 0, end - begin];
        for (let at = begin; at < end; at++) {
            first = Math.imul(first ^ bytes[at], 0x01000193);
            second = Math.imul(second ^ bytes[at], 0x5bd1e995) ^ (second >>> 15);
        }
        this.first[row] = first;
        this.second[row] = second;
    }

    setText(row, text) {
        const bytes = Buffer.from(text, "utf8");
        this.setBytes(row, bytes, 0, bytes.length);
    }

    setNull(row) {
        this.first[row] = nullFirst;
        this.second[row] = nullSecond;
    }

    /** Copies the marks of rows of `other`. */
    take(other, indices) {
        for (let row = 0; row < this.first.length; row++) {
            this.first[row] = other.first[indices[row]];
            this.second[row] = other.second[indices[row]];
        }
    }
}

/** Sums over all rows so far. Doubles, whose last digits may differ, are added up by weights that rows decide. */
export class Checksum {
    #rows = 0;
    #sums = [0, 0];
    #doubles = [];

    /** columns: of `marksOf...`, each `{ marks }` or `{ doubles, isValid }`. */
    add(rows, columns) {
        const first = new Int32Array(rows).fill(0x1b873593);
        const second = new Int32Array(rows).fill(0x38495ab5);
        for (const { marks } of columns.filter((column) => column.marks !== undefined)) {
            for (let row = 0; row < rows; row++) {
                const one = Math.imul(first[row] ^ marks.first[row], 0xcc9e2d51);
                first[row] = one ^ (one >>> 15);
                const other = Math.imul(second[row] ^ marks.second[row], 0x1b873593);
                second[row] = other ^ (other >>> 13);
            }
        }
        for (let row = 0; row < rows; row++) {
            this.#sums[0] = (this.#sums[0] + first[row]) | 0;
            this.#sums[1] = (this.#sums[1] + second[row]) | 0;
        }
        for (const [index, { doubles, isValid }] of columns.filter((column) => column.doubles).entries()) {
            const sum = (this.#doubles[index] ??= { sum: 0, size: 0, nulls: 0 });
            for (let row = 0; row < rows; row++) {
                if (!isValid(row)) {
                    sum.nulls++;
                    continue;
                }
                const weighted = doubles[row] * (1 + (first[row] >>> 0) / 2 ** 32);
                sum.sum += weighted;
                sum.size += Math.abs(weighted);
            }
        }
        this.#rows += rows;
    }

    result() {
        const text = this.#sums.map((sum) => (sum >>> 0).toString(16).padStart(8, "0")).join("");
        return { rows: this.#rows, sum: text, doubles: this.#doubles };
    }
}

// Doubles of two engines differ in how often they were rounded on their way.
const tolerance = 1e-9;

/** Why two checksums are not of the same rows; undefined where they are. */
export function differenceOf(ours, theirs) {
    if (ours.rows !== theirs.rows) return `${ours.rows} rows instead of ${theirs.rows}`;
    if (ours.sum !== theirs.sum) return `other values (checksum ${ours.sum} instead of ${theirs.sum})`;
    if (ours.doubles?.length !== theirs.doubles?.length) return "another number of columns of doubles";
    for (const [index, { sum, size, nulls }] of (ours.doubles ?? []).entries()) {
        const other = theirs.doubles[index];
        if (nulls !== other.nulls) return `${nulls} NULLs in a column of doubles instead of ${other.nulls}`;
        if (Math.abs(sum - other.sum) > tolerance * Math.max(size, other.size)) {
            return `other doubles (weighted sum ${sum} instead of ${other.sum})`;
        }
    }
    return undefined;
}

const allValid = () => true;

function validityOf({ nullBitmap, nullCount, offset }) {
    if (!(nullCount > 0) || !(nullBitmap?.length > 0)) return allValid;
    return (row) => (nullBitmap[(row + offset) >> 3] & (1 << ((row + offset) & 7))) !== 0;
}

function fillNumbers(marks, type, { values, length }) {
    if (DataType.isDecimal(type)) {
        if (type.bitWidth !== 128) throw new Error(`No checksum of ${type}, whose numbers do not have 128 bits.`);
        for (let row = 0; row < length; row++) marks.setWide(row, values, 4 * row);
    } else if (values.BYTES_PER_ELEMENT === 8) {
        const words = new Int32Array(values.buffer, values.byteOffset, 2 * length);
        for (let row = 0; row < length; row++) marks.setNumber(row, words[2 * row], words[2 * row + 1]);
    } else {
        for (let row = 0; row < length; row++) marks.setNumber(row, values[row], values[row] >> 31);
    }
}

const dictionaryMarks = new WeakMap();

/** Marks of the entries of a dictionary, made once. */
function marksOfDictionary(dictionary) {
    const known = dictionaryMarks.get(dictionary);
    if (known !== undefined && known.first.length === dictionary.length) return known;
    const marks = new Marks(dictionary.length);
    for (let row = 0; row < dictionary.length; row++) {
        const text = dictionary.get(row);
        if (text === null) marks.setNull(row);
        else marks.setText(row, text);
    }
    dictionaryMarks.set(dictionary, marks);
    return marks;
}

const isNumber = (type) =>
    DataType.isInt(type) || DataType.isDecimal(type) || (DataType.isDate(type) && type.unit === 0);

function marksOfArrow(type, data) {
    const { length, values } = data;
    const isValid = validityOf(data);
    if (DataType.isFloat(type)) return { doubles: values, isValid };
    const marks = new Marks(length);
    if (DataType.isDictionary(type)) {
        marks.take(marksOfDictionary(data.dictionary), values);
    } else if (DataType.isUtf8(type)) {
        const offsets = data.valueOffsets;
        for (let row = 0; row < length; row++) marks.setBytes(row, values, offsets[row], offsets[row + 1]);
    } else if (isNumber(type)) {
        fillNumbers(marks, type, data);
    } else {
        throw new Error(`No checksum of columns of ${type}.`);
    }
    if (isValid !== allValid) for (let row = 0; row < length; row++) if (!isValid(row)) marks.setNull(row);
    return { marks };
}

/** Adds a record batch of Arrow. */
export function addArrowBatch(checksum, batch) {
    const columns = batch.schema.fields.map(({ type }, index) => marksOfArrow(type, batch.data.children[index]));
    checksum.add(batch.numRows, columns);
}

// A text of at most so many bytes lies in the 16 bytes of its value; longer ones are fetched one by one.
const inlineBytes = 12;

/**
 * The columns of a query for DuckDB in which each text is cut in pieces that lie in their values, and what
 * `addDuckdbChunk` has to know of them. columns: `[{ name, type, bytes }]`, with the most bytes of a text.
 */
export function inPieces(columns) {
    const layout = columns.map(({ type, bytes }) =>
        type === "VARCHAR" ? Math.max(1, Math.ceil(bytes / inlineBytes)) : 0
    );
    const selected = columns.flatMap(({ name }, index) =>
        layout[index] < 2
            ? [`"${name}"`]
            : Array.from(
                  { length: layout[index] },
                  (_, i) => `substr("${name}", ${1 + i * inlineBytes}, ${inlineBytes})`
              )
    );
    return { select: selected.join(", "), layout };
}

/** The bytes of a text in one row of some columns, one behind the other. */
function bytesOfRow(vectors, bytes, row, into) {
    let length = 0;
    for (let i = 0; i < vectors.length; i++) {
        const [from, at] = [bytes[i], 16 * row];
        const piece = from[at] | (from[at + 1] << 8) | (from[at + 2] << 16) | (from[at + 3] << 24);
        // Only texts with characters of several bytes have longer pieces.
        if (piece > inlineBytes) length += into.write(vectors[i].getItem(row), length, "utf8");
        else for (let j = 0; j < piece; j++) into[length++] = from[at + 4 + j];
    }
    return length;
}

const mostTextBytes = 2 ** 16;

function fillDuckdbText(marks, vectors) {
    const bytes = vectors.map(
        ({ dataView }) => new Uint8Array(dataView.buffer, dataView.byteOffset, dataView.byteLength)
    );
    const text = Buffer.alloc(mostTextBytes);
    const { validity } = vectors[0];
    for (let row = 0; row < marks.first.length; row++) {
        if (validity.data && !validity.itemValid(row)) continue;
        marks.setBytes(row, text, 0, bytesOfRow(vectors, bytes, row, text));
    }
}

const enumMarks = new Map();

function marksOfEnum({ values }) {
    const key = values.join("\n");
    let marks = enumMarks.get(key);
    if (marks === undefined) {
        marks = new Marks(values.length);
        values.forEach((text, row) => marks.setText(row, text));
        enumMarks.set(key, marks);
    }
    return marks;
}

function fillDuckdb(marks, vector, rows) {
    const { items, dataView } = vector;
    const wordsOf = () => new Int32Array(dataView.buffer, dataView.byteOffset, dataView.byteLength / 4);
    if (vector.enumType !== undefined) {
        marks.take(marksOfEnum(vector.enumType), items);
    } else if (items !== undefined) {
        fillNumbers(marks, undefined, { values: items, length: rows });
    } else if (dataView.byteLength === 16 * rows) {
        const words = wordsOf();
        for (let row = 0; row < rows; row++) marks.setWide(row, words, 4 * row);
    } else if (dataView.byteLength === 8 * rows) {
        const words = wordsOf();
        for (let row = 0; row < rows; row++) marks.setNumber(row, words[2 * row], words[2 * row + 1]);
    } else {
        throw new Error(`No checksum of DuckDB's ${vector.type}.`);
    }
}

/** Marks of a column: a text in so many pieces, or one vector (0). */
function marksOfDuckdb(vectors, pieces, rows) {
    const [{ items, validity }] = vectors;
    const isValid = validity.data ? (row) => validity.itemValid(row) : allValid;
    if (items instanceof Float64Array) return { doubles: items, isValid };
    const marks = new Marks(rows);
    if (pieces > 0) fillDuckdbText(marks, vectors);
    else fillDuckdb(marks, vectors[0], rows);
    if (isValid !== allValid) for (let row = 0; row < rows; row++) if (!isValid(row)) marks.setNull(row);
    return { marks };
}

/** Adds a data chunk of DuckDB; `layout`: of `inPieces`. */
export function addDuckdbChunk(checksum, chunk, layout) {
    const rows = chunk.rowCount;
    let next = 0;
    const columns = layout.map((pieces) => {
        const vectors = Array.from({ length: Math.max(1, pieces) }, () => chunk.getColumnVector(next++));
        return marksOfDuckdb(vectors, pieces, rows);
    });
    checksum.add(rows, columns);
}
