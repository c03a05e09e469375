// SPDX-License-Identifier: Apache-2.0
// How messages and plans name types.
import { Decimal, Dictionary, Field, Int32, List, Struct, Utf8 } from "apache-arrow";
import { expect, test } from "vitest";
import { typeText } from "../../../src/arrow/type-text.js";

test("decimals say width, precision and scale, also inside other types", () => {
    expect(typeText(new Decimal(2, 15, 128))).toBe("Decimal128(15, 2)");
    expect(typeText(new Decimal(-3, 50, 256))).toBe("Decimal256(50, -3)");
    expect(typeText(new Decimal(10, 38, 128))).toBe("Decimal128(38, 10)");
    expect(typeText(new Decimal(-12, 38, 128))).toBe("Decimal128(38, -12)");
    const pair = new Struct([
        new Field("a", new Decimal(0, 9, 32)),
        new Field("b", new List(new Field("item", new Dictionary(new Decimal(2, 15, 128), new Int32()))))
    ]);
    expect(typeText(pair)).toBe("Struct<{a:Decimal32(9, 0), b:List<Dictionary<Int32, Decimal128(15, 2)>>}>");
    expect(typeText(new Utf8())).toBe("Utf8");
});

test("a column that is named as Arrow JS names a decimal keeps its name", () => {
    const type = new Struct([new Field("Decimal[3e+2]", new Int32())]);
    expect(typeText(type)).toBe("Struct<{Decimal[3e+2]:Int32}>");
});
