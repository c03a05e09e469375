// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "row_index/row_index.hpp"
#include "row_index/row_index_policy.hpp"
#include "stream/row_tiles.cuh"
#include "stream/stream_policy.hpp"

namespace spillway::cuda { inline namespace row_index {

// Rows of a batch of partitions, each split into 2^split_bits regions, on their way back to the pages.
struct SortPass {
    const uint64_t* end = nullptr;                // [regions] in the scratch
    const uint64_t* first = nullptr;              // [regions + 1] exclusive sum of their rows
    const IndexedPartition* partition = nullptr;  // of the batch
    const uint32_t* page = nullptr;
    uint32_t* bucket = nullptr;
    uint32_t split_bits = 0;
    uint32_t radix_bits = 0;
    uint32_t bucket_bits = 0;
    uint32_t page_shift = 0;
    uint32_t staged_max = 0;  // rows of a region that are sorted in shared memory
    uint32_t more_words = 0;  // as in IndexView
    uint32_t more_at = 0;

    __host__ __device__ uint32_t buckets() const { return 1U << (bucket_bits - split_bits); }
};

// Exclusive sum of `count` counters in shared memory, a power of two of them; all threads of the block call.
__device__ inline void sum_counters(uint32_t* counter, uint32_t count) {
    __shared__ uint32_t warp_sums[kSortThreads / kWarpThreads];
    const uint32_t each = count > kSortThreads ? count / kSortThreads : 1;
    const uint32_t from = threadIdx.x * each;
    uint32_t own = 0;
    for (uint32_t i = from; i < from + each && i < count; ++i) own += counter[i];
    const uint32_t inclusive = warp_inclusive_sum(own);
    if (lane_index() == kWarpThreads - 1) warp_sums[warp_index()] = inclusive;
    __syncthreads();
    uint32_t sum = inclusive - own;
    for (uint32_t warp = 0; warp < warp_index(); ++warp) sum += warp_sums[warp];
    for (uint32_t i = from; i < from + each && i < count; ++i) {
        const uint32_t rows = counter[i];
        counter[i] = sum;
        sum += rows;
    }
    __syncthreads();
}

// One region by one block: rows are counted by bucket, buckets get their places, rows go there. A region that fits is
// read once, into shared memory, and written once, in order. A larger one (equal keys) is read twice, and its rows go
// where they fall: for regions that would have fitted, that took 466 us for 2^23 rows of 16 bytes on an H200, as the
// regions of all blocks together left the L2 cache (413 MB read, 238 written).
template <int kKeyWords, class Word>
class RegionSort {
  public:
    // row_words: of Word. memory: counters, staged rows, their order.
    __device__ RegionSort(const SortPass& pass, const Word* rows, uint32_t row_words, Word* to, uint4* memory)
        : pass_(pass),
          row_words_(row_words),
          to_(to),
          buckets_(pass.buckets()),
          counter_(reinterpret_cast<uint32_t*>(memory)),
          staged_(reinterpret_cast<Word*>(memory + (buckets_ + 3) / 4)),
          order_(reinterpret_cast<uint16_t*>(staged_ + static_cast<uint64_t>(pass.staged_max) * row_words)),
          indexed_(pass.partition[blockIdx.x >> pass.split_bits]) {
        const uint64_t first = pass.first[blockIdx.x];
        rows_ = pass.first[blockIdx.x + 1] - first;
        base_ = static_cast<uint32_t>(first - pass.first[(blockIdx.x >> pass.split_bits) << pass.split_bits]);
        from_ = rows + (pass.end[blockIdx.x] - rows_) * row_words;
    }

    __device__ void run() {
        for (uint32_t b = threadIdx.x; b < buckets_; b += blockDim.x) counter_[b] = 0;
        const bool fits = rows_ <= pass_.staged_max;
        if (fits) {
            const auto words = static_cast<uint32_t>(rows_) * row_words_;
            for (uint32_t i = threadIdx.x; i < words; i += blockDim.x) staged_[i] = from_[i];
        }
        const Word* const rows = fits ? staged_ : from_;
        __syncthreads();
        for (uint64_t row = threadIdx.x; row < rows_; row += blockDim.x) atomicAdd(&counter_[bucket(rows, row)], 1U);
        __syncthreads();
        sum_counters(counter_, buckets_);
        write_buckets();
        __syncthreads();
        if (fits) {
            write_in_order();
        } else {
            for (uint64_t row = threadIdx.x; row < rows_; row += blockDim.x) {
                Word* const target = place(atomicAdd(&counter_[bucket(rows, row)], 1U));
                for (uint32_t w = 0; w < row_words_; ++w) target[w] = rows[row * row_words_ + w];
            }
        }
        mark_equal_keys();
    }

