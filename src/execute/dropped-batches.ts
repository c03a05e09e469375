// SPDX-License-Identifier: Apache-2.0
import { setImmediate, setTimeout } from "node:timers/promises";
import v8 from "node:v8";
import vm from "node:vm";
import { mebibyte } from "../model/sizes.js";
import type { NativeDelivered } from "../native/binding.js";

/**
 * Batches that may lie dropped but uncollected beyond what the budget leaves. Of the 128 MiB beside the budget Node and
 * the code take 70, V8's objects and malloc's arenas 20 to 40. Collecting this often costs nothing that shows: 8 M rows
 * by `batches()` in 8 MiB take as long as without, since blocks that come back early need not be mapped anew.
 */
const waitingBytesMax = 8 * mebibyte;
/**
 * Batches get this share of what the engine leaves of its budget: buffers below 64 KiB are malloc's, whose arenas keep
 * some of what is freed. 16 threads in 32 MiB used 7 MiB, and with all of the rest the process came to 160 of 160 MiB.
 */
const unusedShare = 0.5;
/**
 * More is collected however much the budget leaves: V8 does so when an ArrayBuffer is made, which batches do not need.
 * A young collection takes 1 ms where all cores are busy: of 6.4 GB of batches, 24 take 24 ms.
 */
const unusedBytesMax = 512 * mebibyte;
/**
 * For each such share of the room young objects are collected ahead, and nobody waits for what V8 frees on other
 * threads. A reader that came to the end of the room waited 1 to 17 ms, eleven times for 1.7 GB of batches on two busy
 * cores.
 */
const aheadShare = 0.5;
/**
 * V8 lets its young objects grow to 16 MiB (from Node 24 on 32), twice, since it copies those that stay. Rows read as
 * objects fill that. A reader whose rows are objects needs 5 ms to fill this much; collecting it takes 0.4 ms.
 */
const youngBytesMax = 4 * mebibyte;
/**
 * Objects that happen to be alive at two young collections become old ones, which V8 leaves until its heap has doubled:
 * in 500 queries in 8 MiB their space grew to 25 MiB, for 12 in use. Beyond this growth they are collected.
 */
const oldGrowth = 1.25;
const oldGrowthBytes = 4 * mebibyte;
/** Where the budget leaves that much, V8's heap may grow as it likes. */
const amplyUnusedBytes = 64 * mebibyte;
/** What a reader keeps is collected for again when there is half as much more, not for every batch. */
const keptGrowth = 1.5;
/** V8 frees what it has collected on other threads, which wait for a core: 0.3 to 6 ms on two busy ones. */
const pausesMs: readonly number[] = [0, 0, 0, 0, 1, 1, 1, 1];

export type Collection = "young" | "full";

type Collector = (options?: { type: "minor" }) => void;

/**
 * V8's collector. Node-API has no call for it, and V8 hides it from scripts unless a flag was set when their context
 * was made. The flag is set for the one context that is made here and then withdrawn: no other context sees `gc`, and
 * V8's compile caches, which are valid for one set of flags, stay so. What an ArrayBuffer of 32 MiB that nobody touches
 * sets off as well without any flag, V8 of Node 24 no longer does.
 */
function findCollector(): Collector | null {
    if (typeof globalThis.gc === "function") return globalThis.gc as Collector;
    try {
        v8.setFlagsFromString("--expose-gc");
        return vm.runInNewContext("gc") as Collector;
    } catch {
        return null; // an embedder without it: batches stay until V8 collects them by itself
    } finally {
        v8.setFlagsFromString("--no-expose-gc");
    }
}

let collector: Collector | null | undefined;

function collectWithV8(collection: Collection): void {
    if (collector === undefined) collector = findCollector();
    // Without options: V8 of Node 20 takes any options, `type: "major"` too, for a young collection.
    if (collection === "full") collector?.();
    else collector?.({ type: "minor" });
}

/** Collects what nobody refers to any more, and lets the finalizers of native objects run. */
export async function collectGarbage(): Promise<void> {
    collectWithV8("full");
    for (let turn = 0; turn < 2; turn++) await setImmediate();
}

interface HeapUse {
    youngBytes: number;
    oldBytes: number;
}

/** 1 us. */
function heapUse(): HeapUse {
    const spaces = v8.getHeapSpaceStatistics();
    const used = (name: string): number => spaces.find(({ space_name }) => space_name === name)?.space_used_size ?? 0;
    return { youngBytes: used("new_space"), oldBytes: used("old_space") };
}

