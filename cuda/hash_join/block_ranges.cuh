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
namespace spillway::cuda { inline namespace hash_join {

// A range says which of the numbers are those of one bucket: the upper half of a word of 32 bits is where they begin,
// the lower half is how many there are.
constexpr int kRangeCountBits = 16;
constexpr uint32_t kRangeCount = (1U << kRangeCountBits) - 1;
// Among a range's count, which a block's 2^14 rows leave free: it has rows of several keys. For who asks mark_mixed().
constexpr uint32_t kMixedRange = 1U << (kRangeCountBits - 1);
// The bit below says that somebody has taken all rows of a range of one key.
constexpr uint32_t kTakenRange = kMixedRange >> 1;
static_assert(kNoBuildRow < kTakenRange);

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
            *quad(b) = make_uint4(0, 0, 0, 0);
        }
        if (threadIdx.x == 0) *taken = 0;
    }
    // 2. How many rows buckets have. A thread takes some rows side by side, so that their keys are under way together.
    __device__ void count(uint32_t rows) const {
        for (uint32_t first = threadIdx.x; first < rows; first += kInsertRows * kJoinThreads) {
            uint32_t buckets[kInsertRows];
            buckets_of(first, rows, buckets);
#pragma unroll
            for (int r = 0; r < kInsertRows; ++r) {
                if (first + r * kJoinThreads < rows) atomicAdd(ranges_ + buckets[r], 1U);
            }
        }
    }
    // 3. Where buckets begin: a warp takes places for 256 of them together. Has this thread seen any neighbours that
    // have `many` rows together?
    __device__ bool take_places(uint32_t* taken, uint32_t many) const {
        bool seen = false;
        constexpr uint32_t kQuads = 2;
        constexpr uint32_t kQuadBuckets = 4 * kWarpThreads;
        for (uint32_t first = warp_index() * kQuads * kQuadBuckets; first < buckets_;
             first += kJoinWarps * kQuads * kQuadBuckets) {
            uint4 counts[kQuads];
            uint32_t own = 0;
#pragma unroll
            for (uint32_t q = 0; q < kQuads; ++q) {
                const uint32_t at = first + q * kQuadBuckets + lane_index() * 4;
                counts[q] = at < buckets_ ? *quad(at) : make_uint4(0, 0, 0, 0);
                own += counts[q].x + counts[q].y + counts[q].z + counts[q].w;
            }
            seen = seen || own >= many;
            const uint32_t end = warp_inclusive_sum(own);
            uint32_t begin = 0;
            if (lane_index() == kWarpThreads - 1) begin = atomicAdd(taken, end);
            begin = __shfl_sync(kFullWarp, begin, kWarpThreads - 1) + end - own;
#pragma unroll
            for (uint32_t q = 0; q < kQuads; ++q) {
                const uint32_t at = first + q * kQuadBuckets + lane_index() * 4;
                const uint32_t y = begin + counts[q].x;
                const uint32_t z = y + counts[q].y;
                const uint32_t w = z + counts[q].z;
                if (at < buckets_) {
                    *quad(at) = make_uint4(begin << kRangeCountBits, y << kRangeCountBits, z << kRangeCountBits,
                                           w << kRangeCountBits);
                }
                begin = w + counts[q].w;
            }
        }
        return seen;
    }
    // 4. Each row to the next place of its bucket.
    __device__ void place(uint32_t rows) const {
        for (uint32_t first = threadIdx.x; first < rows; first += kInsertRows * kJoinThreads) {
            uint32_t buckets[kInsertRows];
            buckets_of(first, rows, buckets);
            uint32_t ranges[kInsertRows];
#pragma unroll
            for (int r = 0; r < kInsertRows; ++r) {
                if (first + r * kJoinThreads < rows) ranges[r] = atomicAdd(ranges_ + buckets[r], 1U);
            }
#pragma unroll
            for (int r = 0; r < kInsertRows; ++r) {
                const uint32_t number = first + r * kJoinThreads;
                if (number < rows) {
                    numbers_[(ranges[r] >> kRangeCountBits) + (ranges[r] & kRangeCount)] =
                        static_cast<uint16_t>(number);
                }
            }
        }
    }

    // 5. If wanted: which ranges have rows of several keys. A bit for each row of the thread whose key is not that of
    // its range's first row; with these, behind a barrier, ranges are marked.
    __device__ uint32_t rows_of_others(uint32_t rows) const {
        static_assert(kNoBuildRow / kJoinThreads < 32, "a bit per row");
        uint32_t others = 0;
        uint32_t bit = 1;
        for (uint32_t number = threadIdx.x; number < rows; number += kJoinThreads, bit <<= 1) {
            const Key key = key_of(number);
            if (key_of(numbers_[range_of(key) >> kRangeCountBits]) != key) others |= bit;
        }
        return others;
    }
    __device__ void mark_mixed(uint32_t others) const {
        for (uint32_t number = threadIdx.x; others != 0; number += kJoinThreads, others >>= 1) {
            if ((others & 1) != 0) atomicOr(ranges_ + table_.bucket_of(key_of(number), buckets_), kMixedRange);
        }
    }

    // Takes the range of a key. Has nobody done so before? Not for ranges of several keys.
    __device__ bool take(Key key) const {
        uint32_t* const range = ranges_ + table_.bucket_of(key, buckets_);
        return (atomicOr(range, kTakenRange) & kTakenRange) == 0;
    }
    // The range as it is now or was a moment ago, while others take ranges. Tools that watch shared memory get an
    // atomic look.
    __device__ uint32_t open_range_of(Key key) const {
        uint32_t* const range = ranges_ + table_.bucket_of(key, buckets_);
#ifdef SPILLWAY_CUDA_PLAIN_COPIES
        return atomicOr(range, 0U);
#else
        return *static_cast<volatile uint32_t*>(range);
#endif
    }

    // Rows that have the key, and others of their bucket: a range.
    __device__ uint32_t range_of(Key key) const {
        return ranges_[table_.bucket_of(key, buckets_)];
    }
    __device__ uint32_t number(uint32_t place) const {
        return numbers_[place];
    }
    __device__ Key key_of(uint32_t number) const {
        return Table::key_of(table_.row(number));
    }

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
    __device__ static uint32_t number_words(uint32_t count) {
        return (count + 7) / 8 * 4;
    }
    __device__ uint4* quad(uint32_t bucket) const {
        return reinterpret_cast<uint4*>(ranges_ + bucket);
    }
    // Finds the buckets of a thread's rows, which are first, first + kJoinThreads, and so on.
    __device__ void buckets_of(uint32_t first, uint32_t rows, uint32_t (&buckets)[kInsertRows]) const {
#pragma unroll
        for (int r = 0; r < kInsertRows; ++r) {
            const uint32_t number = first + r * kJoinThreads;
            buckets[r] = number < rows ? table_.bucket_of(key_of(number), buckets_) : 0;
        }
    }

    const Table& table_;
    uint16_t* const numbers_;  // of rows
    uint32_t* const ranges_;
    const uint32_t buckets_;
};

}}  // namespace spillway::cuda::hash_join
