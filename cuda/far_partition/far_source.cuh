// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "far_partition/far_policy.hpp"
#include "primitive/mix.cuh"
#include "primitive/warp.cuh"

namespace spillway::cuda { inline namespace far_partitioning {

// Rows of a key and a payload of so many 32-bit words each, stored by one instruction.
template <int kWords>
struct FarTuple;
template <>
struct FarTuple<1> {
    using Column = uint32_t;
    using Row = uint2;
    __device__ static Row make(Column word, Column payload) { return make_uint2(word, payload); }
    __device__ static uint32_t top_word(const Row& row) { return row.x; }
};
template <>
struct FarTuple<2> {
    using Column = uint64_t;
    using Row = uint4;
    __device__ static Row make(Column word, Column payload) {
        return make_uint4(static_cast<uint32_t>(word), static_cast<uint32_t>(word >> 32),
                          static_cast<uint32_t>(payload), static_cast<uint32_t>(payload >> 32));
    }
    __device__ static uint32_t top_word(const Row& row) { return row.y; }
};

// The word that is stored of a key, and partitioned by.
template <bool kReversed, int kWords>
__device__ inline typename FarTuple<kWords>::Column far_word_of(typename FarTuple<kWords>::Column key) {
    if constexpr (kReversed) return reverse_bits(key);
    return MixedKey<kWords>::mix(key);
}

// The top bits of that word, shift = 32 - bits. In 64 bits, since a shift by 32 is one as well: to partition 0.
__device__ inline uint32_t far_partition_of(uint32_t top_word, uint32_t shift) {
    return static_cast<uint32_t>(uint64_t{top_word} >> shift);
}

// Columns in far memory, which nobody writes while a kernel reads them.
template <int kWords>
struct FarColumns {
    using Tuple = FarTuple<kWords>;
    const typename Tuple::Column* keys;
    const typename Tuple::Column* payloads;
    uint64_t rows;
    const uint32_t* key_valid;         // nullptr: all rows have a key
    unsigned long long* split_counts;  // FarPartitionOptions; nullptr: not wanted
    uint32_t split_shift;
    bool reversed_keys;  // FarPartitionOptions

    template <bool kReversed>
    __device__ typename Tuple::Row load(uint64_t row) const {
        return Tuple::make(far_word_of<kReversed, kWords>(__ldcs(&keys[row])), __ldcs(&payloads[row]));
    }
    template <bool kReversed>
    __device__ typename Tuple::Row load_key(uint64_t row) const {
        const typename Tuple::Column key = __ldcs(&keys[row]);
        return Tuple::make(far_word_of<kReversed, kWords>(key), key);
    }
    __device__ bool payload_is_key() const { return payloads == keys; }
    __device__ bool has_key(uint64_t row) const { return (__ldcs(&key_valid[row / 32]) >> (row % 32) & 1) != 0; }

