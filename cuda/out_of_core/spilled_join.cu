// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <deque>
#include <functional>

#include "out_of_core/spilled_join.hpp"

namespace spillway::cuda {

namespace {

using Ranges = std::vector<FragmentRange>;

class SpilledJoin {
  public:
    explicit SpilledJoin(JoinState& state)
        : state_(state),
          rows_(state.device.memory().allocate(
              state.spec.sizes.chunk_rows * std::max(state.shape.rows[0].row_bytes(), state.shape.rows[1].row_bytes()),
              "rows that come back")) {}

    void run() {
        state_.store.precede(state_.ring);
        const uint64_t partitions = state_.shape.partitions;
        for (uint64_t first = 0; first < partitions;) {
            if (state_.build.is_resident(first)) {
                ++first;
                continue;
            }
            uint64_t last = first + 1;
            uint64_t pages = pages_of(first);
            while (last < partitions && (state_.build.is_resident(last) ||
                                         (fits(last) && pages + pages_of(last) <= state_.spec.sizes.pages))) {
                pages += pages_of(last);
                ++last;
            }
            join_group(first, last, fits(first) && pages <= state_.spec.sizes.pages);
            first = last;
        }
    }

  private:
    static constexpr int kBuild = 0;
    static constexpr int kProbe = 1;

    uint64_t rows_of(uint64_t partition) const {
        return state_.build.is_resident(partition) ? 0 : state_.build.rows()[partition];
    }
    uint64_t pages_of(uint64_t partition) const {
        return (rows_of(partition) + state_.spec.sizes.page_rows - 1) / state_.spec.sizes.page_rows;
    }
    bool fits(uint64_t partition) const {
        return rows_of(partition) <= state_.build.index().partition_rows_max() &&
               pages_of(partition) <= state_.spec.sizes.pages;
    }

    void join_group(uint64_t first, uint64_t last, bool whole) {
        const Ranges build = state_.store.find(kBuild, first, last);
        const Ranges probe = state_.store.find(kProbe, first, last);
        std::vector<uint64_t> partitions;
        for (uint64_t p = first; p < last; ++p) {
            if (!state_.build.is_resident(p)) partitions.push_back(p);
        }
        if (whole) {
            const ProbeRule& rule = state_.shape.rules.probe;
            if (!build.empty() || rule.keep_unmatched || rule.anti) join_part(partitions, build, probe, rule, nullptr);
        } else {
            join_in_parts(partitions, build, probe);
        }
    }

    // One partition.
    void join_in_parts(const std::vector<uint64_t>& partitions, const Ranges& build, const Ranges& probe) {
        const uint64_t rows_max =
            std::min(state_.build.index().partition_rows_max(), state_.build.pages().capacity_rows());
        uint64_t probe_rows = 0;
        for (const FragmentRange& range : probe) probe_rows += range.rows;
        const KindRules& rules = state_.shape.rules;
        Allocation marks;
        if (rules.probe_marks() && probe_rows > 0) {
            marks = state_.device.memory().allocate(probe_rows, "marks of probe rows");
            SPILLWAY_CUDA_CHECK(cudaMemsetAsync(marks.as(), 0, probe_rows, state_.device.stream()));
        }
        Ranges part;
        uint64_t rows = 0;
        const auto join = [&] { join_part(partitions, part, probe, rules.part_rule(), marks.as<uint8_t>()); };
        for (const FragmentRange& range : build) {
            if (rows + range.rows > rows_max) {
                join();
                part.clear();
                rows = 0;
            }
            part.push_back(range);
            rows += range.rows;
        }
        join();
        if (marks) give_marked(probe, marks.as<const uint8_t>());
    }

    void join_part(const std::vector<uint64_t>& partitions, const Ranges& build, const Ranges& probe,
                   const ProbeRule& rule, uint8_t* probe_marks) {
        BuildSide& side = state_.build;
        replay(kBuild, build, [&](const RowBatch& batch, uint64_t) { side.pages().append(batch, batch.pieces); });
        side.index(partitions);
        const IndexView index = side.index().view();
        replay(kProbe, probe, [&](const RowBatch& batch, uint64_t before) {
            state_.joiner.probe(batch, batch.pieces, index, rule, side.marks(),
                                probe_marks == nullptr ? nullptr : probe_marks + before);
        });
        for (const uint64_t partition : partitions) give_build_rows(partition);
    }

