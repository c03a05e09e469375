// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "staged_join/join_state.hpp"
#include "staged_join/staged_join_policy.hpp"
#include "stream/partition_groups.hpp"
#include "stream/unit_queue.hpp"

namespace spillway::cuda { inline namespace staged_join {

namespace {

// Build rows that are indexed at once and the probe rows that are looked up in them.
struct SpilledPart {
    std::vector<uint64_t> partitions;
    std::vector<FragmentRange> ranges[2];
    uint64_t probe_rows = 0;
    ProbeRule rule;
    bool build_marks = false;  // build rows are marked, and those follow that the result has by their marks
    bool probe_marks = false;  // probe rows are marked
    bool clears = false;       // this is the first part that marks them
    bool lone = false;         // instead of a join: probe rows that the result has by marks of the parts before
};

// Those of each partition together. A unit of probe rows has some of each partition from one run after the other: taken
// in that order, blocks look rows up all over the index of their group. In this one those that run at a time share few
// partitions, which the L2 cache can hold. H200, 2^28 x 2^28 rows of 8 bytes in 2^6 partitions, by ncu: 205 us and 417
// MB of memory for a unit of 3.3 M rows became 177 us and 222 MB.
std::vector<RowPiece> by_partition(const std::vector<RowPiece>& pieces) {
    uint64_t first = UINT64_MAX;
    uint64_t last = 0;
    for (const RowPiece& piece : pieces) {
        first = std::min(first, piece.partition);
        last = std::max(last, piece.partition);
    }
    if (first >= last) return pieces;
    std::vector<size_t> place(last - first + 2);
    for (const RowPiece& piece : pieces) ++place[piece.partition - first + 1];
    std::partial_sum(place.begin(), place.end(), place.begin());
    std::vector<RowPiece> sorted(pieces.size());
    for (const RowPiece& piece : pieces) sorted[place[piece.partition - first]++] = piece;
    return sorted;
}

class SpilledJoin {
  public:
    explicit SpilledJoin(JoinState& state)
        : state_(state),
          rows_(state.device.memory().allocate(
              state.spec.sizes.chunk_rows * std::max(state.shape.rows[0].row_bytes(), state.shape.rows[1].row_bytes()),
              "rows that come back")) {}

    void run() {
        state_.store.precede(state_.ring);
        plan_parts();
        std::vector<ReturningRows> returning;  // two lists for each part: its build rows, then its probe rows
        for (SpilledPart& part : parts_) {
            for (const FragmentRange& range : part.ranges[kProbeSide]) part.probe_rows += range.rows;
            for (const int side : {kBuildSide, kProbeSide}) {
                state_.store.announce(side, part.ranges[side]);
                returning.push_back({side, &part.ranges[side]});
            }
        }
        UnitQueue units(state_.ring, state_.store, {state_.spec.sizes.chunk_rows, state_.shape.memory.probe_tiles},
                        returning);
        for (size_t part = 0; part < parts_.size(); ++part) {
            if (parts_[part].lone) {
                give_marked(units, part);
            } else {
                join_part(units, part);
            }
        }
    }

  private:
    uint64_t rows_of(uint64_t partition) const { return state_.build.rows()[partition]; }
    uint64_t pages_of(uint64_t partition) const {
        return (rows_of(partition) + state_.spec.sizes.page_rows - 1) / state_.spec.sizes.page_rows;
    }

    // Too large to be indexed at once; such a partition is a group of its own.
    bool is_large(uint64_t partition) const {
        return rows_of(partition) > state_.build.index().partition_rows_max() ||
               pages_of(partition) > state_.spec.sizes.pages;
    }

    // Neighbouring partitions join together, until their index would keep the link waiting for room in the ring.
    void plan_parts() {
        const StreamSizes& sizes = state_.spec.sizes;
        const uint64_t chunks = state_.ring.copies_together() ? kGroupChunks : kGroupChunksApart;
        const uint64_t rows_max = std::max(chunks * sizes.chunk_rows, state_.store.group_rows_min(kBuildSide));
        PartitionGroups groups({rows_max, sizes.pages, UINT64_MAX});
        for (uint64_t p = 0; p < state_.shape.partitions; ++p) {
            if (state_.build.is_resident(p)) continue;
            const GroupWeights weights = {rows_of(p), pages_of(p), 1};
            is_large(p) ? groups.add_alone(p, weights) : groups.add(p, weights);
        }
        const std::vector<PartitionGroup> together = groups.finish();
        std::vector<std::vector<FragmentRange>> ranges[2];
        for (int side = 0; side < 2; ++side) ranges[side] = state_.store.find(side, together);
        for (size_t g = 0; g < together.size(); ++g) {
            SpilledPart part;
            for (int side = 0; side < 2; ++side) part.ranges[side] = std::move(ranges[side][g]);
            plan_group(std::move(part), together[g].partitions);
        }
    }

    // `part` has the ranges of its rows already.
    void plan_group(SpilledPart part, const std::vector<uint64_t>& group) {
        part.partitions = group;
        part.rule = state_.shape.rules.probe;
        part.build_marks = state_.shape.rules.build_marks;
        if (is_large(group.front())) {
            plan_large(part);
        } else if (!part.ranges[kBuildSide].empty() || part.rule.keep_unmatched || part.rule.anti) {
            parts_.push_back(std::move(part));
        }
    }

