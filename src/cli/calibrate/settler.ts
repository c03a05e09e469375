// SPDX-License-Identifier: Apache-2.0
// Whether a machine is quiet enough to be measured, and measuring until times settle.
import { readFileSync } from "node:fs";

/** When a measurement is settled: its three least values lie as near to each other as this. */
const alike = 3;
const spreadMax = 0.05;
// Times below this are the clock's and the event loop's.
const spreadMsMax = 0.02;
// Who has not settled by then is given up.
const limitMs = 3000;
const runsMax = 100;

/**
 * Repeats measurements until they settle. Other programs make a run slower, none makes it faster: what counts is the
 * least, as soon as two others come close to it.
 */
export class Settler {
    /** Steps of which a figure is doubtful: it did not settle, or did not stand out of the noise. */
    public readonly doubtful = new Set<string>();
    #step = "";

    /** `now`: milliseconds of a clock. */
    public constructor(private readonly now: () => number = () => performance.now()) {}

    public begin(step: string): void {
        this.#step = step;
    }

    /** A figure of this step is not what it should be. */
    public doubt(): void {
        this.doubtful.add(this.#step);
    }

    /** The run with the least of `ms`. */
    public async least<T>(run: () => Promise<T>, ms: (result: T) => number): Promise<T> {
        const start = this.now();
        const found: { result: T; ms: number }[] = [];
        for (let runs = 1; ; runs++) {
            const result = await run();
            found.push({ result, ms: ms(result) });
            found.sort((one, other) => (one.ms === other.ms ? 0 : one.ms - other.ms)); // Infinity less itself is NaN
            found.length = Math.min(found.length, alike);
            if (found.length < alike) continue;
            const [least, most] = [found[0]!.ms, found.at(-1)!.ms];
            if (most <= Math.max(least * (1 + spreadMax), least + spreadMsMax)) break;
            if (runs < runsMax && this.now() - start < limitMs) continue;
            this.doubt();
            break;
        }
        return found[0]!.result;
    }
}

/** Processor time of the processors that this process may use, in milliseconds since the machine has started. */
export interface CpuTimes {
    readonly busyMs: number;
    readonly totalMs: number;
}

const tickMs = 10; // of /proc/stat, on every Linux

/** Numbers of a list such as "0-3,8". */
function cpuNumbers(list: string): Set<number> {
    const numbers = new Set<number>();
    for (const [, first, last = first] of list.matchAll(/(\d+)(?:-(\d+))?/g)) {
        for (let cpu = Number(first); cpu <= Number(last); cpu++) numbers.add(cpu);
    }
    return numbers;
}

/** From the texts of /proc/stat and /proc/self/status; null where they do not tell. */
export function cpuTimes(stat: string, status: string): CpuTimes | null {
    const allowed = cpuNumbers(/^Cpus_allowed_list:\s*(.*)$/m.exec(status)?.[1] ?? "");
    let [busyMs, totalMs] = [0, 0];
    for (const [, cpu, text] of stat.matchAll(/^cpu(\d+) (.*)$/gm)) {
        if (!allowed.has(Number(cpu))) continue;
        // user nice system idle iowait irq softirq steal; what follows is part of user and nice.
        const ticks = text!.trim().split(/\s+/).slice(0, 8).map(Number);
        const total = ticks.reduce((sum, one) => sum + one, 0);
        totalMs += total * tickMs;
        busyMs += (total - (ticks[3] ?? 0) - (ticks[4] ?? 0)) * tickMs;
    }
    return totalMs > 0 ? { busyMs, totalMs } : null;
}

/** The share of the processors that other programs took between two times, while this process took `ownMs` of it. */
export function othersShare(before: CpuTimes | null, after: CpuTimes | null, ownMs: number): number | null {
    if (before === null || after === null || after.totalMs <= before.totalMs) return null;
    const others = after.busyMs - before.busyMs - ownMs;
    return Math.min(1, Math.max(0, others / (after.totalMs - before.totalMs)));
}

/** Begins to watch what other programs take; the function tells their share so far. */
export function watchOthers(): () => number | null {
    const read = (path: string): string => {
        try {
            return readFileSync(path, "latin1");
        } catch {
            return ""; // no /proc: nobody tells
        }
    };
    const times = (): CpuTimes | null => cpuTimes(read("/proc/stat"), read("/proc/self/status"));
    const [before, own] = [times(), process.cpuUsage()];
    return () => {
        const { user, system } = process.cpuUsage(own);
        return othersShare(before, times(), (user + system) / 1000);
    };
}

// Others may use this share of all processors: one of sixteen makes hardly any difference, one of four does.
const othersMax = 0.1;

/** Why the figures may be wrong, in sentences; empty where nothing speaks against them. */
export function doubts(others: number | null, doubtful: Iterable<string>): string[] {
    const steps = [...doubtful];
    const lines: string[] = [];
    if (others !== null && others > othersMax) {
        lines.push(`The machine was busy: other programs took ${Math.round(others * 100)} % of its processors.`);
    }
    if (steps.length > 0) lines.push(`Times of these steps did not settle or were lost in noise: ${steps.join(", ")}.`);
    return lines;
}
