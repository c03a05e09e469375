// SPDX-License-Identifier: Apache-2.0
// Arguments that run code of the caller's when they are read (getters, proxies), and names that UTF-8 cannot hold.
import { Field, Int32, Schema, Struct, Table, tableFromArrays } from "apache-arrow";
import { openRuntime, SpillwayError, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectError } from "../../support/errors.js";
import { Sandbox } from "../../support/sandbox.js";

const people = tableFromArrays({ id: Int32Array.of(1, 2, 3), age: Float64Array.of(30, 40, 50) });

let sandbox: Sandbox;
let runtime: Runtime;
beforeAll(async () => {
    sandbox = new Sandbox();
    runtime = await openRuntime({ threads: 2, memory: { host: "64MiB", spillDirectory: sandbox.spill } });
});
afterAll(async () => {
    await runtime.close();
    await sandbox.expectClean();
    sandbox[Symbol.dispose]();
});

const boom = new RangeError("boom");
const fail = (): never => {
    throw boom;
};
const getter = (name: string): never => Object.defineProperty({}, name, { get: fail, enumerable: true }) as never;
const traps = { get: fail, has: fail, ownKeys: fail, getPrototypeOf: fail, getOwnPropertyDescriptor: fail };
/** What it raises comes when it is used, not when it is checked. */
const signal = (name: "aborted" | "addEventListener"): never =>
    (name === "aborted"
        ? Object.assign(getter("aborted"), { addEventListener: () => undefined })
        : { aborted: false, addEventListener: fail }) as never;
const proxy = (target: object): never => new Proxy(target, traps) as never;
const query = () => runtime.fromTable(people).groupBy({ keys: ["id"] });
const rightSide = () => ({ left: runtime.fromTable(people), right: runtime.fromTable(people) });
const batches = () => (async function* () {})();

type Call = () => unknown;
const getters: [string, string, Call][] = [
    ["openRuntime", "threads", () => openRuntime(getter("threads"))],
    ["openRuntime, memory", "memory.host", () => openRuntime({ memory: getter("host") })],
    ["openRuntime, debug", "debug.gpu", () => openRuntime({ debug: getter("gpu") })],
    ["fromArrowFile", "name", () => runtime.fromArrowFile("a.arrow", getter("name"))],
    ["fromTable", "name", () => runtime.fromTable(people, getter("name"))],
    ["fromBatches", "rows", () => runtime.fromBatches(people.schema, batches, getter("rows"))],
    ["join", "on", () => runtime.join({ ...rightSide(), on: getter("id") })],
    ["join of a relation", "options", () => runtime.fromTable(people).join(runtime.fromTable(people), getter("on"))],
    ["join, hints", "hints.resultRows", () => runtime.join({ ...rightSide(), on: "id", hints: getter("resultRows") })],
    ["groupBy", "keys", () => runtime.groupBy(runtime.fromTable(people), getter("keys"))],
    ["groupBy, aggregates", "aggregates", () => query().groupBy({ aggregates: { n: getter("count") } })],
    ["generate", "rows", () => runtime.generate(getter("rows"), "memory")],
    ["generate, target", "target", () => runtime.generate({ rows: 1 }, getter("path"))],
    ["explain", "result", () => query().explain(getter("result"))],
    ["count", "signal", () => query().count(getter("signal"))],
    ["count, signal", "signal", () => query().count({ signal: signal("aborted") })],
    ["count, listener", "signal", () => query().count({ signal: signal("addEventListener") })],
    ["batches", "batchRows", () => query().batches(getter("batchRows"))],
    ["toTable", "onProgress", () => query().toTable(getter("onProgress"))],
    ["toArrowFile", "overwrite", () => query().toArrowFile("b.arrow", getter("overwrite"))]
];

const proxies: [string, string, Call][] = [
    ["openRuntime", "options", () => openRuntime(proxy({}))],
    ["fromArrowFile, path", "path", () => runtime.fromArrowFile(proxy(["a.arrow"]))],
    ["fromArrowFile, URL", "path", () => runtime.fromArrowFile(proxy(new URL("file:///a.arrow")))],
    ["fromTable", "table", () => runtime.fromTable(proxy(people))],
    ["fromTable, batches", "table", () => runtime.fromTable(proxy(people.batches))],
    ["fromBatches, schema", "schema", () => runtime.fromBatches(proxy(people.schema), batches)],
    ["join", "options", () => runtime.join(proxy({}))],
    ["join, left", "options", () => runtime.join({ ...rightSide(), left: proxy({}), on: "id" })],
    ["join, select", "select", () => runtime.join({ ...rightSide(), on: "id", select: proxy(["id"]) })],
    ["groupBy", "options", () => query().groupBy(proxy({}))],
    ["groupBy, input", "input", () => runtime.groupBy(proxy({}), { keys: [] })],
    ["groupBy, keys", "keys", () => query().groupBy({ keys: proxy(["id"]) })],
    ["generate", "options", () => runtime.generate(proxy({}), "memory")],
    ["generate, payload", "payload", () => runtime.generate({ rows: 1, payload: proxy([]) }, "memory")],
    ["explain", "options", () => query().explain(proxy({}))],
    ["batches", "options", () => query().batches(proxy({}))],
    ["toArrowFile, path", "path", () => query().toArrowFile(proxy(new URL("file:///a.arrow")))]
];

