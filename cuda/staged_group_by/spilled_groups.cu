// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include "device/host_clock.hpp"
#include "staged_group_by/group_state.hpp"
#include "staged_group_by/staged_group_policy.hpp"
#include "stream/partition_groups.hpp"
#include "stream/stream_policy.hpp"
#include "stream/unit_queue.hpp"

namespace spillway::cuda { inline namespace staged_group_by {

namespace {

// Partitions that come back together.
struct SpilledPart {
    std::vector<uint64_t> partitions;
    std::vector<FragmentRange> ranges;
    uint64_t pages = 0;  // that their rows fill; more than there are of a partition that is aggregated as it comes
    KeySlice slice;      // of a partition that has a part of its own
};
using SpilledParts = std::vector<SpilledPart>;

class SpilledGroups {
  public:
    SpilledGroups(GroupByState& state, const std::vector<uint64_t>& resident, StreamReport& report)
        : state_(state), resident_(resident), report_(report) {}

    void run() {
        state_.store.precede(state_.ring);
        plan_parts();
        for (; !parts_.empty(); parts_ = std::exchange(later_, {})) give_parts();
    }

  private:
    // In the order in which their rows are announced. A part that leaves out half of its keys adds one to those that
    // come later: to these it could not be added any more, as their rows are being read ahead.
    void give_parts() {
        std::vector<ReturningRows> returning;
        for (const SpilledPart& part : parts_) {
            state_.store.announce(GroupPages::kSide, part.ranges);
            returning.push_back({GroupPages::kSide, &part.ranges});
        }
        UnitQueue units(state_.ring, state_.store, {state_.spec.sizes.chunk_rows}, returning);
        units.fetch_ahead();
        for (size_t part = 0; part < parts_.size(); ++part) {
            give_resident(part);
            SpilledUnit unit;
            while (units.next(part, unit)) take(parts_[part], unit);
            state_.pages.give(parts_[part].partitions);
        }
    }

    // Groups of resident partitions leave between parts, so that spilled rows are on their way meanwhile: in the same
    // proportion, the last before the last part, and as many before as it takes to have pages for the part.
    void give_resident(size_t part) {
        const auto is_behind = [&] { return given_ * parts_.size() < (part + 1) * resident_.size(); };
        const auto lacks_pages = [&] { return state_.pages.free_pages() < parts_[part].pages; };
        const HostClock clock;
        while (given_ < resident_.size() && (is_behind() || lacks_pages())) {
            given_ = state_.pages.give_some(resident_, given_);
        }
        report_.resident_ms += clock.passed_ms();
    }

    // Neighbouring partitions come together: what comes back of a run is one copy then.
    void plan_parts() {
        const StreamSizes& sizes = state_.spec.sizes;
        const uint64_t chunks = state_.ring.copies_together() ? kReturnedChunks : kGroupChunksApart;
        const uint64_t rows_max = std::max(chunks * sizes.chunk_rows, state_.store.group_rows_min(GroupPages::kSide));
        PartitionGroups groups({rows_max, sizes.pages, UINT64_MAX});
        const std::vector<uint64_t> rows = state_.store.partition_rows(GroupPages::kSide, state_.shape.partitions);
        for (uint64_t p = 0; p < state_.shape.partitions; ++p) {
            if (state_.pages.is_resident(p)) continue;
            groups.add(p, {rows[p], (rows[p] + sizes.page_rows - 1) / sizes.page_rows, 1});
        }
        std::vector<PartitionGroup> together = groups.finish();
        std::vector<std::vector<FragmentRange>> ranges = state_.store.find(GroupPages::kSide, together);
        for (size_t g = 0; g < together.size(); ++g) {
            SpilledPart part;
            part.ranges = std::move(ranges[g]);
            part.pages = together[g].weights[1];
            part.partitions = std::move(together[g].partitions);
            parts_.push_back(std::move(part));
        }
    }

    // Unpacks a unit and appends its rows to the pages, where everything but a partition alone has room.
    void take(SpilledPart& part, const SpilledUnit& unit) {
        state_.device.check_cancelled();
        state_.ring.wait_on_device(unit.slot);
        unpack_rows(state_.device, state_.parcels, state_.shape.code,
                    reinterpret_cast<const uint32_t*>(state_.ring.data(unit.slot)), unit.set, state_.pages.scratch());
        state_.ring.emptied(unit.slot);
        RowPieces batch;
        batch.rows = state_.pages.scratch();
        batch.row_words = state_.shape.code.row_words;
        batch.pieces = unit.set.pieces;
        PartialRows sliced;
        const auto slice = [&] {
            sliced = state_.merger.pack_loaded(state_.merger.load(state_.pages.scratch(), unit.set.pieces, part.slice));
            batch = sliced.batch;
        };
        if (part.slice.bits > 0) slice();
        while (!state_.pages.has_room_for(batch.pieces)) {
            if (state_.pages.compact_alone(part.partitions.front())) continue;
            narrow(part);
            slice();
        }
        state_.pages.append(batch);
    }

    // The partition has more groups than there are pages for: from now on only half of its keys. The others come later.
    void narrow(SpilledPart& part) {
        if (part.partitions.size() != 1 ||
            part.slice.bits + state_.shape.code.radix_bits >= state_.shape.key_bytes * 8) {
            throw Error(ErrorCode::kInternal, "partial rows that come back do not fit the pages");
        }
        SpilledPart other = part;
        other.slice = part.slice.half(1);
        part.slice = part.slice.half(0);
        later_.push_back(std::move(other));
        ++report_.narrowed_parts;
        state_.pages.keep(part.partitions.front(), part.slice);
    }

    GroupByState& state_;
    const std::vector<uint64_t>& resident_;
    StreamReport& report_;
    size_t given_ = 0;  // of resident_
    SpilledParts parts_;
    SpilledParts later_;
};

}  // namespace

void give_groups(GroupByState& state, const std::vector<uint64_t>& resident, StreamReport& report) {
    if (state.store.rows(GroupPages::kSide) > 0) return SpilledGroups(state, resident, report).run();
    const HostClock clock;
    state.pages.give(resident);
    report.resident_ms = clock.passed_ms();
}

}}  // namespace spillway::cuda::staged_group_by
