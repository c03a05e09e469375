// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "device/host_clock.hpp"
#include "out_of_core_group_by/out_of_core_group_policy.hpp"
#include "out_of_core_group_by/spilled_groups.hpp"

namespace spillway::cuda {

namespace {

// Partitions that come back together.
struct SpilledPart {
    std::vector<uint64_t> partitions;
    std::vector<FragmentRange> ranges;
    uint64_t pages = 0;  // that their rows fill; more than there are of a partition that is aggregated as it comes
    KeySlice slice;      // of a partition that has a part of its own
};
using SpilledParts = std::vector<SpilledPart>;

// Rows that come back in one slot of the ring.
struct SpilledUnit {
    size_t part = 0;
    uint32_t slot = 0;
    uint64_t rows = 0;
    FragmentSet set;
};

// Brings the rows of all parts back, as many at a time as fit a slot. Copies run ahead by as many slots as there are,
// over the ends of parts, so that the link is never idle.
class SpilledUnits {
  public:
    SpilledUnits(GroupByState& state, const SpilledParts& parts) : state_(state), parts_(parts) {}

    // As many units as there are slots; those of all units before have been emptied.
    void fetch_ahead() {
        while (filled_.size() < state_.ring.slots() && find_range()) filled_.push_back(fetch());
    }

    // The next unit of that part; false when it has no more. The slots of all units before have been emptied.
    bool next(size_t part, SpilledUnit& unit) {
        fetch_ahead();
        if (filled_.empty() || filled_.front().part != part) return false;
        unit = std::move(filled_.front());
        filled_.pop_front();
        return true;
    }

  private:
    // The next range to be fetched, wherever it is.
    bool find_range() {
        while (part_ < parts_.size() && range_ == parts_[part_].ranges.size()) {
            range_ = 0;
            ++part_;
        }
        return part_ < parts_.size();
    }

    SpilledUnit fetch() {
        SpilledUnit unit;
        unit.part = part_;
        unit.slot = state_.ring.take();
        uint64_t bytes = 0;
        for (const auto& ranges = parts_[part_].ranges; range_ < ranges.size(); ++range_) {
            const FragmentRange& range = ranges[range_];
            const bool fits = bytes + range.bytes <= state_.ring.slot_bytes() &&
                              unit.rows + range.rows <= state_.spec.sizes.chunk_rows;
            if (!fits && unit.rows > 0) break;
            const FragmentSet& set = state_.store.set(GroupPages::kSide, range.run);
            state_.store.load(GroupPages::kSide, range, state_.ring, unit.slot, bytes);
            const uint64_t at = bytes / sizeof(uint32_t);
            for (size_t f = range.first; f < range.last; ++f) {
                unit.set.add(set, f, at + set.first_word[f] - set.first_word[range.first], unit.rows);
                unit.rows += set.pieces[f].rows;
            }
            bytes += range.bytes;
        }
        state_.ring.filled(unit.slot);
        return unit;
    }

    GroupByState& state_;
    const SpilledParts& parts_;
    std::deque<SpilledUnit> filled_;
    size_t part_ = 0;
    size_t range_ = 0;
};

class SpilledGroups {
  public:
    SpilledGroups(GroupByState& state, const std::vector<uint64_t>& resident) : state_(state), resident_(resident) {}

    void run() {
        state_.store.precede(state_.ring);
        plan_parts();
        for (; !parts_.empty(); parts_ = std::exchange(later_, {})) give_parts();
    }

  private:
    // In the order in which their rows are announced. A part that leaves out half of its keys adds one to those that
    // come later: to these it could not be added any more, as their rows are being read ahead.
    void give_parts() {
        for (const SpilledPart& part : parts_) state_.store.announce(GroupPages::kSide, part.ranges);
        SpilledUnits units(state_, parts_);
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
        state_.report.resident_ms += clock.passed_ms();
    }

    // Neighbouring partitions come together: what comes back of a run is one copy then.
    void plan_parts() {
        const OutOfCoreGroupSizes& sizes = state_.spec.sizes;
        const uint64_t chunks = state_.ring.copies_together() ? kReturnedChunks : kGroupChunksApart;
        const uint64_t rows_max = std::max(chunks * sizes.chunk_rows, state_.store.group_rows_min(GroupPages::kSide));
        SpilledPart part;
        uint64_t rows = 0;
        uint64_t pages = 0;
        const auto close = [&] {
            if (!part.partitions.empty()) {
                part.ranges = state_.store.find(GroupPages::kSide, part.partitions.front(), part.partitions.back() + 1);
                part.pages = pages;
                parts_.push_back(std::move(part));
            }
            part = {};
            rows = 0;
            pages = 0;
        };
        for (uint64_t p = 0; p < state_.shape.partitions; ++p) {
            if (state_.pages.is_resident(p)) continue;
            uint64_t own_rows = 0;
            for (const FragmentRange& range : state_.store.find(GroupPages::kSide, p, p + 1)) own_rows += range.rows;
            const uint64_t own_pages = (own_rows + sizes.page_rows - 1) / sizes.page_rows;
            if (rows + own_rows > rows_max || pages + own_pages > sizes.pages) close();
            part.partitions.push_back(p);
            rows += own_rows;
            pages += own_pages;
        }
        close();
    }

    // Unpacks a unit and appends its rows to the pages, where everything but a partition alone has room.
    void take(SpilledPart& part, const SpilledUnit& unit) {
        state_.device.check_cancelled();
        state_.ring.wait_on_device(unit.slot);
        unpack_rows(state_.device, state_.parcels, state_.shape.code,
                    reinterpret_cast<const uint32_t*>(state_.ring.data(unit.slot)), unit.set, state_.pages.scratch());
        state_.ring.emptied(unit.slot);
        RowBatch batch;
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
        ++state_.report.narrowed_parts;
        state_.pages.keep(part.partitions.front(), part.slice);
    }

    GroupByState& state_;
    const std::vector<uint64_t>& resident_;
    size_t given_ = 0;  // of resident_
    SpilledParts parts_;
    SpilledParts later_;
};

}  // namespace

void give_groups(GroupByState& state, const std::vector<uint64_t>& resident) {
    if (state.store.rows(GroupPages::kSide) > 0) return SpilledGroups(state, resident).run();
    const HostClock clock;
    state.pages.give(resident);
    state.report.resident_ms = clock.passed_ms();
}

}  // namespace spillway::cuda
