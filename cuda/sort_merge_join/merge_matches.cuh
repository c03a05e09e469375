// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "sort_merge_join/merge_tile.cuh"

// Kernels that merge the sorted keys of both sides, each of which they read once per run (4 or 8 bytes). Those that
// write read the row numbers of the pairs' rows besides (nearly in order) and write two row numbers per pair; with
// 2^27 rows and matches, 4-byte keys and row numbers 3.2 GB, 0.8 ms on an H200.
namespace spillway::cuda { inline namespace sort_merge_joins {

// Row numbers of a side by place; nullptr: the places themselves.
struct RowNumbersByPlace {
    const void* rows = nullptr;
    uint32_t width = 4;

    __device__ uint64_t at(uint64_t place) const {
        if (rows == nullptr) return place;
        return width == 4 ? __ldg(static_cast<const uint32_t*>(rows) + place)
                          : __ldg(static_cast<const unsigned long long*>(rows) + place);
    }
};

struct PairColumn {
    RowNumbersByPlace from;
    void* rows = nullptr;
    uint32_t width = 4;

    __device__ void store(uint64_t at, uint64_t place) const {
        const uint64_t row = from.at(place);
        if (width == 4) {
            __stcs(static_cast<uint32_t*>(rows) + at, static_cast<uint32_t>(row));
        } else {
            __stcs(static_cast<unsigned long long*>(rows) + at, static_cast<unsigned long long>(row));
        }
    }
};

struct PairColumns {
    PairColumn build;
    PairColumn probe;
    uint64_t capacity_rows = 0;
    void* keys = nullptr;  // nullptr: not wanted
};

struct MatchTotals {
    unsigned long long matches;
    unsigned long long units;
};

// For each tile, these tell where its pairs begin and where its units of work for emit_units begin.
struct TileMatches {
    uint64_t* first_match = nullptr;
    uint64_t* first_unit = nullptr;
    MatchTotals* totals = nullptr;
};

struct MarkedSide {
    RowNumbersByPlace from;
    uint32_t* marks = nullptr;  // nullptr: not wanted
};

// Bytes: 8 per tile, and a search of some 30 random keys of each side. Probe rows before each tile: of equal keys the
// probe side's come first.
template <class Key>
__global__ void __launch_bounds__(kRowThreads) cut_tiles(MergeInput<Key> in, uint64_t* probe_at) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t tile = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; tile <= in.tiles; tile += step) {
        const uint64_t before = min(tile * kMergeTileRows, in.build_rows + in.probe_rows);
        uint64_t low = before > in.build_rows ? before - in.build_rows : 0;
        uint64_t high = min(before, in.probe_rows);
        while (low < high) {
            const uint64_t probe = (low + high) / 2;
            if (__ldg(&in.probe[probe]) <= __ldg(&in.build[before - 1 - probe])) {
                low = probe + 1;
            } else {
                high = probe;
            }
        }
        probe_at[tile] = low;
    }
}

__device__ inline uint64_t units_of(uint64_t matches) {
    return (matches + kEmitUnitRows - 1) / kEmitUnitRows;
}

// Matches and units of every tile, not yet summed up. Bytes: the keys once, 16 per tile.
template <class Key>
__global__ void __launch_bounds__(kMergeThreads)
    count_matches_kernel(const __grid_constant__ MergeInput<Key> in, TileMatches out) {
    __shared__ MergeMemory<Key> memory;
    MergeTile<Key> merge(in, memory);
    MatchTotals mine{0, 0};
    for (uint64_t tile = blockIdx.x; tile < in.tiles; tile += gridDim.x) {
        const TileRange range = merge.find(tile);
        uint64_t matches = 0;
        if (range.probe_begin < range.probe_end) {
            merge.load();
            matches = merge.count();
        }
        if (threadIdx.x != 0) continue;
        out.first_match[tile] = matches;
        out.first_unit[tile] = units_of(matches);
        mine.matches += matches;
        mine.units += units_of(matches);
    }
    if (threadIdx.x != 0 || mine.matches == 0) return;
    atomicAdd(&out.totals->matches, mine.matches);
    atomicAdd(&out.totals->units, mine.units);
}

template <class Key>
__device__ void emit_pairs(const MergeTile<Key>& merge, uint64_t begin, uint64_t end, uint64_t first_match,
                           const PairColumns& pairs) {
    merge.emit(begin, end, [&](uint64_t match, uint64_t build, uint64_t probe, Key key) {
        pairs.build.store(first_match + match, build);
        pairs.probe.store(first_match + match, probe);
        if (pairs.keys != nullptr) __stcs(static_cast<Key*>(pairs.keys) + first_match + match, key);
    });
}

