// SPDX-License-Identifier: Apache-2.0
import type { TypeMap } from "apache-arrow";

import type { QueryRunner } from "./query-runner.js";
import type { InputInfo } from "../plan/logical.js";
import { Source } from "./query.js";

/** Rows of files, of tables in memory or of a stream of batches. Rows stay where they are until a query needs them. */
export class Relation<T extends TypeMap = TypeMap> extends Source<T> {
    readonly #input: InputInfo;

    /** @internal */
    public constructor(runner: QueryRunner, input: InputInfo) {
        super(runner, { kind: "input", input, columns: input.columns }, {});
        this.#input = input;
    }

    /** Name shown in plans and messages. */
    public get name(): string {
        return this.#input.name;
    }

    /** Number of rows; null for `fromBatches`, which is known only after it has been read. */
    public get rows(): number | null {
        return this.#input.streamed ? null : this.#input.rows;
    }

    /** Bytes of all columns as they lie in files or memory; null for `fromBatches`. */
    public get bytes(): number | null {
        if (this.#input.streamed) return null;
        return this.#input.columnBytes.reduce((sum, bytes) => sum + bytes, 0);
    }
}
