// SPDX-License-Identifier: Apache-2.0
// When V8 is made to collect what readers of batches have dropped.
import { setTimeout as pause } from "node:timers/promises";
import v8 from "node:v8";
import vm, { runInNewContext } from "node:vm";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { RecordBatch } from "apache-arrow";
import { DroppedBatches } from "../../../src/execute/dropped-batches.js";
import { noteRead } from "../../../src/execute/read-batches.js";

const mebibyte = 1024 * 1024;

/** Batches of a reader; `freed`: what is left of them after a collection of each kind. */
function reader(aliveMiB: number, freed: { young?: number; full?: number } = {}) {
    const collections: string[] = [];
    const state = { alive: aliveMiB, unused: 0, young: 0, old: 10 };
    const dropped = new DroppedBatches(
        (collection) => {
            collections.push(collection);
            state.alive = freed[collection] ?? state.alive;
        },
        () => ({ youngBytes: state.young * mebibyte, oldBytes: state.old * mebibyte })
    );
    const memory = () => ({ aliveBytes: state.alive * mebibyte, unusedBytes: state.unused * mebibyte });
    const makeRoom = async (): Promise<void> => {
        if (dropped.wantRoom(memory)) await dropped.makeRoom(memory);
    };
    return { collections, state, makeRoom };
}

test("8 MiB of batches need no collection, beside those that the reader keeps", async () => {
    const { collections, state, makeRoom } = reader(8);
    await makeRoom();
    expect(collections).toEqual([]);
    state.alive = 20;
    await makeRoom();
    expect(collections).toEqual(["young", "full"]);
    state.alive = 1.5 * 20 + 8;
    await makeRoom();
    expect(collections).toEqual(["young", "full"]);
});

test("few batches, or a budget with room for them, need no collection", async () => {
    const few = reader(7);
    await few.makeRoom();
    const many = reader(200);
    many.state.unused = 1000;
    await many.makeRoom();
    expect([...few.collections, ...many.collections]).toEqual([]);
});

test("where the budget has room, each half of it is collected ahead, and nobody waits", async () => {
    const { collections, state, makeRoom } = reader(0);
    state.unused = 1008; // beside 8 MiB, half of it is for batches
    await makeRoom();
    for (const [alive, collected] of [
        [256, 0],
        [257, 1],
        [400, 1], // V8 has not freed any yet
        [100, 1],
        [350, 1],
        [357, 2],
        [512, 2]
    ]) {
        state.alive = alive ?? 0;
        await makeRoom();
        expect(collections, `${alive} MiB`).toEqual(Array.from({ length: collected ?? 0 }, () => "young"));
    }
    state.alive = 513; // no room is left: these are collected in any case, and waited for
    await makeRoom();
    expect(collections).toEqual(["young", "young", "young", "full"]);
});

test("what a reader keeps just below the end of the room is found out once", async () => {
    const { collections, state, makeRoom } = reader(513, { young: 500, full: 500 });
    state.unused = 1008;
    for (let batch = 0; batch < 3; batch++) {
        state.alive = 513;
        await makeRoom();
    }
    expect(collections).toEqual(["young", "full"]);
});

test("a young collection is enough when it frees them", async () => {
    const { collections, makeRoom } = reader(20, { young: 1 });
    await makeRoom();
    expect(collections).toEqual(["young"]);
});

test("batches that outlived young collections take a full one", async () => {
    const { collections, makeRoom } = reader(20, { full: 1 });
    await makeRoom();
    expect(collections).toEqual(["young", "full"]);
});

test("what the reader keeps is not collected for again until there is half as much more", async () => {
    const { collections, state, makeRoom } = reader(20);
    await makeRoom();
    state.alive = 37;
    await makeRoom();
    expect(collections).toEqual(["young", "full"]);
    state.alive = 39;
    await makeRoom();
    expect(collections).toEqual(["young", "full", "young", "full"]);
});

test("readers at the same time share a collection", async () => {
    const { collections, makeRoom } = reader(20, { young: 1 });
    await Promise.all([makeRoom(), makeRoom(), makeRoom()]);
    expect(collections).toEqual(["young"]);
});

test("readers that come while batches are collected wait for that collection", async () => {
    const { collections, makeRoom } = reader(20, { full: 1 });
    await Promise.all([makeRoom(), makeRoom(), makeRoom()]);
    expect(collections).toEqual(["young", "full"]);
});

test("what V8 frees on another thread a little later needs no second collection", async () => {
    let alive = 20 * mebibyte;
    const collections: string[] = [];
    const dropped = new DroppedBatches((collection) => {
        collections.push(collection);
        setTimeout(() => (alive = 0), 2);
    });
    await dropped.makeRoom(() => ({ aliveBytes: alive, unusedBytes: 0 }));
    expect(collections).toEqual(["young"]);
});

test("objects made of rows are collected where the budget is full, and left alone where it is not", async () => {
    const { collections, state, makeRoom } = reader(1);
    state.young = 5;
    await makeRoom();
    state.unused = 100;
    await makeRoom();
    expect(collections).toEqual(["young"]);
    state.unused = 0;
    state.old = 20;
    await makeRoom();
    await makeRoom();
    expect(collections).toEqual(["young", "full", "young"]);
});

test("collecting leaves no trace in this context or a new one", async () => {
    let alive = 20 * mebibyte;
    const memory = () => ({ aliveBytes: (alive -= mebibyte), unusedBytes: 0 });
    await new DroppedBatches().makeRoom(memory);
    expect(alive).toBeLessThan(19 * mebibyte);
    expect([typeof globalThis.gc, runInNewContext("typeof gc")]).toEqual(["undefined", "undefined"]);
});

