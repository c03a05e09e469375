// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "far_partition/block_atomics.cuh"
#include "far_partition/far_policy.hpp"
#include "far_partition/far_sizes.hpp"
#include "primitive/mix.cuh"

namespace spillway::cuda { inline namespace far_partitioning {

constexpr uint64_t kNowhere = ~0ULL;

// Bits of FarTarget::failed.
constexpr uint32_t kPagesExhausted = 1;
constexpr uint32_t kCountsWrong = 2;

// A page in the directory: [partition: 12 bits][place in the partition's list: 26][number of the page + 1: 26], so that
// no entry is 0. One word, published by one atomic operation, which says all: addresses of pages were in memory before
// the kernel began, and rows on a page are nobody's to read before it ends. So it needs no order with other accesses.
__host__ __device__ inline uint64_t page_key(uint64_t partition, uint64_t place) {
    return partition << kPageNumberBits | place;
}

// Where kernels write to. Partitions grow by ranges that flushes take off a 64-bit cursor; what a range's rows lie on
// is asked afterwards. Cursors and directory are in device memory, wherever the rows are.
//
// The directory of pages is a hash table from (partition, place in its list) to a page: lists of unknown length side by
// side would take partitions times pages. Nobody who opens a page waits for anybody, so waiting for an opened page
// always ends.
struct FarTarget {
    uint64_t* cursors = nullptr;  // [partitions] rows taken
    uint32_t* failed = nullptr;
    uint32_t tuple_bytes = 0;
    // One piece.
    char* data = nullptr;
    const uint64_t* begin = nullptr;   // [partitions] first row
    const uint64_t* counts = nullptr;  // [partitions] rows, which cursors must not exceed
    // Pages.
    char* const* pages = nullptr;
    uint64_t page_count = 0;
    uint64_t* next_page = nullptr;  // goes on behind the last one, so that it tells how many were wanted
    uint64_t* directory = nullptr;
    uint64_t directory_mask = 0;
    uint32_t page_shift = 0;

    // A range of n > 0 rows of the partition: the number of its first row; kNowhere: the counts of a piece were wrong,
    // and the pass has failed. Opens the pages that begin inside.
    __device__ uint64_t take(uint64_t partition, uint64_t n) const {
        const uint64_t at = atomicAdd(reinterpret_cast<unsigned long long*>(&cursors[partition]), n);
        if (data != nullptr) {
            if (at + n > counts[partition]) {
                atomicOr(failed, kCountsWrong);
                return kNowhere;
            }
        } else {
            const uint64_t first = (at + (1ULL << page_shift) - 1) >> page_shift;
            const uint64_t last = (at + n - 1) >> page_shift;
            for (uint64_t place = first; place <= last; ++place) open_page(partition, place);
        }
        return at;
    }

    // Returns the address of a row inside a range that was taken, or nullptr if there is no room for it and the pass
    // has failed. It waits while another thread is opening the page. If that thread is a lane of this warp, it must
    // have done so before the call (__syncwarp() in between).
    __device__ char* row(uint64_t partition, uint64_t at) const {
        if (data != nullptr) {
            return at < counts[partition] ? data + (begin[partition] + at) * tuple_bytes : nullptr;
        }
        char* const page = find_page(partition, at >> page_shift);
        return page == nullptr ? nullptr : page + (at & ((1ULL << page_shift) - 1)) * tuple_bytes;
    }

  private:
    __device__ void open_page(uint64_t partition, uint64_t place) const {
        const uint64_t number = atomicAdd(reinterpret_cast<unsigned long long*>(next_page), 1ULL);
        if (number >= page_count) {
            atomicOr(failed, kPagesExhausted);
            return;
        }
        const uint64_t key = page_key(partition, place);
        const uint64_t entry = key << kPageNumberBits | (number + 1);
        // There are more slots than pages.
        for (uint64_t slot = mix64(key) & directory_mask;; slot = (slot + 1) & directory_mask) {
            auto* const word = reinterpret_cast<unsigned long long*>(&directory[slot]);
            if (atomicCAS(word, 0ULL, static_cast<unsigned long long>(entry)) == 0) return;
        }
    }

    __device__ char* find_page(uint64_t partition, uint64_t place) const {
        const uint64_t key = page_key(partition, place);
        uint64_t slot = mix64(key) & directory_mask;
        for (;;) {
            const uint64_t entry = load_relaxed_global(&directory[slot]);
            if (entry == 0) {  // not there yet
                if (load_relaxed_global(failed) != 0) return nullptr;
                __nanosleep(kPageBackoffNs);
            } else if (entry >> kPageNumberBits == key) {
                return pages[(entry & ((1ULL << kPageNumberBits) - 1)) - 1];
            } else {
                slot = (slot + 1) & directory_mask;
            }
        }
    }
};

// What kernels with buffers get. Buffers in GPU memory: with a second level those of the blocks, which stay where they
// are; without, room for what is left in shared memory at the end.
struct CombiningPass {
    uint32_t shift = 32;  // of the partition, 32 - radix bits
    uint32_t partitions = 1;
    uint32_t buffer_rows = 1;       // of a buffer in shared memory, a power of two
    uint32_t memory_rows = 1;       // of a buffer in GPU memory: buffer_rows, or those of the second level
    uint32_t memory_buffers = 0;    // of a block; 0: nothing is left over, there is nothing to drain
    char* memory = nullptr;         // [grid][memory_buffers][memory_rows]
    Leftover* leftovers = nullptr;  // [grid][partitions]
    FarTarget target;
};

}}  // namespace spillway::cuda::far_partitioning
