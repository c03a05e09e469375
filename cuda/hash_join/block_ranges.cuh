// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "hash_join/block_table.cuh"
#include "hash_join/join_policy.hpp"
#include "primitive/warp.cuh"

// The hash table of a block whose build keys repeat, in shared memory: the numbers of the build rows in order of their
// buckets, and for each bucket where its numbers begin and how many they are. A probe row finds all rows that it can
// match in one look and knows how many they are, so that a warp can share them out evenly; rows of other keys in the
// bucket, one for every two rows of a full block, are told apart when their turn comes. Neither the order within a
// bucket nor that of buckets matters. No walk and no comparison while the table is built: one key in all rows costs
// what other keys do, but for atomics that meet. It takes the place of the other table's buckets, and leaves keys in
// rows.
namespace spillway::cuda {

// Of the numbers, those of one bucket; as a word of 32 bits: begin, count.
constexpr int kRangeCountBits = 16;
constexpr uint32_t kRangeCount = (1U << kRangeCountBits) - 1;

template <int kKeyWords>
class BlockRanges {
    using Table = BlockTable<kKeyWords>;
    using Key = typename Table::Key;

  public:
    // In the first `words` of the table's heads (a multiple of 4) for that many rows.
    __device__ BlockRanges(const Table& table, uint32_t words, uint32_t count)
        : table_(table),
          numbers_(reinterpret_cast<uint16_t*>(table.heads)),
          ranges_(table.heads + number_words(count)),
          buckets_(words - number_words(count)) {}

    // 1. No bucket has any rows; `taken`: a word of shared memory. All of the threads do each step, with a barrier
    // behind.
    __device__ void clear(uint32_t* taken) const {
        for (uint32_t b = threadIdx.x * 4; b < buckets_; b += kJoinThreads * 4) {
            *reinterpret_cast<uint4*>(ranges_ + b) = make_uint4(0, 0, 0, 0);
        }
        if (threadIdx.x == 0) *taken = 0;
    }
    // 2. Each row.
    __device__ void count(uint32_t number) const { atomicAdd(&range_at(key_of(number)), 1U); }
    // 3. Where buckets begin: a warp takes places for 128 of them together.
    __device__ void take_places(uint32_t* taken) const {
        constexpr uint32_t kBuckets = 4 * kWarpThreads;
        for (uint32_t first = warp_index() * kBuckets; first < buckets_; first += kJoinThreads * 4) {
            const uint32_t at = first + lane_index() * 4;
            uint4* const four = reinterpret_cast<uint4*>(ranges_ + at);
            const uint4 counts = at < buckets_ ? *four : make_uint4(0, 0, 0, 0);
            const uint32_t own = counts.x + counts.y + counts.z + counts.w;
            const uint32_t end = warp_inclusive_sum(own);
            uint32_t begin = 0;
            if (lane_index() == kWarpThreads - 1) begin = atomicAdd(taken, end);
            const uint32_t x = __shfl_sync(kFullWarp, begin, kWarpThreads - 1) + end - own;
            const uint32_t y = x + counts.x;
            const uint32_t z = y + counts.y;
            const uint32_t w = z + counts.z;
            if (at < buckets_) {
                *four =
                    make_uint4(x << kRangeCountBits, y << kRangeCountBits, z << kRangeCountBits, w << kRangeCountBits);
            }
        }
    }
    // 4. Each row.
    __device__ void place(uint32_t number) const {
        const uint32_t range = atomicAdd(&range_at(key_of(number)), 1U);
        numbers_[(range >> kRangeCountBits) + (range & kRangeCount)] = static_cast<uint16_t>(number);
    }

    // Rows that have the key, and others of their bucket: a range.
    __device__ uint32_t range_of(Key key) const { return range_at(key); }
    __device__ uint32_t number(uint32_t place) const { return numbers_[place]; }
    __device__ Key key_of(uint32_t number) const { return Table::key_of(table_.row(number)); }

    // Has another row the same key? Not all rows of a long range are looked at.
    __device__ bool repeats(uint32_t number) const {
        const Key key = key_of(number);
        const uint32_t range = range_of(key);
        const uint32_t begin = range >> kRangeCountBits;
        const uint32_t looks = min(range & kRangeCount, kRepeatLooksMax);
        for (uint32_t place = begin; place < begin + looks; ++place) {
            const uint32_t other = numbers_[place];
            if (other != number && key_of(other) == key) return true;
        }
        return false;
    }

  private:
    // Whole quads of words, so that ranges begin at one.
    __device__ static uint32_t number_words(uint32_t count) { return (count + 7) / 8 * 4; }
    __device__ uint32_t& range_at(Key key) const { return ranges_[table_.bucket_of(key, buckets_)]; }

    const Table& table_;
    uint16_t* const numbers_;  // of rows
    uint32_t* const ranges_;
    const uint32_t buckets_;
};

}  // namespace spillway::cuda
