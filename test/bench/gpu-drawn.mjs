// SPDX-License-Identifier: Apache-2.0
// Workloads that are drawn at random from a seed: shapes beside those that a list names, for models to be fitted to and
// judged by. Only built-in modules: a GPU machine may have no others.

/** A generator of numbers from 0 below 1 (Mulberry32, by Tommy Ettinger); the same on every machine. */
export function randomShares(seed) {
    let state = Math.imul(seed, 0x9e3779b9) >>> 0;
    return () => {
        state = (state + 0x6d2b79f5) >>> 0;
        let mixed = Math.imul(state ^ (state >>> 15), state | 1);
        mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
        return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
    };
}

/** What inputs and result may take together, and the rows of a result: a second or two for all algorithms. */
const bytesMax = 20e9;
const resultRowsMax = 2 ** 28;
const leastRows = 2 ** 12;

/** Draws of one cell. `whole`: rows are powers of two, as in a grid; otherwise any number. */
function drawer(random, whole) {
    const one = (list) => list[Math.floor(random() * list.length)];
    const bits = (from, to) => {
        const drawn = from + random() * (to - from);
        return whole ? Math.round(drawn) : drawn;
    };
    const widths = (counts, sizes) => {
        const [count, of] = [one(counts), one(sizes)];
        return Array.from({ length: count }, () => one(of));
    };
    return { one, bits, widths };
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

function described(rows) {
    const bits = Math.log2(rows);
    if (Number.isInteger(bits)) return `2^${bits}`;
    return rows >= 1e6 ? `${(rows / 1e6).toPrecision(3)} M` : String(rows);
}

/** [4, 4, 8] as "4 x2 8" */
function widthsText(widths) {
    const runs = [];
    for (const width of widths) {
        const last = runs.at(-1);
        if (last?.width === width) last.count++;
        else runs.push({ width, count: 1 });
    }
    const text = runs.map(({ width, count }) => (count === 1 ? `${width}` : `${width}x${count}`)).join(" ");
    return text === "" ? "none" : text;
}

/** The first column names the row: 4 bytes or 8. */
const named = ([first, ...others]) => (first === undefined ? [] : [Math.max(4, first), ...others]);

/** Types of joins, named as if the left side were the probe side. */
export const joinTypes = ["inner", "left", "right", "full", "semi", "anti", "right-semi", "right-anti"];
/** Semi and anti joins have no columns of the other side in their results. */
const otherSideOf = { semi: "build", anti: "build", "right-semi": "probe", "right-anti": "probe" };

function drawJoin(random, whole, type) {
    const { one, bits, widths } = drawer(random, whole);
    const buildBits = bits(14, 27);
    const counts = [0, 1, 1, 2, 2, 3, 4, 4, 6, 8, 8, 12, 16, 24];
    const sizes = [[4], [4], [8], [1, 2, 4, 8], [4, 8]];
    const payload_bytes = { build: named(widths(counts, sizes)), probe: named(widths(counts, sizes)) };
    if (otherSideOf[type] !== undefined) payload_bytes[otherSideOf[type]] = [];
    const match_ratio = one([1, 1, 1, 0.5, 0.25, 0.0625, 0.01]);
    const zipf = one([0, 0, 0, 0, 0.5, 0.75, 1, 1.25, 1.5]);
    const multiplicity = one([1, 1, 1, 1, 1, 1, 2, 4, 32, 1000, 20_000]);
    let [build_rows, probe_rows] = [buildBits, Math.min(27.5, buildBits + bits(-2, 6))].map((b) => Math.round(2 ** b));
    let key_bytes = one([4, 4, 4, 8, 8]);
    if (build_rows / match_ratio > 2 ** 32) key_bytes = 8;
    const rowBytes = [sum(payload_bytes.build) + key_bytes, sum(payload_bytes.probe) + key_bytes];
    const [keepsBuild, keepsProbe] = [/^(right|full)/.test(type), /^(left|full|semi|anti)/.test(type)];
    const resultRows = () => {
        const pairs = probe_rows * Math.min(multiplicity, build_rows) * match_ratio;
        return pairs + (keepsBuild ? build_rows : 0) + (keepsProbe ? probe_rows : 0);
    };
    const bytes = () =>
        build_rows * rowBytes[0] + probe_rows * rowBytes[1] + resultRows() * (sum(rowBytes) - key_bytes);
    while (resultRows() > resultRowsMax || bytes() > bytesMax) {
        if (probe_rows > leastRows) probe_rows = Math.ceil(probe_rows / 2);
        else build_rows = Math.ceil(build_rows / 2);
    }
    const distinct_keys = multiplicity === 1 ? undefined : Math.max(1, Math.floor(build_rows / multiplicity));
    const about = [
        `${described(build_rows)} x ${described(probe_rows)}`,
        `${key_bytes} B keys`,
        `columns ${widthsText(payload_bytes.build)} + ${widthsText(payload_bytes.probe)}`,
        match_ratio === 1 ? "" : `match ratio ${Number((match_ratio * 100).toPrecision(3))} %`,
        zipf === 0 ? "" : `Zipf ${zipf}`,
        multiplicity === 1 ? "" : `keys ${multiplicity} times`,
        type === "inner" ? "" : type
    ];
    const given = type === "inner" ? {} : { type };
    return { about, key_bytes, payload_bytes, build_rows, probe_rows, match_ratio, zipf, distinct_keys, ...given };
}

/**
 * Groups that so many rows are expected to have of `groups` possible ones with these frequencies: what a query's sample
 * tells the planner, and plans tell the GPU. Ranks from 1,024 on are taken together in steps of a thousandth.
 */
export function groupsMet(rows, groups, zipf, hotShare = 0) {
    const ranks = function* () {
        for (let first = 1; first <= groups;) {
            const count = Math.min(groups + 1 - first, Math.max(1, Math.floor(first / 1024)));
            yield { count, frequency: (first + (count - 1) / 2) ** -zipf };
            first += count;
        }
    };
    const drawn = rows * (1 - hotShare);
    let all = 0;
    for (const { count, frequency } of ranks()) all += count * frequency;
    let met = 0;
    for (const { count, frequency } of ranks()) met -= count * Math.expm1((-drawn * frequency) / all);
    return Math.max(1, Math.round(met));
}

function drawGroupBy(random, whole) {
    const { one, bits, widths } = drawer(random, whole);
    const payload_bytes = widths([1, 1, 2, 2, 3, 4, 6, 8, 10, 16, 24], [[4], [4], [8], [4, 8]]);
    const key_bytes = one([4, 4, 4, 8, 8]);
    const aggregate = one(["sum", "max"]);
    const zipf = one([0, 0, 0, 0, 0.25, 0.5, 0.75, 1, 1.5, 2]);
    const hot_share = zipf > 0 ? 0 : one([0, 0, 0, 0.01, 0.1, 0.5, 0.99]);
    const rowBits = bits(16, 28);
    const groups = Math.round(2 ** bits(0, Math.min(26, rowBits)));
    let rows = Math.round(2 ** rowBits);
    while (rows * (sum(payload_bytes) + key_bytes) > bytesMax / 2) rows = Math.ceil(rows / 2);
    const possible = Math.min(groups, rows);
    const expected_groups = groupsMet(rows, possible, zipf, hot_share);
    const about = [
        `${described(rows)} rows`,
        `g = ${described(groups)}`,
        `${aggregate} of ${widthsText(payload_bytes)} by ${key_bytes} B`,
        zipf === 0 ? "" : `Zipf ${zipf}`,
        hot_share === 0 ? "" : `one key ${Number((hot_share * 100).toPrecision(3))} %`
    ];
    return {
        ...{ about, key_bytes, payload_bytes, rows, groups: possible, expected_groups, zipf },
        ...(hot_share === 0 ? {} : { hot_share }),
        ...(aggregate === "max" ? {} : { aggregate })
    };
}

/**
 * Cells of an operator by `drawn`: { seed, cells, whole, types }. Their names say which one of which seed they are, by
 * which useOf() tells what a model is fitted to from what it is judged by. Joins take the types in turn, two cells for
 * each, so that every type has cells to fit and cells to judge by.
 */
export function drawnWorkloads({ operator, drawn }) {
    return drawn.flatMap(({ seed, cells, whole = false, types = ["inner"] }) => {
        const random = randomShares(seed);
        return Array.from({ length: cells }, (_, number) => {
            const type = types[Math.floor(number / 2) % types.length];
            const { about, ...cell } = operator === "join" ? drawJoin(random, whole, type) : drawGroupBy(random, whole);
            const label = `${whole ? "grid" : "drawn"} ${seed}.${number}`;
            return { name: `${label}: ${about.filter((part) => part !== "").join(", ")}`, ...cell };
        });
    });
}

/** "fit" for one half of the grid's cells, "judge" for the other half and for what is no grid's; else undefined. */
export function useOf(name) {
    const [, kind, number] = /^(grid|drawn) \d+\.(\d+):/.exec(name) ?? [];
    if (kind === undefined) return undefined;
    return kind === "grid" && Number(number) % 2 === 0 ? "fit" : "judge";
}
