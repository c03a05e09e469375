// SPDX-License-Identifier: Apache-2.0

// One write of the stream: large enough that its system call does not show, small enough for any budget.
const blockBytes = 48 * 1024;
// The escapes and bytes of a text of this many letters at most fit what is left behind a block that is not yet full.
const bytesPerLetterMax = 6; // \u0000
const int32Max = 2 ** 31 - 1;

const [quote, backslash, minus, zero] = [0x22, 0x5c, 0x2d, 0x30];
const [firstPlain, lastPlain] = [0x20, 0x7e];

/** JSON as one 64-bit integer, a name or a value after the other writes it, without a string for each. */
export class JsonBlock {
    #bytes = Buffer.allocUnsafeSlow(2 * blockBytes);
    #length = 0;

    /** Is it time to write it to the stream? */
    get full(): boolean {
        return this.#length >= blockBytes;
    }

    /** What was written since the last call. The memory is used again: take more when the stream is done with it. */
    take(): Buffer {
        const taken = this.#bytes.subarray(0, this.#length);
        this.#length = 0;
        return taken;
    }

    #room(bytes: number): void {
        if (this.#length + bytes <= this.#bytes.length) return;
        const longer = Buffer.allocUnsafeSlow(2 * (this.#length + bytes));
        longer.set(this.#bytes.subarray(0, this.#length));
        this.#bytes = longer;
    }

    /** JSON that is ready. */
    raw(json: string): void {
        const letters = json.length;
        this.#room(letters * 3);
        // Short texts are seldom anything but ASCII, and a call of Node's takes longer than their letters.
        const begin = this.#length;
        for (let index = 0; index < letters; index++) {
            const code = json.charCodeAt(index);
            if (code > lastPlain) {
                this.#length = begin + this.#bytes.write(json, begin);
                return;
            }
            this.#bytes[this.#length++] = code;
        }
    }

    /** A text as JSON has it. */
    text(text: string): void {
        this.raw(JSON.stringify(text));
    }

    /** The same of UTF-8 bytes. */
    utf8(bytes: Buffer, begin: number, end: number): void {
        this.#room((end - begin) * bytesPerLetterMax + 2);
        const target = this.#bytes;
        let at = this.#length;
        target[at++] = quote;
        for (let index = begin; index < end; index++) {
            const code = bytes[index]!;
            if (code < firstPlain || code > lastPlain || code === quote || code === backslash) {
                return this.text(bytes.toString("utf8", begin, end));
            }
            target[at++] = code;
        }
        target[at++] = quote;
        this.#length = at;
    }

    integer(value: number): void {
        if (value > int32Max || value < -int32Max) return this.raw(String(value));
        this.#room(16);
        const target = this.#bytes;
        let rest = value;
        if (rest < 0) {
            target[this.#length++] = minus;
            rest = -rest;
        }
        let end = this.#length + 1;
        for (let limit = 10; limit <= rest; limit *= 10) end++;
        this.#length = end;
        do {
            const tenth = Math.trunc(rest / 10);
            target[--end] = zero + rest - tenth * 10;
            rest = tenth;
        } while (rest > 0);
    }
}
