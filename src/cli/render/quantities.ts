// SPDX-License-Identifier: Apache-2.0

const byteUnits = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** Three significant digits, without digits that carry nothing: 1.5 GiB, 24 MiB, 512 B. */
export function formatBytes(bytes: number): string {
    let value = bytes;
    let unit = 0;
    while (value >= 1023.5 && unit < byteUnits.length - 1) {
        value /= 1024;
        unit++;
    }
    const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
    return `${trimZeros(value.toFixed(digits))} ${byteUnits[unit]}`;
}

/** Digits in groups of three: 150,000,000. */
export function formatCount(count: number | bigint): string {
    return count.toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** 12.3 M rows and the like, for lines where the size matters and the digits do not. */
export function formatRough(count: number): string {
    for (const [size, unit] of [
        [1e9, "G"],
        [1e6, "M"],
        [1e3, "k"]
    ] as const) {
        if (count < size) continue;
        const value = count / size;
        return `${trimZeros(value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0))} ${unit}`;
    }
    return trimZeros(count.toFixed(count < 10 ? 1 : 0));
}

/** 85 ms, 1.24 s, 3 min 05 s, 2 h 07 min. */
export function formatDuration(milliseconds: number): string {
    if (milliseconds < 10) return `${trimZeros(milliseconds.toFixed(1))} ms`;
    if (milliseconds < 999.5) return `${milliseconds.toFixed(0)} ms`;
    const seconds = milliseconds / 1000;
    if (seconds < 59.95) return `${seconds.toFixed(seconds < 9.995 ? 2 : 1)} s`;
    const whole = Math.round(seconds);
    const pad = (value: number): string => value.toString().padStart(2, "0");
    if (whole < 3600) return `${Math.floor(whole / 60)} min ${pad(whole % 60)} s`;
    return `${Math.floor(whole / 3600)} h ${pad(Math.floor((whole % 3600) / 60))} min`;
}

export function formatPercent(share: number): string {
    return `${(share * 100).toFixed(0)} %`;
}

function trimZeros(text: string): string {
    return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}
