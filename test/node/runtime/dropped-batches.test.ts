// SPDX-License-Identifier: Apache-2.0
// When V8 is made to collect what readers of batches have dropped.
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { DroppedBatches } from "../../../src/execute/dropped-batches.js";

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

test("few batches, or a budget with room for them, need no collection", async () => {
    const few = reader(7);
    await few.makeRoom();
    const many = reader(200);
    many.state.unused = 1000;
    await many.makeRoom();
    expect([...few.collections, ...many.collections]).toEqual([]);
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

test("a young collection is asked for where young objects are many, and of V8's own heap by default", async () => {
    const collections: string[] = [];
    const dropped = new DroppedBatches((collection) => collections.push(collection));
    const ample = () => ({ aliveBytes: 0, unusedBytes: 0 });
    dropped.wantRoom(ample); // the old objects there are
    const held: object[] = [];
    for (let i = 0; i < 40 && collections.length === 0; i++) {
        for (let j = 0; j < 2000; j++) held.push({ i, j, text: `${i} ${j}` });
        dropped.wantRoom(ample);
    }
    expect(collections.length).toBeGreaterThan(0);
    expect(held.length).toBeGreaterThan(0);
});
