// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "hash_join/join_pass.hpp"
#include "primitive/device_relation.hpp"

// Rows that are written once each and not as pairs: rows without a match of outer joins, results of semi and anti
// joins.
namespace spillway::cuda { inline namespace hash_join {

struct LoneRows {
    int side = 0;         // 0: build, 1: probe
    bool marked = false;  // rows whose mark is set, or those whose mark is not
    bool count_only = false;
};

// Appends rows of partitions to the output, or counts them into its matches. rows: about as many as the side has.
void launch_lone_rows(Device& device, const JoinPass& pass, const LoneRows& what, uint32_t key_words, uint64_t rows);
// Does the same with the rows without a key of the relation that was partitioned, as far as they lie in [first, end),
// where `first` is a multiple of 32. source[] says where output.column[] come from.
void launch_keyless_rows(Device& device, const MatchOutput& output, const DeviceRelation& relation,
                         const void* const* source, const LoneRows& what, uint64_t first, uint64_t end);
inline void launch_keyless_rows(Device& device, const MatchOutput& output, const DeviceRelation& relation,
                                const void* const* source, const LoneRows& what) {
    launch_keyless_rows(device, output, relation, source, what, 0, relation.rows);
}
// Warps of either for a side of so many rows: each may leave a chunk of the output open.
uint64_t lone_rows_warps(Device& device, uint64_t rows);

}}  // namespace spillway::cuda::hash_join