    // A build partition that cannot be indexed at once comes in parts, its probe rows as often. Where these are marked,
    // as many at a time as there is memory for marks of. Full joins want to know of build rows, too, whether any probe
    // row has met them: if not all probe rows can be marked at once, all of them are looked up once more for that.
    void plan_large(const SpilledPart& large) {
        const KindRules& rules = state_.shape.rules;
        SpilledPart part = large;
        part.rule = rules.part_rule();
        part.probe_marks = rules.probe_marks();
        if (!part.probe_marks) return plan_slice(part);
        const std::vector<std::vector<FragmentRange>> slices = marked_slices(large.ranges[kProbeSide]);
        part.build_marks = rules.build_marks && slices.size() == 1;
        for (const std::vector<FragmentRange>& slice : slices) {
            part.ranges[kProbeSide] = slice;
            plan_slice(part);
        }
        if (part.build_marks == rules.build_marks) return;
        part = large;
        part.rule = {false, false, false, false};
        plan_slice(part);
    }

    std::vector<std::vector<FragmentRange>> marked_slices(const std::vector<FragmentRange>& probe) const {
        const uint64_t rows_max = state_.shape.memory.marked_rows;
        std::vector<std::vector<FragmentRange>> slices(1);
        uint64_t rows = 0;
        for (const FragmentRange& range : probe) {
            if (rows + range.rows > rows_max && rows > 0) {
                slices.emplace_back();
                rows = 0;
            }
            slices.back().push_back(range);
            rows += range.rows;
        }
        return slices;
    }

    void plan_slice(const SpilledPart& large) {
        SpilledPart part = large;
        part.ranges[kBuildSide].clear();
        const SpilledPart empty = part;
        part.clears = part.probe_marks;
        const uint64_t rows_max =
            std::min(state_.build.index().partition_rows_max(), state_.build.pages().capacity_rows());
        uint64_t rows = 0;
        for (const FragmentRange& range : large.ranges[kBuildSide]) {
            if (rows + range.rows > rows_max) {
                parts_.push_back(std::move(part));
                part = empty;
                rows = 0;
            }
            part.ranges[kBuildSide].push_back(range);
            rows += range.rows;
        }
        parts_.push_back(std::move(part));
        if (!large.probe_marks) return;
        part = empty;
        part.lone = true;
        parts_.push_back(std::move(part));
    }

    void join_part(UnitQueue& units, size_t index_of_part) {
        const SpilledPart& part = parts_[index_of_part];
        BuildSide& side = state_.build;
        use_units(units, index_of_part, kBuildSide,
                  [&](const RowPieces& batch, uint64_t) { side.pages().append(batch, batch.pieces); });
        side.index(part.partitions);
        const IndexView index = side.index().view();
        if (part.clears && part.probe_rows > 0) {
            SPILLWAY_CUDA_CHECK(cudaMemsetAsync(state_.probe_marks.as(), 0, part.probe_rows, state_.device.stream()));
        }
        uint8_t* const build_marks = part.build_marks ? side.marks() : nullptr;
        uint8_t* const probe_marks = part.probe_marks ? state_.probe_marks.as<uint8_t>() : nullptr;
        use_units(units, index_of_part, kProbeSide, [&](const RowPieces& batch, uint64_t before) {
            state_.joiner.probe(batch, batch.pieces, index, part.rule, build_marks,
                                probe_marks == nullptr ? nullptr : probe_marks + before);
        });
        for (const uint64_t partition : part.partitions) {
            if (part.build_marks) give_build_rows(partition);
            side.pages().release(partition);
        }
    }

    void give_build_rows(uint64_t partition) {
        BuildSide& side = state_.build;
        LonePass pass;
        pass.rows = side.pages().data();
        pass.row_words = state_.shape.code[kBuildSide].row_words;
        pass.marks = side.marks();
        pass.marked = state_.shape.rules.build_marked;
        pass.build_side = true;
        state_.joiner.lone(pass, side.pages().pieces(partition));
    }

    // Probe rows once more, now that all parts of the build side have marked them.
    void give_marked(UnitQueue& units, size_t part) {
        use_units(units, part, kProbeSide, [&](const RowPieces& batch, uint64_t before) {
            LonePass pass;
            pass.rows = batch.rows;
            pass.row_words = batch.row_words;
            pass.marks = state_.probe_marks.as<const uint8_t>() + before;
            pass.marked = state_.shape.rules.probe_marked();
            state_.joiner.lone(pass, batch.pieces);
        });
    }

    // use(batch, rows before it). The batch's memory is used again by the next one, in the order of the device's
    // stream.
    void use_units(UnitQueue& units, size_t part, int side,
                   const std::function<void(const RowPieces&, uint64_t)>& use) {
        SpilledUnit unit;
        for (uint64_t before = 0; units.next(2 * part + static_cast<size_t>(side), unit); before += unit.rows) {
            state_.device.check_cancelled();
            state_.ring.wait_on_device(unit.slot);
            unpack_rows(state_.device, state_.parcels, state_.shape.code[side],
                        reinterpret_cast<const uint32_t*>(state_.ring.data(unit.slot)), unit.set, rows_.as<uint32_t>());
            state_.ring.emptied(unit.slot);
            RowPieces batch;
            batch.rows = rows_.as<const uint32_t>();
            batch.row_words = state_.shape.code[side].row_words;
            batch.pieces = side == kProbeSide ? by_partition(unit.set.pieces) : unit.set.pieces;
            use(batch, before);
        }
    }

    JoinState& state_;
    const Allocation rows_;
    std::vector<SpilledPart> parts_;
};

}  // namespace

void join_spilled(JoinState& state) {
    if (state.store.rows(0) == 0 && state.store.rows(1) == 0) return;
    SpilledJoin(state).run();
}

}}  // namespace spillway::cuda::staged_join
