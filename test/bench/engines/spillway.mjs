// SPDX-License-Identifier: Apache-2.0
import { RecordBatchReader } from "apache-arrow";
import { open, rm } from "node:fs/promises";
import { join } from "node:path";
import { openRuntime } from "../../../dist/index.js";

/** Rows and the sums of both payload columns modulo 2^64. */
class Checksum {
    #rows = 0;
    #sums = [0n, 0n];

    add(batch) {
        this.#rows += batch.numRows;
        for (const [index, name] of ["r_value", "s_value"].entries()) {
            let sum = 0n;
            for (const value of batch.getChild(name).data[0].values) sum += value;
            this.#sums[index] = BigInt.asUintN(64, this.#sums[index] + sum);
        }
    }

    result() {
        return { rowsOut: this.#rows, checksum: this.#sums.map(String).join("/") };
    }
}

async function checkFile(path) {
    const checksum = new Checksum();
    const file = await open(path);
    try {
        for await (const batch of await RecordBatchReader.from(file)) checksum.add(batch);
    } finally {
        await file.close();
    }
    return checksum.result();
}

function operationsOf(makeQuery, outputPath) {
    let counted = 0;
    let table = null;
    return {
        count: {
            run: async () => {
                counted = await (await makeQuery()).count();
            },
            check: async () => ({ rowsOut: counted, checksum: null })
        },
        table: {
            run: async () => {
                table = null; // as DuckDB drops its own; when it is collected is up to Node, as for any user
                table = await (await makeQuery()).toTable();
            },
            check: async () => {
                const checksum = new Checksum();
                for (const batch of table.batches) checksum.add(batch);
                return checksum.result();
            }
        },
        file: {
            run: async () => {
                await (await makeQuery()).toArrowFile(outputPath, { overwrite: true });
            },
            check: () => checkFile(outputPath)
        }
    };
}

/** Spillway on the Arrow files themselves: each run opens them, reads footers and rows, and joins. */
export async function openSpillway({ leftPath, rightPath, workFolder, threads, budgetBytes, operation }) {
    const outputPath = join(workFolder, "joined.arrow");
    const memory = { spillDirectory: workFolder, ...(budgetBytes == null ? {} : { host: budgetBytes }) };
    const runtime = await openRuntime({ device: "cpu", threads, memory });
    const select = ["r_value", "s_value"];
    const makeQuery = async () => {
        const [left, right] = [await runtime.fromArrowFile(leftPath), await runtime.fromArrowFile(rightPath)];
        return runtime.join({ left, right, on: { r_key: "s_key" }, select });
    };
    const { plan } = await (await makeQuery()).explain({ result: operation });
    return {
        algorithm: `spillway ${[...new Set(plan.stages.map((stage) => stage.algorithm))].join(" + ")}`,
        ...operationsOf(makeQuery, outputPath)[operation],
        close: async () => {
            await runtime.close();
            await rm(outputPath, { force: true });
        }
    };
}
