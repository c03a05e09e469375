// SPDX-License-Identifier: Apache-2.0
import { DataType, type Decimal, type Field } from "apache-arrow";

/** Decimals of a type, in the order in which its text names them. */
function decimalsOf(type: DataType): Decimal[] {
    if (DataType.isDecimal(type)) return [type];
    if (DataType.isDictionary(type)) return decimalsOf(type.dictionary as DataType);
    const children = (type.children as readonly Field[] | null | undefined) ?? [];
    return children.flatMap((field) => decimalsOf(field.type as DataType));
}

/** Name of a column type for people. Arrow JS writes a decimal(15, 2) as "Decimal[15e+2]", also inside other types. */
export function typeText(type: DataType): string {
    const decimals = decimalsOf(type);
    return String(type).replace(/Decimal\[-?\d+e\+?-?\d+\]/g, (text) => {
        const decimal = decimals.shift();
        return decimal === undefined ? text : `Decimal${decimal.bitWidth}(${decimal.precision}, ${decimal.scale})`;
    });
}
