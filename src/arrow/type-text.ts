// SPDX-License-Identifier: Apache-2.0
import { DataType } from "apache-arrow";

/** Name of a column type for people. Arrow JS writes a decimal(15, 2) as "Decimal[15e+2]". */
export function typeText(type: DataType): string {
    if (DataType.isDecimal(type)) return `Decimal${type.bitWidth}(${type.precision}, ${type.scale})`;
    return String(type);
}