describe("what an argument raises when it is read is an INVALID_ARGUMENT with that as its cause", () => {
    test.each(getters)("getter of %s: %s", async (_, option, call) => {
        const error = await expectError(async () => call(), "INVALID_ARGUMENT", /boom/);
        expect(error).toBeInstanceOf(SpillwayError);
        expect(error.details["option"]).toBe(option);
        expect(error.cause).toBe(boom);
    });

    test.each(proxies)("proxy of %s: %s", async (_, option, call) => {
        const error = await expectError(async () => call(), "INVALID_ARGUMENT", /boom/);
        expect(error.details["option"]).toBe(option);
        expect(error.cause).toBe(boom);
    });

    test("revoked proxies too", async () => {
        const { proxy: gone, revoke } = Proxy.revocable([], {});
        revoke();
        await expectError(() => openRuntime(gone as never), "INVALID_ARGUMENT", /options/);
        await expectError(async () => runtime.fromTable(gone), "INVALID_ARGUMENT", /table/);
        await expectError(async () => query().groupBy({ keys: gone as never }), "INVALID_ARGUMENT", /keys/);
    });

    test("each option is read once", async () => {
        let reads = 0;
        const options = {
            get batchRows() {
                return ++reads === 1 ? 2 : NaN;
            }
        };
        const rows: number[] = [];
        for await (const batch of query().batches(options)) rows.push(batch.numRows);
        expect(rows.reduce((sum, count) => sum + count, 0)).toBe(3);
        expect(reads).toBe(1);
    });
});

describe("half of a surrogate pair in a name is refused, not changed to U+FFFD", () => {
    const half = "a\ud800";
    const whole = "a\ud83d\ude00";
    const named = (name: string) => new Table({ [name]: people.getChild("id")!, age: people.getChild("age")! });
    const nested = new Schema([new Field("s", new Struct([new Field(half, new Int32())]), true)]);

    test.each<[string, string, Call]>([
        ["fromTable", "table", () => runtime.fromTable(named(half))],
        ["fromBatches", "schema", () => runtime.fromBatches(named(half).schema, batches)],
        ["fromBatches, nested", "schema", () => runtime.fromBatches(nested, batches)],
        ["on", "on", () => runtime.join({ ...rightSide(), on: half as never })],
        ["on, array", "on[1]", () => runtime.join({ ...rightSide(), on: ["id", half] as never })],
        ["on, left", "on", () => runtime.join({ ...rightSide(), on: { [half]: "id" } as never })],
        ["on, right", "on.id", () => runtime.join({ ...rightSide(), on: { id: half } as never })],
        ["select", "select[0]", () => runtime.join({ ...rightSide(), on: "id", select: [half] as never })],
        ["suffix", "suffix", () => runtime.join({ ...rightSide(), on: "id", suffix: half })],
        ["keys", "keys[0]", () => query().groupBy({ keys: [half] as never })],
        ["aggregates", "aggregates", () => query().groupBy({ aggregates: { [half]: { count: "*" } } })],
        [
            "a column of an aggregate",
            "aggregates.n.sum",
            () => query().groupBy({ aggregates: { n: { sum: half as never } } })
        ],
        ["generate, key", "key.name", () => runtime.generate({ rows: 1, key: { name: half } }, "memory")],
        [
            "generate, payload",
            "payload[0].name",
            () => runtime.generate({ rows: 1, payload: [{ name: half }] }, "memory")
        ],
        ["toArrowFile, path", "path", () => query().toArrowFile(`${sandbox.folder}/${half}.arrow`)]
    ])("%s", async (_, option, call) => {
        const error = await expectError(async () => call(), "INVALID_ARGUMENT", /a\\ud800/);
        expect(error.details["option"]).toBe(option);
    });

    test("whole pairs are kept", async () => {
        const table = await runtime
            .fromTable(named(whole))
            .groupBy({ keys: [whole], aggregates: { [`n${whole}`]: { count: "*" } } })
            .toTable();
        expect(table.schema.names).toEqual([whole, `n${whole}`]);
        expect(table.numRows).toBe(3);
    });
});
