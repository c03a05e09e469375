// SPDX-License-Identifier: Apache-2.0
import { TimeUnit, type Time, type Timestamp } from "apache-arrow";

const unitsPerSecond: Record<number, bigint> = {
    [TimeUnit.SECOND]: 1n,
    [TimeUnit.MILLISECOND]: 1_000n,
    [TimeUnit.MICROSECOND]: 1_000_000n,
    [TimeUnit.NANOSECOND]: 1_000_000_000n
};

const secondsPerDay = 86_400n;
// What JavaScript's Date holds; Arrow's dates reach 60 times, and its timestamps a million times, further.
const dateDaysMax = 100_000_000n;

/** Rounds towards the past: what lies before 1970 is negative. */
export function floorDivide(value: bigint, divisor: bigint): bigint {
    const quotient = value / divisor;
    return value < 0n && quotient * divisor !== value ? quotient - 1n : quotient;
}

/** Year, month and day in the proleptic Gregorian calendar, whose 400 years have 146,097 days. */
function civil(days: bigint): [year: bigint, month: bigint, day: bigint] {
    const shifted = days + 719_468n; // counted from 0000-03-01, so that a leap day ends its year
    const era = floorDivide(shifted, 146_097n);
    const dayOfEra = shifted - era * 146_097n;
    const yearOfEra = (dayOfEra - dayOfEra / 1_460n + dayOfEra / 36_524n - dayOfEra / 146_096n) / 365n;
    const dayOfYear = dayOfEra - (365n * yearOfEra + yearOfEra / 4n - yearOfEra / 100n);
    const monthFromMarch = (5n * dayOfYear + 2n) / 153n;
    const day = dayOfYear - (153n * monthFromMarch + 2n) / 5n + 1n;
    const month = monthFromMarch < 10n ? monthFromMarch + 3n : monthFromMarch - 9n;
    return [yearOfEra + era * 400n + (month <= 2n ? 1n : 0n), month, day];
}

function pad(value: bigint, digits: number): string {
    return value.toString().padStart(digits, "0");
}

/** ISO 8601 date; years outside of 0 .. 9999 have a sign and six digits or more, as `Date` writes them. */
export function dayText(days: bigint): string {
    if (days >= -dateDaysMax && days <= dateDaysMax) {
        return new Date(Number(days * secondsPerDay) * 1000).toISOString().split("T")[0]!;
    }
    const [year, month, day] = civil(days);
    return `${year < 0n ? "-" : "+"}${pad(year < 0n ? -year : year, 6)}-${pad(month, 2)}-${pad(day, 2)}`;
}

/** Time of day or, of a number beyond a day, that many hours: "13:05:09.250", with all digits of the unit. */
function clockText(ticks: bigint, perSecond: bigint): string {
    const seconds = ticks / perSecond;
    const clock = [seconds / 3600n, (seconds / 60n) % 60n, seconds % 60n].map((part) => pad(part, 2)).join(":");
    return perSecond === 1n ? clock : `${clock}.${pad(ticks % perSecond, perSecond.toString().length - 1)}`;
}

/** ISO 8601 time of the exact stored integer; what lies before midnight, which no sound file has, gets a sign. */
export function timeText(ticks: bigint, type: Time): string {
    const perSecond = unitsPerSecond[type.unit]!;
    return ticks < 0n ? `-${clockText(-ticks, perSecond)}` : clockText(ticks, perSecond);
}

/** ISO 8601 text of the exact stored integer, with all digits of its unit; "Z" only where the type has a zone. */
export function timestampText(ticks: bigint, type: Timestamp): string {
    const perSecond = unitsPerSecond[type.unit]!;
    const perDay = perSecond * secondsPerDay;
    const days = floorDivide(ticks, perDay);
    return `${dayText(days)}T${clockText(ticks - days * perDay, perSecond)}${type.timezone ? "Z" : ""}`;
}
