// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "stream/stream_policy.hpp"
#include "stream/unit_queue.hpp"

namespace spillway::cuda { inline namespace stream {

namespace {

uint64_t tiles_of(const FragmentSet& set, const FragmentRange& range) {
    uint64_t tiles = 0;
    for (size_t f = range.first; f < range.last; ++f) tiles += (set.pieces[f].rows + kTileRows - 1) / kTileRows;
    return tiles;
}

}  // namespace

void UnitQueue::fetch_ahead() {
    while (filled_.size() < ring_.slots() && find_range()) filled_.push_back(fetch());
}

bool UnitQueue::next(size_t list, SpilledUnit& unit) {
    fetch_ahead();
    if (filled_.empty() || filled_.front().list != list) return false;
    unit = std::move(filled_.front().unit);
    filled_.pop_front();
    return true;
}

// The next range to be fetched, wherever it is.
bool UnitQueue::find_range() {
    while (list_ < rows_.size() && range_ == rows_[list_].ranges->size()) {
        range_ = 0;
        ++list_;
    }
    return list_ < rows_.size();
}

UnitQueue::Filled UnitQueue::fetch() {
    Filled filled;
    filled.list = list_;
    SpilledUnit& unit = filled.unit;
    unit.slot = ring_.take();
    uint64_t bytes = 0;
    uint64_t tiles = 0;
    const int side = rows_[list_].side;
    for (const std::vector<FragmentRange>& ranges = *rows_[list_].ranges; range_ < ranges.size(); ++range_) {
        const FragmentRange& range = ranges[range_];
        const FragmentSet& set = store_.set(side, range.run);
        const uint64_t more_tiles = tiles_of(set, range);
        const bool fits = bytes + range.bytes <= ring_.slot_bytes() && unit.rows + range.rows <= limits_.rows &&
                          tiles + more_tiles <= limits_.tiles;
        if (!fits && unit.rows > 0) break;
        store_.load(side, range, ring_, unit.slot, bytes);
        const uint64_t at = bytes / sizeof(uint32_t);
        for (size_t f = range.first; f < range.last; ++f) {
            unit.set.add(set, f, at + set.first_word[f] - set.first_word[range.first], unit.rows);
            unit.rows += set.pieces[f].rows;
        }
        bytes += range.bytes;
        tiles += more_tiles;
    }
    ring_.filled(unit.slot);
    return filled;
}

}}  // namespace spillway::cuda::stream
