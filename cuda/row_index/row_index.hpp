// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "memory_model/stream_memory.hpp"
#include "radix_partition/row_layout.hpp"
#include "row_index/row_index_policy.hpp"
#include "stream/row_pages.hpp"

namespace spillway::cuda { inline namespace row_index {

constexpr uint32_t kNotIndexed = ~0U;

struct IndexedPartition {
    uint64_t first_bucket = 0;
    uint64_t first_page = 0;
    uint32_t bucket_bits = kNotIndexed;
    uint32_t reserved = 0;
};
static_assert(sizeof(IndexedPartition) == kIndexedPartitionBytes);

// In the offset of a long bucket (kLongBucketRows): all its rows have the same key, with all its words, so that one
// look says how many partners a row has, and which of them a window of the result wants.
constexpr uint32_t kEqualKeys = 1U << 31;

// What kernels that look rows up get. A partition's rows are sorted by bucket: those of bucket b are rows
// [bucket[first_bucket + b], bucket[first_bucket + b + 1]) of it, without kEqualKeys, each in a page of its list.
struct IndexView {
    const uint32_t* rows = nullptr;
    const IndexedPartition* partition = nullptr;  // [partitions]
    const uint32_t* bucket = nullptr;
    const uint32_t* page = nullptr;
    uint32_t row_words = 1;
    uint32_t key_words = 1;
    uint32_t page_shift = 0;
    uint32_t radix_bits = 0;
    uint32_t more_words = 0;  // of the key, behind the first two, and where they begin in a row
    uint32_t more_at = 0;

    // Place among all rows of the pool.
    __host__ __device__ uint64_t place(const IndexedPartition& of, uint32_t row) const {
        const uint64_t slot = row & ((1U << page_shift) - 1);
        return (static_cast<uint64_t>(page[of.first_page + (row >> page_shift)]) << page_shift) + slot;
    }
};

// An index of build rows where they lie: pages keep their rows and no more, sorted by the bits of the mixed key that
// follow the partition's. So it takes 1 to 2 bytes per row, whatever the keys are: no slot is empty, equal keys are
// neighbours, and nothing can fill up. A hash table of the same rows at a load of 0.8 takes a quarter more.
class RowIndex {
  public:
    // partition_rows_max: of a partition that can be indexed, below 2^31; about so many rows are taken as scratch.
    RowIndex(Device& device, Parcels& parcels, RowPages& pages, const RowLayout& layout, int radix_bits,
             uint64_t partition_rows_max);

    uint64_t partition_rows_max() const { return partition_rows_max_; }
    // Rows of a partition that is being sorted; free for others between calls of build().
    uint32_t* scratch() const { return scratch_rows_.as<uint32_t>(); }
    // Sorts the pages of these partitions; others are not indexed afterwards. One histogram and one radix pass from the
    // pages into the scratch, then back by bucket: five times the rows' bytes, four of them from and to memory.
    void build(const std::vector<uint64_t>& partitions);
    IndexView view() const;

  private:
    // Partitions that are sorted by way of the scratch at once.
    struct SortGroup {
        uint64_t first_region = 0;
        uint64_t first_parent = 0;
        uint64_t first_tile = 0;  // in first_tile, which has an entry more per batch
        uint64_t regions = 0;
        uint64_t parents = 0;
        uint64_t rows = 0;
    };
    struct SortPlan {
        std::vector<SortGroup> batches;
        std::vector<uint64_t> begin;  // where each region begins; a region is a page
        std::vector<uint64_t> end;
        std::vector<uint64_t> parent;  // the partition of each region, counted from the batch's first
        std::vector<uint64_t> first_tile;
        std::vector<IndexedPartition> indexed;  // of each partition
        std::vector<uint64_t> first_of_batch;   // the first split region of each partition's batch
    };
    SortPlan plan_sort(const std::vector<uint64_t>& partitions, const std::vector<IndexedPartition>& directory) const;
    void sort(const SortPlan& plan);

    Device& device_;
    Parcels& parcels_;
    RowPages& pages_;
    const RowLayout layout_;
    const uint32_t radix_bits_;
    const uint64_t partition_rows_max_;
    const uint64_t scratch_rows_max_;
    const uint64_t partitions_;
    Allocation scratch_rows_;
    Allocation buckets_;
    Allocation directory_;  // IndexedPartition[partitions]
    Allocation page_lists_;
    uint32_t bucket_bits_ = 0;
    uint32_t split_bits_ = 0;  // of those, that the radix pass takes
};

}}  // namespace spillway::cuda::row_index