// One pass: each tile takes places for its pairs when it knows how many they are. Tiles with more pairs than a unit
// leave them to emit_units, so that no block has more work than others because of a key that is frequent on both sides.
// Pairs beyond the capacity are counted and not written.
template <class Key>
__global__ void __launch_bounds__(kMergeThreads)
    emit_tiles_kernel(const __grid_constant__ MergeInput<Key> in, TileMatches out,
                      const __grid_constant__ PairColumns pairs) {
    __shared__ MergeMemory<Key> memory;
    MergeTile<Key> merge(in, memory);
    for (uint64_t tile = blockIdx.x; tile < in.tiles; tile += gridDim.x) {
        const TileRange range = merge.find(tile);
        uint64_t matches = 0;
        if (range.probe_begin < range.probe_end) {
            merge.load();
            matches = merge.count();
        }
        const bool is_large = matches > kEmitUnitRows;
        const bool is_written = matches > 0 && !is_large;
        if (threadIdx.x == 0) {
            uint64_t first = 0;
            if (matches > 0) first = atomicAdd(&out.totals->matches, static_cast<unsigned long long>(matches));
            const uint64_t units = is_large ? units_of(matches) : 0;
            if (is_large) atomicAdd(&out.totals->units, static_cast<unsigned long long>(units));
            out.first_match[tile] = first;
            out.first_unit[tile] = units;
            // Only here: threads may still read it for the tile before one that is not loaded.
            if (is_written) memory.shared_value = first;
        }
        if (!is_written) continue;
        __syncthreads();
        const uint64_t first = memory.shared_value;
        if (first + matches <= pairs.capacity_rows) emit_pairs(merge, 0, matches, first, pairs);
    }
}

// Units of kEmitUnitRows pairs of one tile, places of tiles known. first_unit[] is summed up.
template <class Key>
__global__ void __launch_bounds__(kMergeThreads)
    emit_units_kernel(const __grid_constant__ MergeInput<Key> in, TileMatches of, uint64_t units,
                      const __grid_constant__ PairColumns pairs) {
    __shared__ MergeMemory<Key> memory;
    MergeTile<Key> merge(in, memory);
    for (uint64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
        // Every warp for itself: all find the same.
        const uint64_t tile = warp_last_not_above(of.first_unit, in.tiles, unit);
        merge.find(tile);
        merge.load();
        const uint64_t matches = merge.count();
        const uint64_t begin = (unit - of.first_unit[tile]) * kEmitUnitRows;
        emit_pairs(merge, begin, min(matches, begin + kEmitUnitRows), of.first_match[tile], pairs);
    }
}

// has_match(place) for places [begin, end), by warps whose lanes share a word where places are row numbers.
template <class HasMatch>
__device__ void mark_places(const MarkedSide& side, uint64_t begin, uint64_t end, const HasMatch& has_match) {
    if (side.marks == nullptr) return;
    for (uint64_t word = begin / 32 + warp_index(); word * 32 < end; word += kMergeWarps) {
        const uint64_t place = word * 32 + lane_index();
        const bool found = place >= begin && place < end && has_match(place);
        if (side.from.rows != nullptr) {
            if (!found) continue;
            const uint64_t row = side.from.at(place);
            atomicOr(&side.marks[row / 32], 1U << (row % 32));
            continue;
        }
        const uint32_t bits = __ballot_sync(kFullWarp, found);
        if (lane_index() == 0 && bits != 0) atomicOr(&side.marks[word], bits);
    }
}

// Rows that have a match, each looked at once whatever its run: a bit written per row, at random where places have row
// numbers.
template <class Key>
__global__ void __launch_bounds__(kMergeThreads)
    mark_matches_kernel(const __grid_constant__ MergeInput<Key> in, const __grid_constant__ MarkedSide build,
                        const __grid_constant__ MarkedSide probe) {
    __shared__ MergeMemory<Key> memory;
    MergeTile<Key> merge(in, memory);
    for (uint64_t tile = blockIdx.x; tile < in.tiles; tile += gridDim.x) {
        const TileRange range = merge.find(tile);
        merge.load();
        mark_places(build, range.build_begin, range.build_end,
                    [&](uint64_t place) { return merge.build_has_match(place); });
        mark_places(probe, range.probe_begin, range.probe_end,
                    [&](uint64_t place) { return merge.probe_has_match(place); });
    }
}

}}  // namespace spillway::cuda::sort_merge_joins
