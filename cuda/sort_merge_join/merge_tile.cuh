// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "primitive/warp.cuh"
#include "sort_merge_join/sort_merge_policy.hpp"

// Tiles of the merge of two sorted columns of keys. The merged order (of equal keys the probe side's come first) is cut
// after every kMergeTileRows keys, so that tiles have equal work whatever the keys are: one key in half of all rows
// makes tiles of probe keys alone and tiles of build keys alone. A probe key's first partner is then inside of its tile
// or right behind it, and only the last run of equal build keys can go on behind the tile.
namespace spillway::cuda { inline namespace sort_merge_joins {

template <class Key>
struct MergeInput {
    const Key* build = nullptr;
    const Key* probe = nullptr;
    uint64_t build_rows = 0;
    uint64_t probe_rows = 0;
    uint64_t tiles = 0;
    const uint64_t* probe_at = nullptr;  // [tiles + 1] probe rows before each tile
};

// [begin, end) of both sides.
struct TileRange {
    uint64_t probe_begin;
    uint64_t probe_end;
    uint64_t build_begin;
    uint64_t build_end;
};

// Each block has one of these in shared memory.
template <class Key>
struct MergeMemory {
    uint64_t first[kMergeTileRows];      // matches before each probe row of the tile
    Key keys[kMergeTileRows];            // the build side's, then the probe side's
    uint16_t lower[kMergeTileRows];      // each probe row's first partner, from build_begin on
    uint64_t warp_matches[kMergeWarps];  // of the probe rows of each warp
    uint64_t run_end;                    // where the last probe key's run of build rows ends, at least build_end
    uint64_t shared_value;               // what one thread found out for all
};

// The first i of [0, count) whose key is not below (kOrEqual: above) this one, or count.
template <bool kOrEqual, class Key>
__device__ inline uint32_t bound(const Key* keys, uint32_t count, Key key) {
    uint32_t low = 0;
    while (count > 0) {
        const uint32_t half = count / 2;
        const bool before = kOrEqual ? keys[low + half] <= key : keys[low + half] < key;
        low = before ? low + half + 1 : low;
        count = before ? count - half - 1 : half;
    }
    return low;
}

template <class Key>
class MergeTile {
  public:
    __device__ MergeTile(const MergeInput<Key>& in, MergeMemory<Key>& memory) : in_(in), memory_(memory) {}

    // All threads of the block call each of these, with equal arguments.

    __device__ TileRange find(uint64_t tile) {
        const uint64_t begin = tile * kMergeTileRows;
        const uint64_t end = min(begin + kMergeTileRows, in_.build_rows + in_.probe_rows);
        range_.probe_begin = in_.probe_at[tile];
        range_.probe_end = in_.probe_at[tile + 1];
        range_.build_begin = begin - range_.probe_begin;
        range_.build_end = end - range_.probe_end;
        builds_ = static_cast<uint32_t>(range_.build_end - range_.build_begin);
        probes_ = static_cast<uint32_t>(range_.probe_end - range_.probe_begin);
        return range_;
    }

    // Keys of the tile that find() told of, into shared memory.
    __device__ void load() {
        __syncthreads();  // the tile before is no longer looked at
        for (uint32_t i = threadIdx.x; i < builds_; i += kMergeThreads) {
            memory_.keys[i] = __ldg(&in_.build[range_.build_begin + i]);
        }
        for (uint32_t i = threadIdx.x; i < probes_; i += kMergeThreads) {
            memory_.keys[builds_ + i] = __ldg(&in_.probe[range_.probe_begin + i]);
        }
        if (warp_index() == 0) find_run_end();
        __syncthreads();
    }

