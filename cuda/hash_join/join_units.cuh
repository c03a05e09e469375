// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "hash_join/join_pass.hpp"
#include "hash_join/join_policy.hpp"
#include "primitive/bulk_copy.cuh"
#include "primitive/warp.cuh"

namespace spillway::cuda { inline namespace hash_join {

// Returns how many units one co-partition makes: its build rows are cut into parts that a block holds, its probe rows
// into parts of probe_unit_rows, and each pair of two such parts is a unit.
__host__ __device__ inline uint64_t join_units(uint64_t build_rows, uint64_t probe_rows, uint32_t build_capacity,
                                               uint32_t probe_unit_rows) {
    return (build_rows + build_capacity - 1) / build_capacity * ((probe_rows + probe_unit_rows - 1) / probe_unit_rows);
}

// Rows that a block joins at a time.
struct JoinUnit {
    uint64_t build_first;
    uint64_t probe_first;
    uint32_t build_count;
    uint32_t probe_count;  // 0: there is no unit left
};

__device__ inline const uint32_t* build_rows_of(const JoinPass& pass, const JoinUnit& unit) {
    return pass.build.rows + unit.build_first * pass.build.row_words;
}
// Rounded up into the padding behind the partition.
__device__ inline uint32_t build_bytes_of(const JoinPass& pass, const JoinUnit& unit) {
    return (unit.build_count * pass.build.row_words * 4 + 15) & ~15U;
}

// By a warp of its own, while the others work: the search takes three loads from global memory one after the other, and
// the divisions a hundred instructions each.
__device__ inline void fetch_unit(const JoinPass& pass, JoinUnit& unit) {
    unsigned long long number = 0;
    if (lane_index() == 0) number = atomicAdd(pass.next_unit, 1ULL);
    number = __shfl_sync(kFullWarp, number, 0);
    if (number >= pass.first_unit[pass.partitions]) {
        if (lane_index() == 0) unit.probe_count = 0;
        return;
    }
    const uint64_t p = warp_last_not_above(pass.first_unit, pass.partitions, static_cast<uint64_t>(number));
    if (lane_index() != 0) return;
    const uint64_t build_rows = pass.build.end[p] - pass.build.begin[p];
    const uint64_t capacity = pass.build_capacity;
    const uint64_t parts = (build_rows + capacity - 1) / capacity;
    const uint64_t within = number - pass.first_unit[p];
    const uint64_t build_at = within % parts * capacity;
    const uint64_t probe_at = within / parts * pass.probe_unit_rows;
    const uint64_t probe_rows = pass.probe.end[p] - pass.probe.begin[p];
    unit.build_first = pass.build.begin[p] + build_at;
    unit.probe_first = pass.probe.begin[p] + probe_at;
    unit.build_count = static_cast<uint32_t>(min(build_rows - build_at, capacity));
    unit.probe_count = static_cast<uint32_t>(min(probe_rows - probe_at, static_cast<uint64_t>(pass.probe_unit_rows)));
    // What the block will wait for next comes into the L2 cache while it works.
    prefetch_l2(build_rows_of(pass, unit), min(build_bytes_of(pass, unit), kPrefetchBytesMax));
}

}}  // namespace spillway::cuda::hash_join
