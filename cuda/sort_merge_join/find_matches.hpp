// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/device.hpp"
#include "materialize/match_pairs.hpp"
#include "sort_merge_join/sort_relations.hpp"

namespace spillway::cuda { inline namespace sort_merge_joins {

// Pairs of rows with equal keys and marks of rows that have one, by merging the sorted keys of both sides. Waits for
// the device where pairs are wished or counted.
MatchPairs find_matches(Device& device, const SortedRelations& sorted, const MatchWish& wish,
                        const SortMergeOptions& options);

}}  // namespace spillway::cuda::sort_merge_joins
