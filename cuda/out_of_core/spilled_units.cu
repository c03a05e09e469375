// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "out_of_core/spilled_units.hpp"

namespace spillway::cuda {

namespace {

uint64_t tiles_of(const FragmentSet& set, const FragmentRange& range) {
    uint64_t tiles = 0;
    for (size_t f = range.first; f < range.last; ++f) tiles += (set.pieces[f].rows + kTileRows - 1) / kTileRows;
    return tiles;
}

}  // namespace

bool UnitQueue::next(size_t part, int side, SpilledUnit& unit) {
    while (filled_.size() < state_.ring.slots() && find_range()) filled_.push_back(fetch());
    if (filled_.empty() || filled_.front().part != part || filled_.front().side != side) return false;
    unit = std::move(filled_.front());
    filled_.pop_front();
    return true;
}

// The next range to be fetched, wherever it is.
bool UnitQueue::find_range() {
    while (part_ < parts_.size() && range_ == parts_[part_].ranges[side_].size()) {
        range_ = 0;
        if (side_ == 1) ++part_;
        side_ = 1 - side_;
    }
    return part_ < parts_.size();
}

SpilledUnit UnitQueue::fetch() {
    SpilledUnit unit;
    unit.part = part_;
    unit.side = side_;
    unit.slot = state_.ring.take();
    uint64_t bytes = 0;
    uint64_t tiles = 0;
    for (const std::vector<FragmentRange>& ranges = parts_[part_].ranges[side_]; range_ < ranges.size(); ++range_) {
        const FragmentRange& range = ranges[range_];
        const FragmentSet& set = state_.store.set(side_, range.run);
        const uint64_t more_tiles = tiles_of(set, range);
        const bool fits = bytes + range.bytes <= state_.ring.slot_bytes() &&
                          unit.rows + range.rows <= state_.spec.sizes.chunk_rows &&
                          tiles + more_tiles <= state_.shape.batch_tiles;
        if (!fits && unit.rows > 0) break;
        state_.store.load(side_, range, state_.ring, unit.slot, bytes);
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

}  // namespace spillway::cuda
