// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "relation/byte_words.cuh"
#include "relation/relation_policy.hpp"
#include "relation/warp_rows.cuh"

// Kernels of gather.hpp. What they move per value: the row number in order (4 or 8 bytes), a random sector of 32 bytes
// of the column (42 G/s in an H200's memory: 3.2 ms for 2^27 values), one more for each of validity bits and offsets,
// the value out in order, and a byte of presence where rows can be missing.
namespace spillway::cuda { inline namespace relation {

struct GatherSource {
    const uint8_t* values = nullptr;
    const uint64_t* offsets = nullptr;
    const uint32_t* valid = nullptr;
    const void* rows = nullptr;
    uint32_t row_width = 4;
    uint32_t mask = 0;  // of `present`
};

// Each value from the first source whose bit is present, or from none. Without `present`: from the first.
struct GatherFrom {
    GatherSource source[2];
    const uint8_t* present = nullptr;
    uint64_t count = 0;
    uint32_t width = 0;  // kFixed
};

struct PickedRow {
    int source;  // -1: none
    uint64_t row;
};

__device__ inline PickedRow pick_row(const GatherFrom& from, uint64_t i) {
    int source = 0;
    if (from.present != nullptr) {
        const uint32_t present = __ldg(&from.present[i]);
        source = (present & from.source[0].mask) != 0 ? 0 : (present & from.source[1].mask) != 0 ? 1 : -1;
    }
    if (source < 0) return {-1, 0};
    const GatherSource& of = from.source[source];
    if (of.row_width == 4) return {source, __ldg(&static_cast<const uint32_t*>(of.rows)[i])};
    return {source, __ldg(&static_cast<const unsigned long long*>(of.rows)[i])};
}

template <class Value>
__global__ void __launch_bounds__(kRelationThreads)
    gather_values(const __grid_constant__ GatherFrom from, Value* __restrict__ out) {
    for_rows(from.count, [&](uint64_t i) {
        const PickedRow picked = pick_row(from, i);
        Value value{};
        if (picked.source >= 0) {
            value = __ldg(&reinterpret_cast<const Value*>(from.source[picked.source].values)[picked.row]);
        }
        __stcs(&out[i], value);
    });
}

// Values of any other width, in units of 1 or 4 bytes: a warp copies 32 values, whose bytes lie one behind the other in
// the output, unit by unit. width * 32 fits 32 bits.
template <class Unit>
__global__ void __launch_bounds__(kRelationThreads)
    gather_units(const __grid_constant__ GatherFrom from, Unit* __restrict__ out) {
    const auto units = static_cast<uint32_t>(from.width / sizeof(Unit));
    for_warp_rows(from.count, [&](uint64_t first) {
        unsigned long long address = 0;
        if (first + lane_index() < from.count) {
            const PickedRow picked = pick_row(from, first + lane_index());
            if (picked.source >= 0) {
                const uint8_t* const values = from.source[picked.source].values;
                address = reinterpret_cast<unsigned long long>(values + picked.row * from.width);
            }
        }
        // As many steps for every lane: 32 values are a multiple of 32 units.
        for (uint32_t unit = lane_index(); unit < units * kWarpThreads; unit += kWarpThreads) {
            const uint32_t value = unit / units;
            const unsigned long long at = __shfl_sync(kFullWarp, address, static_cast<int>(value));
            if (first + value >= from.count) continue;
            const auto* const source = reinterpret_cast<const Unit*>(at);
            out[first * units + unit] = source == nullptr ? Unit{0} : __ldg(&source[unit - value * units]);
        }
    });
}

// Bytes: a row number, a random sector of bits, a bit out.
__global__ void __launch_bounds__(kRelationThreads)
    gather_validity(const __grid_constant__ GatherFrom from, uint32_t* __restrict__ out) {
    for_warp_rows(from.count, [&](uint64_t first) {
        bool valid = false;
        if (first + lane_index() < from.count) {
            const PickedRow picked = pick_row(from, first + lane_index());
            valid = picked.source >= 0 && is_set(from.source[picked.source].valid, picked.row);
        }
        const uint32_t word = __ballot_sync(kFullWarp, valid);
        if (lane_index() == 0) out[first / 32] = word;
    });
}

// The length of every value, NULLs without any, and a 0 behind the last. Bytes: a row number, a random sector of
// offsets, 8 out.
__global__ void __launch_bounds__(kRelationThreads)
    gather_lengths(const __grid_constant__ GatherFrom from, uint64_t* __restrict__ lengths) {
    for_rows(from.count + 1, [&](uint64_t i) {
        uint64_t bytes = 0;
        if (i < from.count) {
            const PickedRow picked = pick_row(from, i);
            if (picked.source >= 0 && is_set(from.source[picked.source].valid, picked.row)) {
                const uint64_t* const offsets = from.source[picked.source].offsets + picked.row;
                bytes = __ldg(&offsets[1]) - __ldg(&offsets[0]);
            }
        }
        lengths[i] = bytes;
    });
}

// Bytes: a search in the offsets and 8 out per tile. The value that the first byte of each tile belongs to.
__global__ void __launch_bounds__(kRelationThreads)
    find_copy_tiles(const uint64_t* __restrict__ offsets, uint64_t values, uint64_t tiles,
                    uint64_t* __restrict__ first) {
    for_rows(tiles, [&](uint64_t tile) { first[tile] = last_not_above(offsets, values, tile * kCopyTileBytes); });
}

// Where 32 neighbouring values begin in the output, where the next one does, and where they come from.
struct ValueGroup {
    uint64_t begin[kWarpThreads + 1];
    const uint8_t* source[kWarpThreads];  // of those that have bytes
};

// By a warp; afterwards every lane sees the group. Values that begin at `end` or later belong to another tile, whose
// warp looks for their source.
__device__ inline void load_group(const GatherFrom& from, const uint64_t* offsets, uint64_t first, uint64_t end,
                                  ValueGroup& group) {
    const uint32_t lane = lane_index();
    const uint64_t value = first + lane;
    group.begin[lane] = __ldg(&offsets[min(value, from.count)]);
    if (lane == 0) group.begin[kWarpThreads] = __ldg(&offsets[min(first + kWarpThreads, from.count)]);
    __syncwarp();
    if (group.begin[lane] < end && group.begin[lane + 1] > group.begin[lane]) {
        const PickedRow picked = pick_row(from, value);  // a value with bytes has a row
        const GatherSource& of = from.source[picked.source];
        group.source[lane] = of.values + __ldg(&of.offsets[picked.row]);
    }
    __syncwarp();
}

// Bytes [begin, end) of the output, all of the group's values, in aligned words of 4 bytes: a lane's word is mostly
// inside of one value, else and at the ends of the range it is put together from bytes.
__device__ inline void copy_group(const ValueGroup& group, uint64_t begin, uint64_t end, uint8_t* out) {
    for (uint64_t word = begin / 4 * 4 + lane_index() * 4; word < end; word += kWarpThreads * 4) {
        const uint64_t from = max(word, begin);
        const uint64_t to = min(word + 4, end);
        uint64_t value = last_not_above(group.begin, kWarpThreads, from);
        if (to - from == 4 && group.begin[value + 1] >= to) {
            *reinterpret_cast<uint32_t*>(out + word) = load_word(group.source[value] + (word - group.begin[value]));
            continue;
        }
        for (uint64_t at = from; at < to; ++at) {
            while (group.begin[value + 1] <= at) ++value;
            out[at] = __ldg(&group.source[value][at - group.begin[value]]);
        }
    }
}

// Bytes: an offset of the result, a row number and a random sector of offsets per value; its bytes read and written, in
// truth the sectors around them. A warp per tile of the output, whatever values it holds: one huge value is spread over
// as many warps as it has tiles, and 32 short ones share a warp's loads.
__global__ void __launch_bounds__(kRelationThreads)
    copy_bytes(const __grid_constant__ GatherFrom from, const uint64_t* __restrict__ offsets,
               const uint64_t* __restrict__ first_value, uint64_t tiles, uint64_t bytes, uint8_t* __restrict__ out) {
    __shared__ ValueGroup groups[kRelationThreads / kWarpThreads];
    ValueGroup& group = groups[warp_index()];
    for_warp_rows(tiles * kWarpThreads, [&](uint64_t thread) {
        const uint64_t tile = thread / kWarpThreads;
        uint64_t at = tile * kCopyTileBytes;
        const uint64_t end = min(at + kCopyTileBytes, bytes);
        uint64_t first = __ldg(&first_value[tile]);
        while (at < end) {
            load_group(from, offsets, first, end, group);
            const uint64_t group_end = min(end, group.begin[kWarpThreads]);
            copy_group(group, at, group_end, out);
            __syncwarp();
            // Millions of empty values in a row are jumped over: every group has at least the byte at its beginning.
            const bool is_sparse = group_end - at < kWarpThreads;
            at = group_end;
            first += kWarpThreads;
            if (at < end && is_sparse) first += warp_last_not_above(offsets + first, from.count - first, at);
        }
    });
}

}}  // namespace spillway::cuda::relation
