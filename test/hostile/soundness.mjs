// SPDX-License-Identifier: Apache-2.0
// Is what the engine delivers sound Arrow? Every offset, index and length of a result, whatever file it came from.
import { DataType, UnionMode } from "apache-arrow";
import { widthOf } from "./layouts.mjs";

/** Elements that are looked at: results of hostile files may be long, and the first ones tell. */
const looked = 100_000;

export class Unsound extends Error {}

function require(condition, path, what) {
    if (!condition) throw new Unsound(`${path}: ${what}`);
}

function checkOffsets(data, path, end) {
    const { valueOffsets, length } = data;
    require(valueOffsets.length >= length + 1, path, `${valueOffsets.length} offsets for ${length} rows`);
    let last = Number(valueOffsets[0]);
    require(last >= 0, path, `first offset ${last}`);
    for (let row = 1; row <= Math.min(length, looked); ++row) {
        const next = Number(valueOffsets[row]);
        require(next >= last, path, `offset ${next} of row ${row} behind ${last}`);
        last = next;
    }
    const final = Number(valueOffsets[length]);
    require(final <= end, path, `last offset ${final} beyond ${end}`);
}

function checkValidity({ nullBitmap, nullCount, offset, length }, path) {
    if (!nullBitmap || nullBitmap.length === 0) {
        require(nullCount <= 0, path, `${nullCount} NULLs without a bitmap`);
        return;
    }
    require(nullBitmap.length * 8 >=
        offset + length, path, `a bitmap of ${nullBitmap.length} bytes for ${length} rows`);
    if (length > looked) return;
    let nulls = 0;
    for (let row = offset; row < offset + length; ++row) if (!((nullBitmap[row >> 3] >> (row & 7)) & 1)) nulls += 1;
    require(nullCount === nulls, path, `${nulls} NULLs, said to be ${nullCount}`);
}

function checkUnion(data, path) {
    const { type, typeIds, valueOffsets, children, length } = data;
    const ids = Array.from(type.typeIds);
    const dense = type.mode === UnionMode.Dense;
    for (let row = 0; row < Math.min(length, looked); ++row) {
        const child = children[ids.indexOf(typeIds[row])];
        require(child !== undefined, path, `type id ${typeIds[row]} of row ${row}`);
        const at = dense ? valueOffsets[row] : row;
        require(at >= 0 && at < child.length, path, `row ${row} is value ${at} of ${child.length}`);
    }
}

function checkDictionary(data, path) {
    const size = data.dictionary?.length ?? 0;
    for (let row = 0; row < Math.min(data.length, looked); ++row) {
        if (!data.getValid(row)) continue;
        const index = Number(data.values[row]);
        require(index >= 0 && index < size, path, `index ${index} of ${size} words`);
    }
    data.dictionary?.data.forEach((chunk) => checkData(chunk, `${path}.words`));
}

function checkChildren(data, path) {
    const { type, length } = data;
    const size = DataType.isFixedSizeList(type) ? type.listSize : 1;
    const perRow = DataType.isFixedSizeList(type) || DataType.isStruct(type) || type.mode === UnionMode.Sparse;
    data.children.forEach((child, i) => {
        if (perRow) require(child.length >= length * size, path, `${child.length} items for ${length} x ${size}`);
        checkData(child, `${path}.${i}`);
    });
}

/** Throws where `data`, one column of a result or a part of one, is not what its type asks for. */
export function checkData(data, path) {
    const { type, length } = data;
    require(Number.isSafeInteger(length) && length >= 0, path, `a length of ${length}`);
    if (DataType.isNull(type)) return;
    if (!DataType.isUnion(type)) checkValidity(data, path);
    if (DataType.isUnion(type)) checkUnion(data, path);
    else if (DataType.isDictionary(type)) checkDictionary(data, path);
    else if (DataType.isList(type) || DataType.isLargeList(type) || DataType.isMap(type)) {
        checkOffsets(data, path, data.children[0].length);
    } else if (
        DataType.isUtf8(type) ||
        DataType.isBinary(type) ||
        DataType.isLargeUtf8(type) ||
        DataType.isLargeBinary(type)
    ) {
        checkOffsets(data, path, data.values.byteLength);
    } else if (DataType.isBool(type)) {
        require(data.values.byteLength * 8 >= length, path, `${data.values.byteLength} bytes for ${length} bools`);
    } else if (data.children.length === 0 && !DataType.isStruct(type)) {
        const bytes = data.values.byteLength;
        require(bytes >= length * widthOf(type), path, `${bytes} bytes for ${length} x ${widthOf(type)}`);
    }
    checkChildren(data, path);
}

/** The same for the columns of a record batch. */
export function checkBatch(batch) {
    batch.data.children.forEach((data, i) => {
        const name = batch.schema.fields[i].name;
        require(data.length === batch.numRows, name, `${data.length} values in a batch of ${batch.numRows}`);
        checkData(data, name);
    });
}
