// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "device/device.hpp"
#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "materialize/match_pairs.hpp"
#include "primitive/prefix_sum.hpp"
#include "sort_merge_join/merge_matches.cuh"
#include "sort_merge_join/sort_merge_join.hpp"
#include "sort_merge_join/sort_merge_policy.hpp"
#include "sort_merge_join/sort_relations.hpp"

namespace spillway::cuda { inline namespace sort_merge_joins {

namespace {

// More than any memory holds, and little enough for products with widths to stay within 64 bits.
constexpr uint64_t kRowsMax = 1ULL << 48;

template <class Key>
class Merge {
  public:
    Merge(Device& device, const SortedRange& build, const SortedRange& probe)
        : device_(device), build_from_(numbers_of(build)), probe_from_(numbers_of(probe)) {
        in_.build = build.side->keys.as<const Key>() + build.begin;
        in_.probe = probe.side->keys.as<const Key>() + probe.begin;
        in_.build_rows = build.rows();
        in_.probe_rows = probe.rows();
        in_.tiles = (in_.build_rows + in_.probe_rows + kMergeTileRows - 1) / kMergeTileRows;
        probe_at_ = allocate(in_.tiles + 1);
        launch(cut_tiles<Key>, grid_over(device, in_.tiles + 1, kRowThreads, kRowBlocksPerMultiprocessor),
               dim3(kRowThreads), 0, device.stream(), in_, probe_at_.as<uint64_t>());
        in_.probe_at = probe_at_.as<const uint64_t>();
    }

    void mark(const MatchWish& wish) {
        count_moved(device_, key_bytes() + number_bytes(in_.build_rows, in_.probe_rows));
        const MarkedSide build{build_from_, wish.build_marks};
        const MarkedSide probe{probe_from_, wish.probe_marks};
        start(mark_matches_kernel<Key>, in_.tiles, in_, build, probe);
    }

    uint64_t count() {
        prepare();
        count_moved(device_, key_bytes());
        start(count_matches_kernel<Key>, in_.tiles, in_, tiles_);
        return read_totals().matches;
    }

    void find(const SortMergeOptions& options, bool keys, MatchPairs& pairs) {
        wants_keys_ = keys;
        if (options.expected_rows > kRowsMax) {
            throw Error(ErrorCode::kInvalid, "a result of more rows than any memory holds");
        }
        prepare();
        if (options.plan == OutputPlan::kCountFirst || options.expected_rows == 0) return count_and_emit(pairs);
        uint64_t capacity = options.expected_rows;
        for (;;) {
            device_.check_cancelled();
            const PairColumns columns = allocate_pairs(pairs, capacity);
            start(emit_tiles_kernel<Key>, in_.tiles, in_, tiles_, columns);
            const MatchTotals totals = read_totals();
            count_moved(device_, key_bytes() + pair_bytes(pairs, std::min<uint64_t>(totals.matches, capacity)));
            pairs.count = totals.matches;
            if (totals.matches <= capacity) return emit_units(totals.units, columns);
            capacity = totals.matches;
            clear_totals();
        }
    }

  private:
    // Places stand for row numbers where there are none: then the range is all of the side.
    static RowNumbersByPlace numbers_of(const SortedRange& range) {
        const SortedSide& side = *range.side;
        if (!side.rows) return {nullptr, side.row_width};
        return {side.rows.as<const uint8_t>() + range.begin * side.row_width, side.row_width};
    }
    // The keys of both sides count once, because tiles that several blocks write are read again from a cache.
    uint64_t key_bytes() const { return (in_.build_rows + in_.probe_rows) * sizeof(Key); }
    // Row numbers of so many rows of each side, in order.
    uint64_t number_bytes(uint64_t build_rows, uint64_t probe_rows) const {
        const auto of = [](const RowNumbersByPlace& from, uint64_t rows) {
            return from.rows == nullptr ? 0 : rows * from.width;
        };
        return of(build_from_, build_rows) + of(probe_from_, probe_rows);
    }
    // Row numbers of rows that are in pairs, at most once each; pairs and, where wanted, keys.
    uint64_t pair_bytes(const MatchPairs& pairs, uint64_t matches) const {
        const uint64_t key_width = wants_keys_ ? sizeof(Key) : 0;
        return number_bytes(std::min(in_.build_rows, matches), std::min(in_.probe_rows, matches)) +
               matches * (pairs.build_width + pairs.probe_width + key_width);
    }

    Allocation allocate(uint64_t numbers) {
        return device_.memory().allocate(numbers * sizeof(uint64_t), "tiles of a merge");
    }

    template <class... P, class... A>
    void start(void (*kernel)(P...), uint64_t items, A&&... arguments) {
        launch(kernel, grid_over(device_, items, 1, kMergeBlocksPerMultiprocessor), dim3(kMergeThreads), 0,
               device_.stream(), arguments...);
    }

