// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "row_index/probe_index.hpp"
#include "row_index/row_index_policy.hpp"
#include "stream/row_tiles.cuh"

namespace spillway::cuda { inline namespace row_index {

constexpr uint32_t kTileGroups = kTileRows / kGroupRows;

// The row of one lane and the bucket that its partners are in.
template <int kKeyWords>
struct ProbeLane {
    uint64_t row = 0;  // of the batch
    bool present = false;
    uint64_t key = 0;
    uint32_t begin = 0;  // rows of the partition
    uint32_t end = 0;
    bool equal_keys = false;

    __device__ ProbeLane(const ProbePass& pass, const RowPiece& piece, const IndexedPartition& indexed,
                         uint64_t in_piece, bool is_there)
        : row(piece.begin + in_piece), present(is_there) {
        if (!present || indexed.bucket_bits == kNotIndexed) return;
        key = row_key<kKeyWords>(pass.rows + row * pass.row_words);
        const uint32_t* const bucket = pass.index.bucket + indexed.first_bucket +
                                       bucket_of<kKeyWords>(key, pass.index.radix_bits, indexed.bucket_bits);
        begin = bucket[0] & ~kEqualKeys;
        end = bucket[1] & ~kEqualKeys;
        equal_keys = (bucket[0] & kEqualKeys) != 0;
    }
    __device__ bool is_long() const { return end - begin > kLongBucketRows; }
};

// The rows of long buckets, those of lanes that want it, are shared out among the lanes of the warp; all lanes call.
// each(lane, key, row, begin, end) runs in all lanes for one lane's row after the other.
template <int kKeyWords, class Each>
__device__ inline void for_long_buckets(const ProbeLane<kKeyWords>& own, bool wanted, const Each& each) {
    uint32_t lanes = __ballot_sync(kFullWarp, wanted && own.is_long());
    while (lanes != 0) {
        const int lane = __ffs(static_cast<int>(lanes)) - 1;
        lanes &= lanes - 1;
        each(static_cast<uint32_t>(lane), __shfl_sync(kFullWarp, own.key, lane), __shfl_sync(kFullWarp, own.row, lane),
             __shfl_sync(kFullWarp, own.begin, lane), __shfl_sync(kFullWarp, own.end, lane));
    }
}

template <int kKeyWords>
__device__ inline const uint32_t* build_row(const IndexView& index, const IndexedPartition& indexed, uint32_t row) {
    return index.rows + index.place(indexed, row) * index.row_words;
}

// Rows `from` to `end` of a partition, kRowsAtOnce at most: where they are, and their keys. All are asked for before
// the first one is looked at.
template <int kKeyWords>
struct BucketRows {
    uint64_t place[kRowsAtOnce] = {};
    uint64_t key[kRowsAtOnce] = {};

    __device__ BucketRows(const IndexView& index, const IndexedPartition& indexed, uint32_t from, uint32_t end) {
#pragma unroll
        for (uint32_t i = 0; i < kRowsAtOnce; ++i) {
            if (from + i < end) place[i] = index.place(indexed, from + i);
        }
        // Where rows begin at multiples of eight bytes, one access per key.
        if (kKeyWords == 2 && index.row_words % 2 == 0) {
            const auto* const rows = reinterpret_cast<const uint64_t*>(index.rows);
#pragma unroll
            for (uint32_t i = 0; i < kRowsAtOnce; ++i) {
                if (from + i < end) key[i] = rows[place[i] * (index.row_words / 2)];
            }
            return;
        }
#pragma unroll
        for (uint32_t i = 0; i < kRowsAtOnce; ++i) {
            if (from + i < end) key[i] = row_key<kKeyWords>(index.rows + place[i] * index.row_words);
        }
    }
};

// visit(place) for each partner of the lane's row, unless its bucket is a long one.
template <int kKeyWords, class Visit>
__device__ inline void for_short_bucket(const IndexView& index, const IndexedPartition& indexed,
                                        const ProbeLane<kKeyWords>& own, const Visit& visit) {
    if (own.is_long()) return;
    for (uint32_t from = own.begin; from < own.end; from += kRowsAtOnce) {
        const BucketRows<kKeyWords> rows(index, indexed, from, own.end);
#pragma unroll
        for (uint32_t i = 0; i < kRowsAtOnce; ++i) {
            if (from + i < own.end && rows.key[i] == own.key) visit(rows.place[i]);
        }
    }
}

// Partners of the lane's row; visit(place, row) for each of them, in whichever lane finds it, with the probe row. Those
// of a frequent key, the first of them at `place`, are only counted if visits(place) says that nobody has to see them.
template <int kKeyWords, class Visits, class Visit>
__device__ inline uint64_t count_partners(const ProbePass& pass, const IndexedPartition& indexed,
                                          const ProbeLane<kKeyWords>& own, const Visits& visits, const Visit& visit) {
    uint64_t partners = 0;
    bool searches = true;
    if (own.equal_keys) {
        const uint64_t place = pass.index.place(indexed, own.begin);
        const bool same = row_key<kKeyWords>(pass.index.rows + place * pass.index.row_words) == own.key;
        searches = same && visits(place);
        if (same) partners = own.end - own.begin;
    }
    for_short_bucket(pass.index, indexed, own, [&](uint64_t place) {
        ++partners;
        visit(place, own.row);
    });
    for_long_buckets(own, searches, [&](uint32_t lane, uint64_t key, uint64_t row, uint32_t begin, uint32_t end) {
        uint32_t found = 0;
        // In 64 bits: the step behind the last row must not wrap around.
        for (uint64_t r = begin + static_cast<uint64_t>(lane_index()); r < end; r += kWarpThreads) {
            const uint64_t place = pass.index.place(indexed, static_cast<uint32_t>(r));
            if (row_key<kKeyWords>(pass.index.rows + place * pass.index.row_words) != key) continue;
            ++found;
            visit(place, row);
        }
        const uint32_t all = __reduce_add_sync(kFullWarp, found);
        if (lane_index() == lane) partners = all;
    });
    return partners;
}

}}  // namespace spillway::cuda::row_index