    // By whole warps. Nobody waits for an addition, but one address takes them one after the other, a row each 0.6 ns:
    // with Zipf 1.5, where a key has a third of all rows, counting them one by one took five times as long as the pass
    // without. So rows that go to the counter of one of the lanes asked are added at once, where they are many.
    __device__ void count_split(const typename Tuple::Row& row, bool there) const {
        const auto part = static_cast<uint32_t>(uint64_t{Tuple::top_word(row)} >> split_shift);
        bool is_left = there;
#pragma unroll
        for (uint32_t lane = 0; lane < kWarpThreads; lane += kWarpThreads / kCountedParts) {
            const uint32_t one = __shfl_sync(kFullWarp, part, static_cast<int>(lane));
            const uint32_t together = __ballot_sync(kFullWarp, is_left && part == one);
            if (__popc(together) < kCountedTogether) continue;
            if (static_cast<int>(lane_index()) == __ffs(static_cast<int>(together)) - 1) {
                atomicAdd(&split_counts[part], static_cast<unsigned long long>(__popc(together)));
            }
            is_left = is_left && part != one;
        }
        if (is_left) atomicAdd(&split_counts[part], 1ULL);
    }
};

struct RowSlice {
    uint64_t begin;
    uint64_t end;
};

// Returns the rows of this block. Slices are as even as units of kSliceRows allow, and some are empty where there are
// fewer units than blocks.
__device__ inline RowSlice block_slice(uint64_t rows) {
    const uint64_t units = (rows + kSliceRows - 1) / kSliceRows;
    const uint64_t share = units / gridDim.x;
    const uint64_t rest = units % gridDim.x;
    const uint64_t block = blockIdx.x;
    const uint64_t first = block * share + (block < rest ? block : rest);
    const uint64_t last = first + share + (block < rest ? 1 : 0);
    const auto row = [rows](uint64_t unit) { return unit * kSliceRows < rows ? unit * kSliceRows : rows; };
    return {row(first), row(last)};
}

// Rows `first`, first + 32 and so on of the lane, as far as they are below `end`; all loads are under way at once.
template <bool kPayloadIsKey, bool kReversed, int kWords>
__device__ void load_far_columns(const FarColumns<kWords>& in, uint64_t first, uint64_t end,
                                 typename FarTuple<kWords>::Row (&rows)[kFarRowsPerThread]) {
#pragma unroll
    for (int i = 0; i < kFarRowsPerThread; ++i) {
        const uint64_t row = first + i * kWarpThreads;
        if (row < end) {
            rows[i] = kPayloadIsKey ? in.template load_key<kReversed>(row) : in.template load<kReversed>(row);
        }
    }
}
template <bool kReversed, int kWords>
__device__ void load_far_rows(const FarColumns<kWords>& in, uint64_t first, uint64_t end,
                              typename FarTuple<kWords>::Row (&rows)[kFarRowsPerThread]) {
    if (in.payload_is_key()) {
        load_far_columns<true, kReversed>(in, first, end, rows);
    } else {
        load_far_columns<false, kReversed>(in, first, end, rows);
    }
}

// Returns a bit for each of the same rows, which says whether the row is there and has a key.
template <bool kNullable, int kWords>
__device__ uint32_t far_rows_there(const FarColumns<kWords>& in, uint64_t first, uint64_t end) {
    uint32_t there = 0;
#pragma unroll
    for (int i = 0; i < kFarRowsPerThread; ++i) {
        const uint64_t row = first + i * kWarpThreads;
        if (row < end && (!kNullable || in.has_key(row))) there |= 1U << i;
    }
    return there;
}

// body(row, there) for the block's slice, by whole warps: lanes may have no row, in the last one or where a row has no
// key. What all rows have in common is asked once for those of a thread: with a branch between their loads NVLink moved
// 250 GB/s each way instead of 325.
template <int kWords, class Body>
__device__ void for_each_far_row(const FarColumns<kWords>& in, Body body) {
    static_assert(kFarRowsPerThread <= 32, "a bit for each row of a thread");
    const RowSlice slice = block_slice(in.rows);
    constexpr uint64_t kStep = uint64_t{kFarRowsPerThread} * kWarpThreads;
    const uint64_t stride = blockDim.x / kWarpThreads * kStep;
    for (uint64_t base = slice.begin + warp_index() * kStep; base < slice.end; base += stride) {
        typename FarTuple<kWords>::Row rows[kFarRowsPerThread] = {};
        const uint64_t first = base + lane_index();
        if (in.reversed_keys) {
            load_far_rows<true>(in, first, slice.end, rows);
        } else {
            load_far_rows<false>(in, first, slice.end, rows);
        }
        const uint32_t there = in.key_valid == nullptr ? far_rows_there<false>(in, first, slice.end)
                                                       : far_rows_there<true>(in, first, slice.end);
        if (in.split_counts != nullptr) {
#pragma unroll
            for (int i = 0; i < kFarRowsPerThread; ++i) in.count_split(rows[i], (there >> i & 1) != 0);
        }
#pragma unroll
        for (int i = 0; i < kFarRowsPerThread; ++i) body(rows[i], (there >> i & 1) != 0);
    }
}

}}  // namespace spillway::cuda::far_partitioning
