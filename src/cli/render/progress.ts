// SPDX-License-Identifier: Apache-2.0
import type { Progress } from "../../index.js";
import { formatBytes, formatDuration, formatPercent, formatRough } from "./quantities.js";

/** What the renderers read of the API's progress object. */
export type ProgressEvent = Pick<Progress, "phase" | "fraction" | "rows" | "rowsOut" | "spilledBytes" | "etaMs">;

/** The part of a stream that a renderer writes to. */
export interface ProgressStream {
    readonly isTTY?: boolean;
    readonly columns?: number;
    write(text: string): unknown;
}

export interface ProgressRenderer {
    update(event: ProgressEvent): void;
    /** Removes the bar; call before anything else is written. */
    end(): void;
}

const barWidth = 24;
// A terminal is read by a person: more than ten frames a second only costs time.
const frameMs = 100;

function describe(event: ProgressEvent): string {
    const parts = [event.phase];
    if (event.rows > 0) parts.push(`${formatRough(event.rows)} rows`);
    if (event.rowsOut > 0) parts.push(`${formatRough(event.rowsOut)} out`);
    if (event.spilledBytes > 0) parts.push(`${formatBytes(event.spilledBytes)} spilled`);
    return parts.join(" · ");
}

function bar(fraction: number): string {
    const filled = Math.round(Math.min(1, Math.max(0, fraction)) * barWidth);
    return `${"█".repeat(filled)}${"░".repeat(barWidth - filled)}`;
}

/** A bar with ETA, redrawn in place. */
export function terminalProgress(stream: ProgressStream, now: () => number = Date.now): ProgressRenderer {
    let lastFrame = -Infinity;
    let drawn = false;
    return {
        update(event) {
            if (now() - lastFrame < frameMs) return;
            lastFrame = now();
            const share = formatPercent(event.fraction).padStart(5);
            const eta = event.etaMs == null ? "" : ` · ETA ${formatDuration(event.etaMs)}`;
            const line = `${bar(event.fraction)} ${share}  ${describe(event)}${eta}`;
            stream.write(`\r\x1b[2K${line.slice(0, (stream.columns ?? 80) - 1)}`);
            drawn = true;
        },
        end() {
            if (drawn) stream.write("\r\x1b[2K");
            drawn = false;
        }
    };
}

/** One line whenever another tenth is done: for log files and CI. */
export function lineProgress(stream: ProgressStream): ProgressRenderer {
    let tenths = 0;
    return {
        update(event) {
            const reached = Math.floor(event.fraction * 10 + 1e-9);
            if (reached <= tenths) return;
            tenths = reached;
            const eta = event.etaMs == null || reached >= 10 ? "" : ` · ETA ${formatDuration(event.etaMs)}`;
            stream.write(`${formatPercent(reached / 10).padStart(5)}  ${describe(event)}${eta}\n`);
        },
        end() {}
    };
}

export function silentProgress(): ProgressRenderer {
    return { update() {}, end() {} };
}

export function progressFor(stream: ProgressStream, quiet: boolean): ProgressRenderer {
    if (quiet) return silentProgress();
    return stream.isTTY === true ? terminalProgress(stream) : lineProgress(stream);
}