/** What batches may take that lie dropped but uncollected. */
const roomBytes = ({ unusedBytes }: NativeDelivered): number =>
    waitingBytesMax + Math.min(unusedBytes * unusedShare, unusedBytesMax);

/**
 * Batches that the reader has dropped stay in memory until V8 collects them, which it does late: it sees small objects,
 * not the blocks behind them. Here V8 is made to, when they no longer fit the memory beside the budget. Where the
 * budget has room, young objects alone are collected, for each half of it. One per JS thread, as V8's heap is.
 */
export class DroppedBatches {
    /** Alive after the last full collection: the reader's, which is outside of the promise. */
    #keptBytes = 0;
    /** Old objects when there were fewest since the last full collection. */
    #oldBytes = Infinity;
    /** Alive when there was least since the last collection ahead. */
    #aheadBytes = Infinity;
    #collecting: Promise<void> | undefined;
    /** What tables have that are being made: none of it was dropped, and their budgets count it. */
    #tableBytes = 0;

    public constructor(
        private readonly collect: (collection: Collection) => void = collectWithV8,
        private readonly heap: () => HeapUse = heapUse
    ) {}

    /** A table that is being made has got so many bytes more, or fewer: it is its reader's now, or is dropped. */
    public tableGrew(bytes: number): void {
        this.#tableBytes += bytes;
    }

    /** What is alive of all runtimes of this thread, without those tables. */
    public withoutTables(aliveBytes: number): number {
        return Math.max(0, aliveBytes - this.#tableBytes);
    }

    /**
     * Before the next batch is handed over: is room to be made first? The usual answer, no, costs 2 us, and 1 ms where
     * young objects are collected ahead.
     */
    public wantRoom(memory: () => NativeDelivered): boolean {
        const now = memory();
        if (!this.#fits(now)) return true;
        if (now.unusedBytes < amplyUnusedBytes) this.#keepHeapSmall();
        else this.#collectAhead(now);
        return false;
    }

    /** Several readers at a time wait for the same collection. */
    public async makeRoom(memory: () => NativeDelivered): Promise<void> {
        if (this.#collecting !== undefined) return await this.#collecting;
        this.#collecting = this.#collectUntilItFits(memory);
        try {
            await this.#collecting;
        } finally {
            this.#collecting = undefined;
        }
    }

    #keepHeapSmall(): void {
        const { youngBytes, oldBytes } = this.heap();
        this.#oldBytes = Math.min(this.#oldBytes, oldBytes);
        if (oldBytes > this.#oldBytes * oldGrowth + oldGrowthBytes) {
            this.collect("full");
            this.#oldBytes = this.heap().oldBytes;
        } else if (youngBytes > youngBytesMax) {
            this.collect("young");
        }
    }

    #collectAhead(now: NativeDelivered): void {
        this.#aheadBytes = Math.min(this.#aheadBytes, now.aliveBytes);
        if (now.aliveBytes - this.#aheadBytes <= roomBytes(now) * aheadShare) return;
        this.collect("young");
        this.#aheadBytes = now.aliveBytes;
    }

    /** Beside what the reader keeps, in a share of the room. */
    #fits(now: NativeDelivered, share = 1): boolean {
        const { aliveBytes } = now;
        this.#keptBytes = Math.min(this.#keptBytes, aliveBytes);
        return aliveBytes <= this.#keptBytes * keptGrowth + Math.max(waitingBytesMax, roomBytes(now) * share);
    }

    /**
     * A young collection takes 1 ms, a full one 8; that one is for batches that V8 has seen twice, read slowly. It also
     * tells what the reader keeps: with 512 MiB kept and room for 520, a young one for every second batch of 4 MiB
     * freed just enough and said nothing of it (2^24 rows of a join 1.8 s, not 0.6).
     */
    async #collectUntilItFits(memory: () => NativeDelivered): Promise<void> {
        for (const collection of ["young", "full"] as const) {
            this.collect(collection);
            for (const pause of pausesMs) {
                await (pause === 0 ? setImmediate() : setTimeout(pause));
                if (this.#fits(memory(), aheadShare)) return;
            }
        }
        this.#keptBytes = memory().aliveBytes;
    }
}

export const droppedBatches = new DroppedBatches();
