// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/sector_bytes.hpp"
#include "materialize/match_output.cuh"
#include "primitive/device_relation.hpp"

// What a no-partitioning join must move, for reports.
namespace spillway::cuda { inline namespace no_partitioning_joins {

inline uint64_t npj_key_bytes(const DeviceRelation& relation) {
    return relation.rows * relation.key.width + (relation.key_valid == nullptr ? 0 : relation.rows / 8);
}

// One slot per row is the least that a look takes, however long walks are.
inline uint64_t npj_slot_bytes(const Device& device, uint64_t rows, uint64_t table_bytes) {
    return sector_bytes(device, rows, sizeof(uint64_t), table_bytes);
}

// Values of the build side at random, of the probe side in its order (its keys are at hand), and the result's columns.
inline uint64_t npj_match_bytes(const Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                                const MatchOutput& out, const void* const* source, uint64_t matches) {
    uint64_t bytes = 0;
    for (int c = 0; c < out.columns(); ++c) {
        const uint64_t width = out.column[c].width;
        bytes += matches * width;
        if (source[c] == nullptr || source[c] == probe.key.data) continue;
        const bool is_build = c < out.last_column(0);
        bytes += sector_bytes(device, matches, width, (is_build ? build.rows : probe.rows) * width,
                              is_build ? kAnyOrder : 1);
    }
    return bytes;
}

}}  // namespace spillway::cuda::no_partitioning_joins
