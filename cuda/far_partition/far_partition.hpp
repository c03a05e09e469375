// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "far_partition/far_sizes.hpp"

// First-pass radix partitioning over far memory: kernels read a relation where it lies and write its partitions where
// they are wanted. "Where" is any address that the device can use: its own memory, a peer's, or pinned host memory.
// Bytes of a pass over n tuples of t bytes: n * t read from the source, n * t written to the destination, n * t / 2
// more read for a histogram on the GPU; kHierarchical also writes and reads n * t in GPU memory.
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

// Key and payload have the same width, and may be the same column.
struct FarRelation {
    const void* key = nullptr;  // at multiples of column_bytes
    const void* payload = nullptr;
    // A bit per row in whole words, 1 = has a key; the others go to no partition. nullptr: all have. For pages alone;
    // kShared or kStandard takes the place of kLinear then.
    const uint32_t* key_valid = nullptr;
    uint64_t rows = 0;
    uint32_t column_bytes = 8;  // 4 or 8
};

// One piece of memory, in which partitions begin at multiples of kFarAlignBytes. Gaps between them stay as they are.
struct FarPiece {
    void* data = nullptr;  // at a multiple of kFarLineBytes
    uint64_t bytes = 0;    // far_piece_bytes() suffices whatever the keys
    // Rows per partition, 2^radix_bits of them, as the CPU has counted them; nullptr: counted on the GPU, which reads
    // the keys once more.
    const uint64_t* counts = nullptr;
};
uint64_t far_piece_bytes(uint64_t rows, uint32_t column_bytes, int radix_bits);

// Pages of any mix of tiers, taken from the first one on as partitions grow. No histogram.
struct FarPages {
    char* const* addresses = nullptr;  // in device memory; each page at a multiple of kFarLineBytes
    uint64_t pages = 0;                // < 2^26
    uint64_t page_rows = 0;            // a power of two; at least kFarLineBytes of them
};
// Pages that suffice whatever the keys: each partition may leave a part of its last one empty.
uint64_t far_pages_needed(uint64_t rows, uint64_t page_rows, int radix_bits);

// data or addresses; the other is nullptr.
struct FarDestination {
    FarPiece piece;
    FarPages pages;
};

struct FarPartitionOptions : FarBufferOptions {
    cudaStream_t stream = nullptr;  // nullptr: the device's
    // Rows are counted on their way, for a second pass of split_bits more bits: split_counts[i] += those whose mixed
    // keys begin with the radix_bits + split_bits bits of i. In device memory; nullptr: they are not.
    uint64_t* split_counts = nullptr;
    int split_bits = 0;
    // Keys are not mixed but stored with their bits in reverse order, for perfect hashing: partitions by the top bits
    // of such words are those by the lowest bits of keys, as in the code of the Triton join's paper. For pages alone.
    bool reversed_keys = false;
};

// Rows are [mixed key][payload] (primitive/mix.cuh), in no order inside their partition.
struct FarPartitions {
    int radix_bits = 0;
    uint32_t tuple_bytes = 0;
    char* data = nullptr;  // one piece; nullptr: pages
    uint32_t page_shift = 0;
    std::vector<uint64_t> counts;  // rows per partition
    std::vector<uint64_t> begin;   // one piece: first row of each; pages: first entry of each in the list of pages
    uint64_t pages_used = 0;
    Allocation device_counts;  // the same in device memory
    Allocation device_begin;
    Allocation page_list;  // char*[pages_used], partition by partition

    uint64_t partitions() const { return counts.size(); }
    FarRows device_rows() const;
    // The same for the host. `pages` holds what it points to; waits for the copy.
    FarRows host_rows(Device& device, std::vector<char*>& pages) const;
};

// Waits for the stream. The stream first waits for what is on the device's stream. Throws
// - kInvalid: widths, alignment, bits, a piece that is too small, counts that are not those of the keys;
// - kOutOfMemory: buffers do not fit GPU memory, or (tier host) the pages do not suffice. wanted_bytes is then what all
//   pages would have been, and the contents of the pages are undefined.
FarPartitions far_partition(Device& device, const FarRelation& relation, const FarDestination& destination,
                            const FarPartitionOptions& options);

}}  // namespace spillway::cuda::far_partitioning
