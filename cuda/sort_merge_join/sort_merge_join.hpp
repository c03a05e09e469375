// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "materialize/join_output.hpp"
#include "primitive/device_relation.hpp"
#include "sort_merge_join/sort_relations.hpp"

// Sort-merge joins of any kind and of any repetition of keys on both sides: sort both sides by key, merge the sorted
// keys, write a pair of row numbers per match, gather the columns (materialize/match_pairs.hpp).
//
// H200, 2^27 x 2^27 rows, 4-byte keys, a 4-byte payload per side, all rows match once; predicted from bytes and the
// rates of npj_policy.hpp, not measured. Per side 4 passes of 16 bytes per row and a look at the keys: 2.4 ms, 4.8 for
// both. Pairs: the keys and 8 bytes of row numbers read, 12 bytes of pairs and keys written, 1 ms. SMJ-UR: a random
// gather of each payload, 3.2 ms; 12 ms in all. SMJ-TR sorts the payloads in place of row numbers and gathers in order,
// 0.4 ms each: 7 ms in all, and as many sorts as there are columns where there are more.
namespace spillway::cuda { inline namespace sort_merge_joins {

// Throws kInvalid for arguments that no caller may give, kOutOfMemory, kCancelled.
JoinResult sort_merge_join(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                           const JoinKind& kind, const std::vector<JoinOutputColumn>& output,
                           const SortMergeOptions& options);
uint64_t sort_merge_count(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                          const JoinKind& kind, const SortMergeOptions& options);

// The second half of sort_merge_join, for relations that were sorted for the same kind and columns. The inputs must
// still be there for schemes that gather from them.
JoinResult join_sorted(Device& device, SortedRelations sorted, const JoinKind& kind,
                       const std::vector<JoinOutputColumn>& output, const SortMergeOptions& options);

// Places [begin, end) of a side that sort_relation() sorted.
struct SortedRange {
    const SortedSide* side = nullptr;
    uint64_t begin = 0;
    uint64_t end = 0;

    uint64_t rows() const { return end - begin; }
};

// Inner joins of parts of sorted sides, which stay as they are: all pairs of rows with equal keys, of which each is in
// one part of a join that is cut anywhere. Both wait for the device. rows: of the result, as they were counted.
uint64_t count_sorted(Device& device, const SortedRange& build, const SortedRange& probe);
JoinResult join_sorted(Device& device, const SortedRange& build, const SortedRange& probe,
                       const std::vector<JoinOutputColumn>& output, uint64_t rows);

}}  // namespace spillway::cuda::sort_merge_joins