  private:
    __device__ uint32_t bucket(const Word* rows, uint64_t row) const {
        const uint64_t key = row_key<kKeyWords>(reinterpret_cast<const uint32_t*>(rows + row * row_words_));
        return static_cast<uint32_t>(bucket_of<kKeyWords>(key, pass_.radix_bits, pass_.bucket_bits)) & (buckets_ - 1);
    }

    // Returns where the region's row that is number `row` in order goes, in a page of the partition.
    __device__ Word* place(uint32_t row) const {
        const uint32_t in_partition = base_ + row;
        const uint64_t page = pass_.page[indexed_.first_page + (in_partition >> pass_.page_shift)];
        const uint32_t slot = in_partition & ((1U << pass_.page_shift) - 1);
        return to_ + ((page << pass_.page_shift) + slot) * row_words_;
    }

    __device__ void write_buckets() const {
        const uint64_t digit = blockIdx.x & ((1U << pass_.split_bits) - 1);
        uint32_t* const bucket = pass_.bucket + indexed_.first_bucket + digit * buckets_;
        for (uint32_t b = threadIdx.x; b < buckets_; b += blockDim.x) bucket[b] = base_ + counter_[b];
        // Where the last bucket of the partition ends.
        if (digit + 1 == 1ULL << pass_.split_bits && threadIdx.x == 0) {
            bucket[buckets_] = base_ + static_cast<uint32_t>(rows_);
        }
    }

    // Buckets that are long because one key is frequent say so. Reads the rows of long buckets once more, and a counter
    // per bucket in shared memory. Of many long buckets some go without.
    __device__ void mark_equal_keys() const {
        __shared__ uint32_t long_bucket[kMarkedBucketsMax];
        __shared__ uint32_t long_buckets;
        if (rows_ <= kLongBucketRows) return;
        if (threadIdx.x == 0) long_buckets = 0;
        __syncthreads();  // all rows are in their places, too
        // Counters stand at the ends of their buckets now.
        const auto begin_of = [&](uint32_t b) { return b == 0 ? 0 : counter_[b - 1]; };
        for (uint32_t b = threadIdx.x; b < buckets_; b += blockDim.x) {
            if (counter_[b] - begin_of(b) <= kLongBucketRows) continue;
            const uint32_t at = atomicAdd(&long_buckets, 1U);
            if (at < kMarkedBucketsMax) long_bucket[at] = b;
        }
        __syncthreads();
        for (uint32_t i = 0; i < min(long_buckets, kMarkedBucketsMax); ++i) {
            const uint32_t b = long_bucket[i];
            const uint32_t begin = begin_of(b);
            const auto* const first = reinterpret_cast<const uint32_t*>(place(begin));
            const uint64_t key = row_key<kKeyWords>(first);
            bool equal = true;
            for (uint64_t row = begin + uint64_t{threadIdx.x}; equal && row < counter_[b]; row += blockDim.x) {
                const auto* const other = reinterpret_cast<const uint32_t*>(place(static_cast<uint32_t>(row)));
                equal = row_key<kKeyWords>(other) == key &&
                        equal_words(first + pass_.more_at, other + pass_.more_at, pass_.more_words);
            }
            const bool all_equal = __syncthreads_and(equal ? 1 : 0) != 0;
            if (all_equal && threadIdx.x == 0) {
                const uint64_t digit = blockIdx.x & ((1U << pass_.split_bits) - 1);
                pass_.bucket[indexed_.first_bucket + digit * buckets_ + b] |= kEqualKeys;
            }
        }
    }

    __device__ void write_in_order() const {
        for (uint32_t row = threadIdx.x; row < rows_; row += blockDim.x) {
            order_[atomicAdd(&counter_[bucket(staged_, row)], 1U)] = static_cast<uint16_t>(row);
        }
        __syncthreads();
        const auto words = static_cast<uint32_t>(rows_) * row_words_;
        for (uint32_t i = threadIdx.x; i < words; i += blockDim.x) {
            const uint32_t row = i / row_words_;
            const uint32_t word = i % row_words_;
            place(row)[word] = staged_[order_[row] * row_words_ + word];
        }
    }

    const SortPass& pass_;
    const uint32_t row_words_;
    Word* const to_;
    const uint32_t buckets_;
    uint32_t* const counter_;
    Word* const staged_;
    uint16_t* const order_;
    const IndexedPartition indexed_;
    const Word* from_ = nullptr;
    uint64_t rows_ = 0;
    uint32_t base_ = 0;  // rows of the partition in regions before
};

template <int kKeyWords, class Word>
__global__ void __launch_bounds__(kSortThreads)
    sort_regions(const __grid_constant__ SortPass pass, const Word* rows, uint32_t row_words, Word* to) {
    extern __shared__ uint4 memory[];
    RegionSort<kKeyWords, Word>(pass, rows, row_words, to, memory).run();
}

}}  // namespace spillway::cuda::row_index
