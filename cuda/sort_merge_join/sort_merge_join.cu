// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "materialize/match_pairs.hpp"
#include "sort_merge_join/find_matches.hpp"
#include "sort_merge_join/sort_merge_join.hpp"

namespace spillway::cuda { inline namespace sort_merge_joins {

JoinResult join_sorted(Device& device, SortedRelations sorted, const JoinKind& kind,
                       const std::vector<JoinOutputColumn>& output, const SortMergeOptions& options) {
    const auto match = [&](const MatchWish& wish) {
        MatchPairs pairs = find_matches(device, sorted, wish, options);
        // Sorted keys that are no column of the result give their memory to it. Sorted columns have them as key.
        for (SortedSide* side : {&sorted.build, &sorted.probe}) {
            side->rows.reset();
            if (options.scheme != SortMergeScheme::kColumns) side->keys.reset();
        }
        return pairs;
    };
    return materialize_pairs(device, sorted.build.relation, sorted.probe.relation, kind, output, match);
}

JoinResult sort_merge_join(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                           const JoinKind& kind, const std::vector<JoinOutputColumn>& output,
                           const SortMergeOptions& options) {
    return join_sorted(device, sort_relations(device, build, probe, kind, output, options), kind, output, options);
}

uint64_t sort_merge_count(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                          const JoinKind& kind, const SortMergeOptions& options) {
    const SortedRelations sorted = sort_relations(device, build, probe, kind, {}, options);
    return count_pairs(device, sorted.build.relation, sorted.probe.relation, kind,
                       [&](const MatchWish& wish) { return find_matches(device, sorted, wish, options); });
}

}}  // namespace spillway::cuda::sort_merge_joins