    // Matches of all probe rows of a tile that was loaded; afterwards each knows its own in memory_.
    __device__ uint64_t count() {
        // Every warp takes a part of the rows that there are.
        const uint32_t warp_rows = (probes_ + kMergeThreads - 1) / kMergeThreads * kWarpThreads;
        const uint32_t begin = min(probes_, warp_index() * warp_rows);
        const uint32_t end = min(probes_, begin + warp_rows);
        uint64_t before = 0;
        for (uint32_t i = begin; i < end; i += kWarpThreads) {
            const uint32_t row = i + lane_index();
            const uint64_t matches = row < end ? find_matches(row) : 0;
            const uint64_t sum = warp_inclusive_sum(matches);
            if (row < end) memory_.first[row] = before + sum - matches;
            before += __shfl_sync(kFullWarp, sum, kWarpThreads - 1);
        }
        if (lane_index() == 0) memory_.warp_matches[warp_index()] = before;
        __syncthreads();
        uint64_t total = 0;
        uint64_t of_others = 0;
        for (uint32_t warp = 0; warp < kMergeWarps; ++warp) {
            if (warp == warp_index()) of_others = total;
            total += memory_.warp_matches[warp];
        }
        for (uint32_t row = begin + lane_index(); row < end; row += kWarpThreads) memory_.first[row] += of_others;
        __syncthreads();
        return total;
    }

    // write(i, build place, probe place, key) for the matches [begin, end) of a tile that was counted, a thread for
    // each.
    template <class Write>
    __device__ void emit(uint64_t begin, uint64_t end, const Write& write) const {
        for (uint64_t match = begin + threadIdx.x; match < end; match += kMergeThreads) {
            // The last row with first <= match: rows without matches share their number with the next row.
            const uint32_t row = bound<true>(memory_.first, probes_, match) - 1;
            const uint64_t build = range_.build_begin + memory_.lower[row] + (match - memory_.first[row]);
            write(match, build, range_.probe_begin + row, memory_.keys[builds_ + row]);
        }
    }

    // Any thread may ask this about any probe row of the tile once it is loaded.
    __device__ bool probe_has_match(uint64_t place) const {
        const Key key = memory_.keys[builds_ + static_cast<uint32_t>(place - range_.probe_begin)];
        const uint32_t lower = bound<false>(memory_.keys, builds_, key);
        if (lower < builds_) return memory_.keys[lower] == key;
        return memory_.run_end > range_.build_end && key == last_probe_key();
    }
    // A build row's partners come before it, the last of them perhaps at the end of the tile before.
    __device__ bool build_has_match(uint64_t place) const {
        const Key key = memory_.keys[static_cast<uint32_t>(place - range_.build_begin)];
        const uint32_t upper = bound<true>(memory_.keys + builds_, probes_, key);
        if (upper > 0) return memory_.keys[builds_ + upper - 1] == key;
        return range_.probe_begin > 0 && __ldg(&in_.probe[range_.probe_begin - 1]) == key;
    }

  private:
    __device__ Key last_probe_key() const { return memory_.keys[builds_ + probes_ - 1]; }

    // By the first warp, from memory that others may still be copying: most runs end within a look of 32 keys.
    __device__ void find_run_end() {
        const uint64_t from = range_.build_end;
        uint64_t end = from;
        if (probes_ > 0) {
            const Key key = __ldg(&in_.probe[range_.probe_end - 1]);
            const uint64_t at = from + lane_index();
            const uint32_t same = __ballot_sync(kFullWarp, at < in_.build_rows && __ldg(&in_.build[at]) == key);
            end += __popc(same);
            if (same == kFullWarp) {
                const uint64_t last = from + kWarpThreads - 1;
                end = last + 1 + warp_last_not_above(in_.build + last, in_.build_rows - last, key);
            }
        }
        if (lane_index() == 0) memory_.run_end = end;
    }

    __device__ uint64_t find_matches(uint32_t row) {
        const Key key = memory_.keys[builds_ + row];
        const uint32_t lower = bound<false>(memory_.keys, builds_, key);
        // Most runs are short: a step of 1, 2, 4, ... finds where to search.
        uint32_t step = 1;
        uint32_t upper = lower;
        while (upper < builds_ && memory_.keys[upper] == key) {
            upper = min(builds_, upper + step);
            step *= 2;
        }
        if (step > 2) {
            const uint32_t known = upper - min(upper - lower, step / 2);
            upper = known + bound<true>(memory_.keys + known, upper - known, key);
        }
        memory_.lower[row] = static_cast<uint16_t>(lower);
        uint64_t matches = upper - lower;
        if (upper == builds_ && key == last_probe_key()) matches += memory_.run_end - range_.build_end;
        return matches;
    }

    const MergeInput<Key>& in_;
    MergeMemory<Key>& memory_;
    TileRange range_{};
    uint32_t builds_ = 0;
    uint32_t probes_ = 0;
};

}}  // namespace spillway::cuda::sort_merge_joins
