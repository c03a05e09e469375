// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <utility>

#include "bucket_chain_join/bucket_chain_join.hpp"
#include "equi_join/equi_join.hpp"
#include "gftr_join/gftr_join.hpp"
#include "materialize/match_pairs.hpp"
#include "materialize/row_list.hpp"
#include "no_partitioning_join/no_partitioning_join.hpp"
#include "no_partitioning_join/npj_policy.hpp"
#include "shared_histogram_join/shared_histogram_join.hpp"
#include "sort_merge_join/sort_merge_join.hpp"

namespace spillway::cuda { inline namespace equi_joins {

namespace {

RadixJoinWish radix_wish(const EquiJoin& join) {
    return {join.kind, join.output, join.radix_bits, join.row_words_max};
}

NpjOptions npj_options(const EquiJoin& join) {
    NpjOptions options;
    options.scheme =
        join.algorithm == JoinAlgorithm::kPerfectHash ? HashingScheme::kPerfect : HashingScheme::kLinearProbing;
    options.first_key = join.first_key;
    options.key_range = join.key_range;
    options.expected_rows = join.expected_rows;
    options.plan = join.plan;
    return options;
}

// The no-partitioning join as a finder of pairs, for kinds that it has no kernels for: an inner join whose only columns
// are row numbers, and marks made of those. Semi and anti joins need memory for all pairs that way.
class NpjPairs {
  public:
    NpjPairs(Device& device, const DeviceRelation& build, const DeviceRelation& probe, const EquiJoin& join)
        : device_(device), build_(numbered(build)), probe_(numbered(probe)), options_(npj_options(join)) {
        // Fewer rows may come out than there are pairs, for which the join would run once more.
        if (!join.kind.pairs()) options_.expected_rows = std::max(options_.expected_rows, pairs_at_first());
    }

    MatchPairs find(const MatchWish& wish) const {
        const bool marks = wish.build_marks != nullptr || wish.probe_marks != nullptr;
        MatchPairs pairs;
        if (!wish.pairs && !marks) {
            pairs.count = no_partitioning_count(device_, build_, probe_, options_);
            return pairs;
        }
        JoinResult rows =
            no_partitioning_join(device_, build_, probe_, {{OutputSide::kBuild, 0}, {OutputSide::kProbe, 0}}, options_);
        pairs.count = rows.rows;
        pairs.build_width = build_.columns[0].width;
        pairs.probe_width = probe_.columns[0].width;
        pairs.build_rows = std::move(rows.columns[0]);
        pairs.probe_rows = std::move(rows.columns[1]);
        mark({pairs.build_rows.as(), pairs.build_width, pairs.count, build_.rows}, wish.build_marks);
        mark({pairs.probe_rows.as(), pairs.probe_width, pairs.count, probe_.rows, true}, wish.probe_marks);
        return pairs;
    }

  private:
    uint64_t pairs_at_first() const {
        if (probe_.rows <= kNpjUnaskedPairs) return probe_.rows;
        const uint64_t pair_bytes = build_.columns[0].width + probe_.columns[0].width;
        return std::min(probe_.rows, device_.memory().free_bytes() / kNpjUnaskedMemoryPart / pair_bytes);
    }
    static DeviceRelation numbered(const DeviceRelation& relation) {
        DeviceRelation keys = relation;
        keys.columns = {{nullptr, row_number_width(relation.rows)}};
        return keys;
    }
    void mark(const RowNumbers& rows, uint32_t* marks) const {
        if (marks != nullptr) mark_rows(device_, rows, marks);
    }

