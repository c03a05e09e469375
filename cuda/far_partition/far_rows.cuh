// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace spillway::cuda { inline namespace far_partitioning {

// Where the rows of all partitions lie, as kernels and the host see it: the arrays are in device memory or, of
// FarPartitions::host_rows(), in host memory. Rows themselves lie in whatever tier the destination named.
struct FarRows {
    char* data = nullptr;              // one piece; nullptr: pages
    char* const* pages = nullptr;      // addresses, partition by partition
    const uint64_t* begin = nullptr;   // [partitions] one piece: first row of the partition; pages: its first page
    const uint64_t* counts = nullptr;  // [partitions] rows
    uint32_t page_shift = 0;           // rows of a page, as a power of two
    uint32_t tuple_bytes = 0;

    // Row i of the partition, i < counts[partition]: [mixed key][payload].
    __host__ __device__ char* row(uint64_t partition, uint64_t i) const {
        if (data != nullptr) return data + (begin[partition] + i) * tuple_bytes;
        char* const page = pages[begin[partition] + (i >> page_shift)];
        return page + (i & ((1ULL << page_shift) - 1)) * tuple_bytes;
    }
    // Rows from row i on that lie behind each other.
    __host__ __device__ uint64_t run(uint64_t partition, uint64_t i) const {
        const uint64_t rest = counts[partition] - i;
        if (data != nullptr) return rest;
        const uint64_t on_page = (1ULL << page_shift) - (i & ((1ULL << page_shift) - 1));
        return rest < on_page ? rest : on_page;
    }
};

}}  // namespace spillway::cuda::far_partitioning
