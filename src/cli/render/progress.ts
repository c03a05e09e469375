// SPDX-License-Identifier: Apache-2.0
import type { Progress } from "../../index.js";
import { printable } from "../../printable.js";
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

// The widest that fits: in steps, so that the bar does not tremble with every digit behind it.
const barWidths = [24, 16, 8];
const columnsDefault = 80;
// A terminal is read by a person: more than ten frames a second only costs time.
const frameMs = 100;

/** What is going on, the most important first. */
function describe(event: ProgressEvent): string[] {
    const parts = [printable(event.phase)];
    if (event.rows > 0) parts.push(`${formatRough(event.rows)} rows`);
    if (event.rowsOut > 0) parts.push(`${formatRough(event.rowsOut)} out`);
    if (event.spilledBytes > 0) parts.push(`${formatBytes(event.spilledBytes)} spilled`);
    return parts;
}

function bar(fraction: number, width: number): string {
    const filled = Math.round(Math.min(1, Math.max(0, fraction)) * width);
    return `${"█".repeat(filled)}${"░".repeat(width - filled)}`;
}

/** One line of at most `width` characters: the bar gets shorter, then parts are left out, and none is ever cut. */
function barLine(event: ProgressEvent, width: number): string {
    const share = formatPercent(event.fraction).padStart(5);
    const eta = event.etaMs == null ? [] : [`ETA ${formatDuration(event.etaMs)}`];
    const parts = describe(event);
    for (;;) {
        const text = `${share}  ${[...parts, ...eta].join(" · ")}`;
        const fitting = barWidths.find((candidate) => candidate + 1 + text.length <= width);
        if (fitting !== undefined) return `${bar(event.fraction, fitting)} ${text}`;
        if (parts.pop() === undefined) return text.length <= width ? text : share.slice(0, Math.max(0, width));
    }
}

/** A bar with ETA, redrawn in place. */
export function terminalProgress(stream: ProgressStream, now: () => number = Date.now): ProgressRenderer {
    let lastFrame = -Infinity;
    let drawn = false;
    return {
        update(event) {
            if (now() - lastFrame < frameMs) return;
            lastFrame = now();
            // Some terminals say 0 columns when they do not know.
            stream.write(`\r\x1b[2K${barLine(event, (stream.columns || columnsDefault) - 1)}`);
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
            stream.write(`${formatPercent(reached / 10).padStart(5)}  ${describe(event).join(" · ")}${eta}\n`);
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