    void prepare() {
        first_match_ = allocate(in_.tiles);
        first_unit_ = allocate(in_.tiles);
        totals_ = device_.memory().allocate(sizeof(MatchTotals), "join counters");
        tiles_ = {first_match_.as<uint64_t>(), first_unit_.as<uint64_t>(), totals_.as<MatchTotals>()};
        clear_totals();
    }
    void clear_totals() {
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(totals_.as(), 0, sizeof(MatchTotals), device_.stream()));
    }
    // Waits for the kernels.
    MatchTotals read_totals() {
        MatchTotals totals{};
        SPILLWAY_CUDA_CHECK(
            cudaMemcpyAsync(&totals, totals_.as(), sizeof totals, cudaMemcpyDeviceToHost, device_.stream()));
        device_.synchronize();
        return totals;
    }

    PairColumns allocate_pairs(MatchPairs& pairs, uint64_t capacity_rows) {
        pairs.build_rows.reset();
        pairs.probe_rows.reset();
        pairs.keys.reset();
        pairs.build_rows = device_.memory().allocate(capacity_rows * pairs.build_width, "pairs of a join");
        pairs.probe_rows = device_.memory().allocate(capacity_rows * pairs.probe_width, "pairs of a join");
        if (wants_keys_) pairs.keys = device_.memory().allocate(capacity_rows * sizeof(Key), "join result");
        return {{build_from_, pairs.build_rows.as(), pairs.build_width},
                {probe_from_, pairs.probe_rows.as(), pairs.probe_width},
                capacity_rows,
                pairs.keys.as()};
    }

    void count_and_emit(MatchPairs& pairs) {
        start(count_matches_kernel<Key>, in_.tiles, in_, tiles_);
        const MatchTotals totals = read_totals();
        count_moved(device_, 2 * key_bytes() + pair_bytes(pairs, totals.matches));
        pairs.count = totals.matches;
        if (totals.matches > kRowsMax) {
            throw Error(ErrorCode::kOutOfMemory, "a result of more rows than any memory holds");
        }
        const PairColumns columns = allocate_pairs(pairs, totals.matches);
        exclusive_sum(device_, tiles_.first_match, in_.tiles);
        emit_units(totals.units, columns);
    }

    void emit_units(uint64_t units, const PairColumns& columns) {
        if (units == 0) return;
        device_.check_cancelled();
        exclusive_sum(device_, tiles_.first_unit, in_.tiles);
        start(emit_units_kernel<Key>, units, in_, tiles_, units, columns);
    }

    Device& device_;
    const RowNumbersByPlace build_from_;
    const RowNumbersByPlace probe_from_;
    MergeInput<Key> in_;
    bool wants_keys_ = false;
    Allocation probe_at_;
    Allocation first_match_;
    Allocation first_unit_;
    Allocation totals_;
    TileMatches tiles_;
};

template <class Key>
void find_by_key(Device& device, const SortedRange& build, const SortedRange& probe, const MatchWish& wish,
                 const SortMergeOptions& options, MatchPairs& pairs) {
    Merge<Key> merge(device, build, probe);
    const bool marks = wish.build_marks != nullptr || wish.probe_marks != nullptr;
    if (marks) merge.mark(wish);
    if (wish.pairs) {
        merge.find(options, wish.keys, pairs);
    } else if (!marks) {
        pairs.count = merge.count();
    }
}

// Pairs of rows with equal keys and marks of rows that have one, by merging the sorted keys of both sides. Waits for
// the device where pairs are wished or counted.
MatchPairs find_matches(Device& device, const SortedRange& build, const SortedRange& probe, const MatchWish& wish,
                        const SortMergeOptions& options) {
    const PhaseScope match(device, Phase::kMatch);
    MatchPairs pairs;
    pairs.build_width = build.side->row_width;
    pairs.probe_width = probe.side->row_width;
    pairs.rises = !build.side->rows && !probe.side->rows;  // places in sorted columns
    // No side without keys has a match, and none of the kernels can do without one.
    if (build.rows() == 0 || probe.rows() == 0) return pairs;
    const auto find = build.side->relation.key.width == 4 ? find_by_key<uint32_t> : find_by_key<uint64_t>;
    find(device, build, probe, wish, options, pairs);
    return pairs;
}

SortedRange all_of(const SortedSide& side) {
    return {&side, 0, side.keyed_rows};
}

}  // namespace

JoinResult join_sorted(Device& device, SortedRelations sorted, const JoinKind& kind,
                       const std::vector<JoinOutputColumn>& output, const SortMergeOptions& options) {
    const auto match = [&](const MatchWish& wish) {
        MatchPairs pairs = find_matches(device, all_of(sorted.build), all_of(sorted.probe), wish, options);
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
    return count_pairs(device, sorted.build.relation, sorted.probe.relation, kind, [&](const MatchWish& wish) {
        return find_matches(device, all_of(sorted.build), all_of(sorted.probe), wish, options);
    });
}

uint64_t count_sorted(Device& device, const SortedRange& build, const SortedRange& probe) {
    return find_matches(device, build, probe, {false}, {}).count;
}

JoinResult join_sorted(Device& device, const SortedRange& build, const SortedRange& probe,
                       const std::vector<JoinOutputColumn>& output, uint64_t rows) {
    SortMergeOptions options;
    options.expected_rows = rows;
    return materialize_pairs(device, build.side->relation, probe.side->relation, {}, output,
                             [&](const MatchWish& wish) { return find_matches(device, build, probe, wish, options); });
}

}}  // namespace spillway::cuda::sort_merge_joins