    Device& device_;
    const DeviceRelation build_;
    const DeviceRelation probe_;
    NpjOptions options_;
};

SortMergeOptions sort_merge_options(const EquiJoin& join) {
    SortMergeOptions options;
    options.scheme = join.algorithm == JoinAlgorithm::kMergeSort          ? SortMergeScheme::kMergeSort
                     : join.algorithm == JoinAlgorithm::kSortMergeColumns ? SortMergeScheme::kColumns
                                                                          : SortMergeScheme::kGather;
    options.expected_rows = join.expected_rows;
    options.plan = join.plan;
    return options;
}

PairJoinOptions pair_join_options(const EquiJoin& join) {
    PairJoinOptions options;
    options.radix_bits = join.radix_bits;
    options.plan = join.plan;
    options.expected_rows = join.expected_rows;
    return options;
}

// Partitioned joins of keys and row numbers as finders of pairs.
MatchPairs tuple_pairs(Device& device, const DeviceRelation& build, const DeviceRelation& probe, const EquiJoin& join,
                       const MatchWish& wish) {
    const PairJoinOptions options = pair_join_options(join);
    return join.algorithm == JoinAlgorithm::kBucketChain ? bucket_chain_pairs(device, build, probe, wish, options)
                                                         : shared_histogram_pairs(device, build, probe, wish, options);
}

// Counting needs keys alone.
DeviceRelation keys_of(const DeviceRelation& relation) {
    DeviceRelation keys;
    keys.rows = relation.rows;
    keys.key = relation.key;
    keys.key_valid = relation.key_valid;
    return keys;
}

// The no-partitioning join's own kernels write no such column.
bool wants_presence(const EquiJoin& join) {
    return std::any_of(join.output.begin(), join.output.end(),
                       [](const JoinOutputColumn& column) { return column.side == OutputSide::kPresence; });
}

}  // namespace

JoinResult equi_join(Device& device, const DeviceRelation& build, const DeviceRelation& probe, const EquiJoin& join) {
    switch (join.algorithm) {
        case JoinAlgorithm::kRadixHash:
            return RadixHashJoin(device, build, probe, radix_wish(join)).materialize(join.expected_rows, join.plan);
        case JoinAlgorithm::kNoPartitioning:
        case JoinAlgorithm::kPerfectHash: {
            if (join.kind.inner() && !wants_presence(join)) {
                return no_partitioning_join(device, build, probe, join.output, npj_options(join));
            }
            const NpjPairs pairs(device, build, probe, join);
            return materialize_pairs(device, build, probe, join.kind, join.output,
                                     [&](const MatchWish& wish) { return pairs.find(wish); });
        }
        case JoinAlgorithm::kSortMergeGather:
        case JoinAlgorithm::kSortMergeColumns:
        case JoinAlgorithm::kMergeSort:
            return sort_merge_join(device, build, probe, join.kind, join.output, sort_merge_options(join));
        case JoinAlgorithm::kBucketChain:
        case JoinAlgorithm::kSharedHistogram:
            return materialize_pairs(device, build, probe, join.kind, join.output, [&](const MatchWish& wish) {
                return tuple_pairs(device, build, probe, join, wish);
            });
        case JoinAlgorithm::kGftrColumns:
            return gftr_join(device, build, probe, join.kind, join.output, pair_join_options(join));
    }
    throw Error(ErrorCode::kInvalid, "a join is of no known algorithm");
}

uint64_t equi_join_count(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                         const EquiJoin& join) {
    const DeviceRelation build_keys = keys_of(build);
    const DeviceRelation probe_keys = keys_of(probe);
    switch (join.algorithm) {
        case JoinAlgorithm::kRadixHash:
            return RadixHashJoin(device, build_keys, probe_keys, radix_wish(join)).count();
        case JoinAlgorithm::kNoPartitioning:
        case JoinAlgorithm::kPerfectHash: {
            const NpjPairs pairs(device, build_keys, probe_keys, join);
            return count_pairs(device, build_keys, probe_keys, join.kind,
                               [&](const MatchWish& wish) { return pairs.find(wish); });
        }
        case JoinAlgorithm::kSortMergeGather:
        case JoinAlgorithm::kSortMergeColumns:
        case JoinAlgorithm::kMergeSort:
            return sort_merge_count(device, build_keys, probe_keys, join.kind, sort_merge_options(join));
        case JoinAlgorithm::kBucketChain:
        case JoinAlgorithm::kSharedHistogram:
            return count_pairs(device, build_keys, probe_keys, join.kind, [&](const MatchWish& wish) {
                return tuple_pairs(device, build_keys, probe_keys, join, wish);
            });
        case JoinAlgorithm::kGftrColumns:
            return gftr_count(device, build_keys, probe_keys, join.kind, pair_join_options(join));
    }
    throw Error(ErrorCode::kInvalid, "a join is of no known algorithm");
}

RadixJoinPieces equi_join_pieces(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                                 const EquiJoin& join) {
    if (join.algorithm != JoinAlgorithm::kRadixHash) {
        throw Error(ErrorCode::kInvalid, "only the radix hash join gives its result in pieces");
    }
    return RadixJoinPieces(std::make_unique<RadixHashJoin>(device, build, probe, radix_wish(join)));
}

}}  // namespace spillway::cuda::equi_joins