test("V8 really collects what nobody holds", async () => {
    // In a function of its own, so that nothing of it stays in this one's registers.
    const drop = (): WeakRef<object> => new WeakRef({ rows: new Array(1000).fill(0) });
    const dropped = drop();
    await new Promise((resolve) => setTimeout(resolve)); // a WeakRef holds its object until its turn has ended
    let asked = 0;
    await new DroppedBatches().makeRoom(() => ({ aliveBytes: 100 * mebibyte + asked++, unusedBytes: 0 }));
    expect(dropped.deref()).toBeUndefined();
    // Two collections, eight looks after each, and one at what stays.
    expect(asked).toBe(17);
});

test("a young collection frees batches that were read after a full one", async () => {
    v8.setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as (options?: { type: "minor" }) => void;
    v8.setFlagsFromString("--no-expose-gc");
    const read = (): void => noteRead({} as RecordBatch, undefined as never, [new ArrayBuffer(65536)]);
    const aliveBuffers = (): number => process.memoryUsage().arrayBuffers / 65536;
    for (let round = 0; round < 3; round++) {
        collect();
        const before = aliveBuffers();
        for (let batch = 0; batch < 64; batch++) read();
        collect({ type: "minor" });
        // V8 frees them on another thread. Whoever waits without making objects sets off no other collection.
        for (let turn = 0; turn < 20 && aliveBuffers() - before >= 32; turn++) await pause(10);
        expect(aliveBuffers() - before).toBeLessThan(32);
    }
});

describe("V8's own heap, by default", () => {
    const ample = () => ({ aliveBytes: 0, unusedBytes: 0 });
    const space = (space_name: string, mebibytes: number) =>
        ({ space_name, space_used_size: mebibytes * mebibyte }) as v8.HeapSpaceInfo;

    afterEach(() => vi.restoreAllMocks());

    test("has the spaces that are looked at", () => {
        const used = new Map(v8.getHeapSpaceStatistics().map((each) => [each.space_name, each.space_used_size]));
        expect(used.get("old_space")).toBeGreaterThan(0);
        expect(used.get("new_space")).toBeGreaterThanOrEqual(0);
    });

    test("is collected where young objects are many, or old ones have become more", () => {
        const collections: string[] = [];
        const dropped = new DroppedBatches((collection) => collections.push(collection));
        const statistics = vi.spyOn(v8, "getHeapSpaceStatistics");
        const look = (young: number, old: number): void => {
            statistics.mockReturnValue([space("code_space", 99), space("new_space", young), space("old_space", old)]);
            dropped.wantRoom(ample);
        };
        look(4, 8);
        expect(collections).toEqual([]);
        look(5, 8);
        expect(collections).toEqual(["young"]);
        look(1, 14); // a quarter more, and 4 MiB
        expect(collections).toEqual(["young"]);
        look(1, 15);
        expect(collections).toEqual(["young", "full"]);
    });

    test("that tells nothing of its spaces is left alone", () => {
        const collections: string[] = [];
        vi.spyOn(v8, "getHeapSpaceStatistics").mockReturnValue([]);
        new DroppedBatches((collection) => collections.push(collection)).wantRoom(ample);
        expect(collections).toEqual([]);
    });
});

describe("the collector", () => {
    // Each module of its own looks for the collector anew.
    const fresh = async () => {
        vi.resetModules();
        return await import("../../../src/execute/dropped-batches.js");
    };
    const kept = () => ({ aliveBytes: 100 * mebibyte, unusedBytes: 0 });

    afterEach(() => {
        vi.unstubAllGlobals();
        vi.resetModules(); // the next file may run in the same process
        vi.restoreAllMocks();
    });

    test("that a flag of Node shows is taken, for young objects first, then for all", async () => {
        const gc = vi.fn();
        vi.stubGlobal("gc", gc);
        const flags = vi.spyOn(v8, "setFlagsFromString");
        await new (await fresh()).DroppedBatches().makeRoom(kept);
        expect(gc.mock.calls).toEqual([[{ type: "minor" }], []]);
        expect(flags).not.toHaveBeenCalled();
    });

    test("is looked for once, and its flag is withdrawn", async () => {
        const flags = vi.spyOn(v8, "setFlagsFromString");
        const { DroppedBatches: Fresh } = await fresh();
        await new Fresh().makeRoom(kept);
        await new Fresh().makeRoom(kept);
        expect(flags.mock.calls).toEqual([["--expose-gc"], ["--no-expose-gc"]]);
    });

    test("that an embedder lacks is looked for once: batches stay until they are collected anyway", async () => {
        const flags = vi.spyOn(v8, "setFlagsFromString");
        const context = vi.spyOn(vm, "runInNewContext").mockImplementation(() => {
            throw new ReferenceError("gc is not defined");
        });
        const { DroppedBatches: Fresh } = await fresh();
        const dropped = new Fresh();
        expect(dropped.wantRoom(kept)).toBe(true);
        await dropped.makeRoom(kept);
        expect(dropped.wantRoom(kept)).toBe(false);
        expect(context).toHaveBeenCalledTimes(1);
        expect(flags).toHaveBeenLastCalledWith("--no-expose-gc");
    });

    test("lets finalizers of what is collected run before it says that it is done", async () => {
        const gc = vi.fn();
        vi.stubGlobal("gc", gc);
        const { collectGarbage } = await fresh();
        let finalized = false;
        gc.mockImplementation(() => setImmediate(() => setImmediate(() => (finalized = true))));
        await collectGarbage();
        expect(gc.mock.calls).toEqual([[]]);
        expect(finalized).toBe(true);
    });
});
