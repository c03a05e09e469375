// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "gftr_join/gftr_join.hpp"
#include "gftr_join/partitioned_side.hpp"
#include "materialize/match_output.cuh"
#include "materialize/match_pairs.hpp"

namespace spillway::cuda { inline namespace gftr_joins {

namespace {

class GftrJoin {
  public:
    GftrJoin(Device& device, const DeviceRelation& build, const DeviceRelation& probe, const JoinKind& kind,
             const PairJoinOptions& options)
        : device_(device),
          kind_(kind),
          options_(options),
          radix_bits_(tuple_radix_bits(build.rows, options)),
          row_width_(tuple_row_width(build, probe, options)),
          side_{{device, build, row_width_, kind.keeps_unmatched_build()},
                {device, probe, row_width_, kind.keeps_unmatched_probe()}} {}

    JoinResult materialize(const std::vector<JoinOutputColumn>& output) {
        const auto match = [&](const MatchWish& wish) {
            partition(first_column(output, OutputSide::kBuild), first_column(output, OutputSide::kProbe));
            MatchPairs pairs = join_tuples(device_, tuples_[0], tuples_[1], wish, options_);
            // Warps write pairs partition by partition. Build rows of one partition come in any order, but a cache
            // holds the stretch of the column that they lie in.
            pairs.rises = true;
            for (int s = 0; s < kMatchSides; ++s) {
                if (has_key(output)) side_[s].keep_keys(std::move(tuples_[s].keys));
                tuples_[s] = {};
            }
            return pairs;
        };
        return materialize_pairs(device_, side_[0].relation(), side_[1].relation(), kind_, output, match,
                                 [&](int s, const JoinOutputColumn& column) {
                                     return column.side == OutputSide::kKey
                                                ? side_[s].key()
                                                : side_[s].column(static_cast<int>(column.column));
                                 });
    }

    uint64_t count() {
        bool is_partitioned = false;
        return count_pairs(device_, side_[0].relation(), side_[1].relation(), kind_, [&](const MatchWish& wish) {
            if (!std::exchange(is_partitioned, true)) partition(kNoColumn, kNoColumn);
            return join_tuples(device_, tuples_[0], tuples_[1], wish, options_);
        });
    }

  private:
    static int first_column(const std::vector<JoinOutputColumn>& output, OutputSide side) {
        const auto found = std::find_if(output.begin(), output.end(),
                                        [&](const JoinOutputColumn& column) { return column.side == side; });
        return found == output.end() ? kNoColumn : static_cast<int>(found->column);
    }
    static bool has_key(const std::vector<JoinOutputColumn>& output) {
        return std::any_of(output.begin(), output.end(),
                           [](const JoinOutputColumn& column) { return column.side == OutputSide::kKey; });
    }

    void partition(int build_column, int probe_column) {
        device_.check_cancelled();
        tuples_[0] = side_[0].partition(build_column, radix_bits_);
        device_.check_cancelled();
        tuples_[1] = side_[1].partition(probe_column, radix_bits_);
    }

    Device& device_;
    const JoinKind kind_;
    const PairJoinOptions& options_;
    const int radix_bits_;
    const uint32_t row_width_;
    PartitionedSide side_[kMatchSides];
    PartitionedTuples tuples_[kMatchSides];
};

// Partitioned copies have less rows than the relation where some have no key, and the same row numbers.
void check_row_numbers(const DeviceRelation& relation) {
    for (const DeviceColumn& column : relation.columns) {
        if (column.data == nullptr && column.width == 4 && relation.rows > 1ULL << 32) {
            refuse("row numbers of 4 bytes for more than 2^32 rows");
        }
    }
}

}  // namespace

JoinResult gftr_join(Device& device, const DeviceRelation& build, const DeviceRelation& probe, const JoinKind& kind,
                     const std::vector<JoinOutputColumn>& output, const PairJoinOptions& options) {
    check_pair_join(build, probe, options);
    check_row_numbers(build);
    check_row_numbers(probe);
    return GftrJoin(device, build, probe, kind, options).materialize(output);
}

uint64_t gftr_count(Device& device, const DeviceRelation& build, const DeviceRelation& probe, const JoinKind& kind,
                    const PairJoinOptions& options) {
    check_pair_join(build, probe, options);
    return GftrJoin(device, build, probe, kind, options).count();
}

}}  // namespace spillway::cuda::gftr_joins
