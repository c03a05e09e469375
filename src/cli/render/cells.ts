// SPDX-License-Identifier: Apache-2.0
import { formatCount } from "./quantities.js";
import { Items, LongText, Members, type LazyValue } from "../../values/readers.js";

export interface CellText {
    readonly text: string;
    /** False where items or letters were left out, which the text shows by an ellipsis. */
    readonly whole: boolean;
}

/** Writes one value in at most about `charsMax` characters, reading no more items than are shown. */
class CellWriter {
    text = "";
    whole = true;

    constructor(private readonly charsMax: number) {}

    #cut(text: string): void {
        this.whole = false;
        this.text += `${text}…`;
    }

    leaf(leaf: null | boolean | number | bigint | string, quoted: boolean): void {
        if (typeof leaf !== "string") {
            // JSON has no NaN and no infinities, a table has: as null they would look like missing values.
            this.text += Object.is(leaf, -0) ? "-0" : String(leaf);
        } else if (leaf.length > this.charsMax) {
            const begin = leaf.slice(0, this.charsMax);
            this.#cut(quoted ? JSON.stringify(begin).slice(0, -1) : begin);
        } else {
            this.text += quoted ? JSON.stringify(leaf) : leaf;
        }
    }

    #long(value: LongText, quoted: boolean): void {
        let text = "";
        for (const piece of value.pieces()) {
            text += piece;
            if (text.length > this.charsMax) break;
        }
        this.leaf(text, quoted);
    }

    #name(name: LazyValue): void {
        const { text, whole } = cellText(name, this.charsMax);
        this.whole &&= whole;
        this.text += `${JSON.stringify(text)}:`;
    }

    /** The items that fit, and how many more there are. */
    #items(value: Items | Members): void {
        const [open, close] = value instanceof Items ? ["[", "]"] : ["{", "}"];
        this.text += open;
        // What may be kept when the next items turn out not to fit.
        let kept = { length: this.text.length, index: 0 };
        for (let index = 0; index < value.length; index++) {
            const left = `… ${formatCount(value.length - index)} more`;
            if (this.text.length + left.length + close.length < this.charsMax)
                kept = { length: this.text.length, index };
            if (index > 0) this.text += ",";
            if (value instanceof Members) this.#name(value.name(index));
            this.value(value instanceof Items ? value.item(index) : value.value(index), true);
            if (this.text.length + (index + 1 < value.length ? 0 : close.length) <= this.charsMax) continue;
            this.whole = false;
            // A first item that is too long is shown as far as there is room for it.
            if (kept.index === 0) return;
            this.text = `${this.text.slice(0, kept.length)},… ${formatCount(value.length - kept.index)} more`;
            break;
        }
        this.text += close;
    }

    value(value: LazyValue, quoted: boolean): void {
        if (value instanceof LongText) this.#long(value, quoted);
        else if (value instanceof Items || value instanceof Members) this.#items(value);
        else this.leaf(value, quoted);
    }
}

/** Text of a table cell, cut at about `charsMax` characters: `[1,2,… 199,999,998 more]`. */
export function cellText(value: LazyValue, charsMax: number): CellText {
    if (value === null) return { text: "NULL", whole: true };
    const writer = new CellWriter(charsMax);
    writer.value(value, false);
    return writer;
}
