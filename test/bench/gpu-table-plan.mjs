// SPDX-License-Identifier: Apache-2.0
// The arithmetic of joins with a table that is spread over GPU memory and that of the host (cuda/baseline_join): which
// part of it lies where, and what passes the link for it. Only built-in modules: a GPU machine may have no others.

const mib = 2 ** 20;
// As cuda/baseline_join and cuda/tier have them.
const stripeBytes = 16 * mib;
const reserveBytes = 64 * mib;
const reservedChunks = 4;
const streamedChunks = 2;
const leastSlots = 64;
const sectorBytes = 32; // what a GPU reads of the host's memory at least

const sum = (values) => values.reduce((total, value) => total + value, 0);
const wholeWords = (bytes) => 4 * Math.ceil(bytes / 4);
const divisor = (a, b) => (b === 0 ? a : divisor(b, a % b));

function tableOf({ workload, options = {} }, perfect) {
    const columns = sum(workload.payload_bytes.build);
    if (perfect) {
        return { slots: workload.build_rows, slotBytes: wholeWords(workload.key_bytes + columns) - workload.key_bytes };
    }
    const percent = Number(options["load-percent"] ?? 50);
    const slots = Math.max(leastSlots, Math.floor((workload.build_rows * 100) / percent) + 1);
    return { slots, slotBytes: wholeWords(workload.key_bytes + columns) };
}

/** The share of the stripes for which GPU memory has no room: beside chunks, a bit per slot and a reserve. */
function farShare({ workload, sizes, options = {} }, { slots, slotBytes }) {
    const [device, host] = ["device-stripes", "host-stripes"].map((name) => Number(options[name] ?? 0));
    if (device + host > 0) return host / (device + host);
    const { key_bytes, payload_bytes } = workload;
    const rowBytes = Math.max(...["build", "probe"].map((side) => wholeWords(key_bytes + sum(payload_bytes[side]))));
    const chunks = (streamedChunks + reservedChunks) * sizes.chunk_rows * rowBytes;
    const room = workload.memory_limit_bytes - reserveBytes - chunks - slots / 8;
    const stripes = Math.ceil((slots * slotBytes) / stripeBytes);
    return stripes === 0 ? 0 : 1 - Math.min(stripes, Math.max(0, Math.floor(room / stripeBytes))) / stripes;
}

/** Sectors of a run of slots anywhere, of which each passes the link once. */
const sectorsOf = (slots, slotBytes) =>
    (slots * slotBytes + sectorBytes - divisor(sectorBytes, slotBytes)) / sectorBytes;

/**
 * Sectors that a probe row reads: one slot of an array where it has a partner, as the others are told by bits in GPU
 * memory. A walk through a table goes from the key's own slot to the first one that is not taken, on past a partner:
 * ((1 / (1 - a)^2 - 1) / 2 slots at load a (Knuth's unsuccessful search, less the last one), and of a key that is there
 * its own and the run behind it, a / (1 - a), as well.
 */
function sectorsOfProbe({ slots, slotBytes }, { build_rows, match_ratio }, perfect) {
    if (perfect) return match_ratio * sectorsOf(1, slotBytes);
    const load = build_rows / slots;
    const missed = (1 / (1 - load) ** 2 - 1) / 2;
    const found = missed + 1 + load / (1 - load);
    // A walk that begins at an empty slot reads nothing.
    const unmatched = load * sectorsOf(missed / load, slotBytes);
    return match_ratio * sectorsOf(found, slotBytes) + (1 - match_ratio) * unmatched;
}

/**
 * Bytes by phase and direction; inputs stream in beside the accesses to the table, of which writes are slots. undefined
 * where caches would decide (frequent keys, repeated ones) or rows are looked up several times (results of rows).
 */
export function tablePhases(record, perfect) {
    const { workload, sizes } = record;
    const { build_rows, probe_rows, key_bytes, payload_bytes, zipf, result, distinct_keys } = workload;
    const limited = workload.memory_limit_bytes !== undefined && sizes.chunk_rows !== undefined;
    if (!limited || zipf > 0 || result === "rows" || distinct_keys !== undefined) return undefined;
    const table = tableOf(record, perfect);
    const far = farShare(record, table);
    const reads = table.slotBytes === 0 ? 0 : sectorsOfProbe(table, workload, perfect) * sectorBytes;
    const rowBytes = (side) => key_bytes + sum(payload_bytes[side]);
    return {
        build: {
            inputs: build_rows * rowBytes("build"),
            back: 0,
            spilled: build_rows * far * table.slotBytes,
            result: 0
        },
        probe: { inputs: probe_rows * rowBytes("probe"), back: probe_rows * far * reads, spilled: 0, result: 0 },
        spilled: { inputs: 0, back: 0, spilled: 0, result: 0 }
    };
}
