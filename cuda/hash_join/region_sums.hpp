// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "hash_join/join_pass.hpp"
#include "radix_partition/row_layout.hpp"

namespace spillway::cuda { inline namespace hash_join {

// Rows of one side in regions: those of region r are [begin[r], end[r]), each region begins at a multiple of
// kRegionAlignRows. Device memory.
struct RegionRows {
    const uint32_t* rows = nullptr;
    const uint64_t* begin = nullptr;  // [regions]
    const uint64_t* end = nullptr;
    uint64_t count = 0;  // of all regions
};

// How regions are joined in shared memory.
struct RegionTables {
    // A block's hash table has so many at most: a multiple of 4, kBucketsMin or more; 0: as many as fit.
    uint32_t buckets = 0;
    // Build rows make an array: keys are stored with their bits reversed, unique and dense (perfect_join.hpp).
    bool perfect = false;
};

// Counts and sums of joins of many pairs of regions, one launch after the other; the host waits for none of them.
// Rows are a key and one payload of its width.
class RegionSums {
  public:
    // keys: whether their sum is wanted.
    RegionSums(Device& device, const RowLayout& layout, bool keys, const RegionTables& tables = {});

    // Joins region r of one side with region r of the other. radix_bits: that the keys of a region have in common.
    // multiprocessors: that the join is to take; 0: all.
    void add(const RegionRows& build, const RegionRows& probe, uint64_t regions, int radix_bits,
             uint32_t multiprocessors);

    struct Totals {
        uint64_t matches = 0;
        uint64_t keys = 0;
        uint64_t build = 0;  // payloads
        uint64_t probe = 0;
    };
    // Waits for the device. Throws kInvalid where keys are not what perfect hashing wants.
    Totals read();

  private:
    void launch_perfect(uint64_t blocks) const;

    Device& device_;
    const RowLayout layout_;
    const RegionTables tables_;
    Allocation totals_;  // SumTotal, and behind them the next unit and PerfectRefusal
    JoinPass pass_;
};

}}  // namespace spillway::cuda::hash_join