    void give_build_rows(uint64_t partition) {
        BuildSide& side = state_.build;
        if (side.marks() != nullptr) {
            LonePass pass;
            pass.rows = side.pages().data();
            pass.row_words = state_.shape.code[kBuild].row_words;
            pass.marks = side.marks();
            pass.marked = state_.shape.rules.build_marked;
            pass.build_side = true;
            state_.joiner.lone(pass, side.pieces(partition));
        }
        side.pages().release(partition);
    }

    // Probe rows once more, now that all parts of the build side have marked them.
    void give_marked(const Ranges& probe, const uint8_t* marks) {
        replay(kProbe, probe, [&](const RowBatch& batch, uint64_t before) {
            LonePass pass;
            pass.rows = batch.rows;
            pass.row_words = batch.row_words;
            pass.marks = marks + before;
            pass.marked = state_.shape.rules.probe_marked();
            state_.joiner.lone(pass, batch.pieces);
        });
    }

    struct Unit {
        uint32_t slot = 0;
        FragmentSet set;
        uint64_t rows = 0;
    };

    // Brings ranges back, as many at a time as fit a slot; use(batch, rows before it). The batch's memory is used again
    // by the next one, in the order of the device's stream.
    void replay(int side, const Ranges& ranges, const std::function<void(const RowBatch&, uint64_t)>& use) {
        std::deque<Unit> filled;
        size_t next = 0;
        uint64_t before = 0;
        for (;;) {
            while (next < ranges.size() && filled.size() < state_.ring.slots()) {
                filled.push_back(fetch(side, ranges, next));
            }
            if (filled.empty()) return;
            state_.device.check_cancelled();
            const Unit unit = std::move(filled.front());
            filled.pop_front();
            state_.ring.wait_on_device(unit.slot);
            unpack_rows(state_.device, state_.parcels, state_.shape.code[side],
                        reinterpret_cast<const uint32_t*>(state_.ring.data(unit.slot)), unit.set, rows_.as<uint32_t>());
            state_.ring.emptied(unit.slot);
            RowBatch batch;
            batch.rows = rows_.as<const uint32_t>();
            batch.row_words = state_.shape.code[side].row_words;
            batch.pieces = unit.set.pieces;
            use(batch, before);
            before += unit.rows;
        }
    }

    static uint64_t tiles_of(const FragmentSet& set, size_t first, size_t last) {
        uint64_t tiles = 0;
        for (size_t f = first; f < last; ++f) tiles += (set.pieces[f].rows + kTileRows - 1) / kTileRows;
        return tiles;
    }

    Unit fetch(int side, const Ranges& ranges, size_t& next) {
        Unit unit;
        unit.slot = state_.ring.take();
        uint64_t bytes = 0;
        uint64_t tiles = 0;
        for (; next < ranges.size(); ++next) {
            const FragmentRange& range = ranges[next];
            const FragmentSet& set = state_.store.set(side, range.run);
            const uint64_t more_tiles = tiles_of(set, range.first, range.last);
            const bool fits = bytes + range.bytes <= state_.ring.slot_bytes() &&
                              unit.rows + range.rows <= state_.spec.sizes.chunk_rows &&
                              tiles + more_tiles <= state_.shape.batch_tiles;
            if (!fits && unit.rows > 0) break;
            state_.store.load(side, range, state_.ring, unit.slot, bytes);
            const uint64_t at = bytes / sizeof(uint32_t);
            for (size_t f = range.first; f < range.last; ++f) {
                unit.set.add(set, f, at + set.first_word[f] - set.first_word[range.first], unit.rows);
                unit.rows += set.pieces[f].rows;
            }
            bytes += range.bytes;
            tiles += more_tiles;
        }
        state_.ring.filled(unit.slot);
        return unit;
    }

    JoinState& state_;
    const Allocation rows_;
};

}  // namespace

void join_spilled(JoinState& state) {
    if (state.store.rows(0) == 0 && state.store.rows(1) == 0) return;
    SpilledJoin(state).run();
}

}  // namespace spillway::cuda
