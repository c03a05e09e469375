// SPDX-License-Identifier: Apache-2.0
#include "cpu/group_by/column_aggregator.hpp"

#include <algorithm>
#include <bit>

namespace spillway {

namespace {

// Up to here arrays and the table of numbers stay in the L2 cache.
constexpr uint32_t kNumberedGroupsMax = 16384;
static_assert(kNumberedGroupsMax <= KeyArray::kNumbersMax);
constexpr uint32_t kFirstGroups = 64;
// Places of an array that stay in the L1 cache: few groups have copies up to that many.
constexpr uint32_t kCopiedPlaces = 512;
constexpr uint32_t kCopiesMax = 8;

uint32_t copies_for(uint32_t groups) {
    return std::clamp<uint32_t>(kCopiedPlaces / groups, 1, kCopiesMax);
}

// The first of the rows [begin, end) that has a NULL in one of the keys, or has none; end: there is no such row.
int64_t first_row(const std::vector<const ColumnView*>& keys, int64_t begin, int64_t end, bool with_null) {
    for (int64_t row = begin; row < end; ++row) {
        const bool null = std::any_of(keys.begin(), keys.end(), [row](auto* key) { return !key->is_valid(row); });
        if (null == with_null) return row;
    }
    return end;
}

}  // namespace

ColumnAggregator::ColumnAggregator(const GroupPlan& plan, const std::vector<int32_t>& views, GroupAggregator& groups,
                                   MemoryBudget& budget)
    : plan_(plan),
      groups_(groups),
      views_(views),
      probe_encoder_(plan.probe_layout, views, budget),
      accumulators_(plan, groups.table().memory()),
      numbers_(groups.table(), kNumberedGroupsMax),
      key_array_(plan, views, groups.table().memory()),
      mode_(plan.layout.keys.empty() ? Mode::kSingle : Mode::kNumbered),
      block_(std::make_unique<RowBlock>()) {
    if (plan.keeps_fields()) {
        field_encoder_ = std::make_unique<RowEncoder>(plan.layout, views, budget);
        new_rows_ = std::make_unique<RowBlock>();
    }
    places_.resize(RowBlock::kRowsMax);
    const bool single = mode_ == Mode::kSingle;
    const uint64_t bytes_max = groups.table().memory().left_for_arrays();
    const uint32_t room = single ? 1 : kFirstGroups;
    if (!accumulators_.reset(room, single ? 1 : copies_for(room), bytes_max)) mode_ = Mode::kRecords;
}

void ColumnAggregator::add(const std::vector<ColumnView>& views, int64_t begin, int64_t count,
                           uint64_t first_row_number) {
    std::vector<const ColumnView*> keys;  // rows with a NULL in one of them are dropped
    if (plan_.layout.null_keys == NullKeys::kDrop) {
        for (const KeyPart& part : plan_.layout.keys) {
            const auto at = std::find(views_.begin(), views_.end(), part.spec.column) - views_.begin();
            const ColumnView& view = views[static_cast<size_t>(at)];
            if (view.type->layout == Layout::kNull) return;
            if (view.validity != nullptr) keys.push_back(&view);
        }
    }
    if (keys.empty()) return add_rows({&views, begin, first_row_number}, count);
    const int64_t end = begin + count;
    for (int64_t row = begin; row < end;) {
        const int64_t from = first_row(keys, row, end, false);
        row = first_row(keys, from, end, true);
        if (row > from) add_rows({&views, from, first_row_number + static_cast<uint64_t>(from - begin)}, row - from);
    }
}

void ColumnAggregator::add_rows(const ColumnRows& rows, int64_t count) {
    const bool single = mode_ == Mode::kSingle;
    const int64_t rows_max = single ? ColumnAccumulators::kRowsMax : probe_encoder_.rows_max();
    ColumnRows step = rows;
    for (int64_t left = count; left > 0;) {
        const int64_t some = std::min(left, rows_max);
        single ? add_single(step, some) : add_block(step, some);
        step.begin += some;
        step.first_row_number += static_cast<uint64_t>(some);
        left -= some;
    }
}

void ColumnAggregator::take_rows(const ColumnRows& rows, int64_t count) {
    rows_ = rows;
    block_->columns = &rows_;
    block_->count = static_cast<int32_t>(count);
}

void ColumnAggregator::encode_keys(const ColumnRows& rows, int64_t count) {
    const EncodedRows& encoded = probe_encoder_.encode(*rows.views, rows.begin, count, rows.first_row_number);
    SPILLWAY_CHECK(encoded.rows == count);
    take_rows(rows, count);
    block_->encoded = &encoded;
    const uint8_t* row = encoded.data;
    for (int64_t i = 0; i < count; ++i, row += encoded.row_bytes) block_->rows[i] = row;
}

void ColumnAggregator::add_single(const ColumnRows& rows, int64_t count) {
    if (single_ == nullptr) {
        encode_keys(rows, 1);
        single_ = groups_.table().find_or_insert_row(*block_, 0);
    }
    accumulators_.add(rows, count, nullptr, {&single_, 1});
    if (accumulators_.others().empty()) return;
    rows_ = rows;
    block_->one_group = true;
    std::fill_n(block_->records, std::min<int64_t>(count, RowBlock::kRowsMax), single_);
    for (int64_t left = count; left > 0; left -= block_->count) {
        block_->count = static_cast<int32_t>(std::min<int64_t>(left, RowBlock::kRowsMax));
        update_states(plan_, accumulators_.others(), *block_, groups_.gather(), groups_.table().arena());
        rows_.begin += block_->count;
        rows_.first_row_number += static_cast<uint64_t>(block_->count);
    }
}

void ColumnAggregator::add_block(const ColumnRows& rows, int64_t count) {
    if (mode_ == Mode::kNumbered) {
        if (add_numbered(rows, count)) return;
        leave_arrays();
    } else {
        encode_keys(rows, count);
    }
    groups_.table().find_or_insert(*block_);
    complete_records();
    update_states(plan_, *block_, groups_.gather(), groups_.table().arena());
}

// Returns false, with no row added and the keys encoded, where there are too many groups for arrays.
bool ColumnAggregator::add_numbered(const ColumnRows& rows, int64_t count) {
    if (!number_rows(rows, count)) return false;
    const ColumnAccumulators::Groups groups = numbered_groups();
    accumulators_.add(rows_, count, places_.data(), groups);
    if (accumulators_.others().empty()) return true;
    const auto copy_bits = std::countr_zero(accumulators_.copies());
    for (int64_t i = 0; i < count; ++i) block_->records[i] = groups.records[places_[i] >> copy_bits];
    block_->one_group = groups.count == 1;
    update_states(plan_, accumulators_.others(), *block_, groups_.gather(), groups_.table().arena());
    return true;
}

// Finds the places of the rows.
bool ColumnAggregator::number_rows(const ColumnRows& rows, int64_t count) {
    if (key_array_.find(rows, count, accumulators_.copies(), places_.data())) {
        take_rows(rows, count);
        return true;
    }
    encode_keys(rows, count);
    if (!numbers_.find(*block_, places_.data())) {
        // The memory of the array, with its texts, may be what is missing.
        if (!key_array_.release() || !numbers_.find(*block_, places_.data())) return false;
    }
    complete_records();
    key_array_.learn(places_.data());
    if (numbers_.count() > accumulators_.room() && !make_room()) return false;
    const uint32_t copies = accumulators_.copies();
    const auto copy_bits = std::countr_zero(copies);
    for (int64_t i = 0; i < count; ++i) {
        places_[i] = (places_[i] << copy_bits) | (static_cast<uint32_t>(i) & (copies - 1));
    }
    return true;
}

bool ColumnAggregator::make_room() {
    // Groups that came with this block have nothing in the arrays yet.
    accumulators_.flush({numbers_.records(), accumulators_.room()});
    const uint32_t room = std::bit_ceil(numbers_.count());
    return accumulators_.reset(room, copies_for(room), groups_.table().memory().left_for_arrays());
}

void ColumnAggregator::leave_arrays() {
    accumulators_.flush({numbers_.records(), std::min(numbers_.count(), accumulators_.room())});
    accumulators_.release();
    numbers_.release();
    key_array_.release();
    mode_ = Mode::kRecords;
}

// The rest of the keys of groups that are new: their rows are encoded again, with their fields.
void ColumnAggregator::complete_records() {
    auto& added = groups_.table().new_records();
    for (size_t done = 0; done < added.size();) {
        const auto rows_max = static_cast<size_t>(field_encoder_->rows_max());
        size_t run = 1;  // rows that follow each other
        while (run < rows_max && done + run < added.size() &&
               added[done + run].row == added[done].row + static_cast<int32_t>(run)) {
            ++run;
        }
        const EncodedRows& encoded = field_encoder_->encode(*rows_.views, rows_.begin + added[done].row,
                                                            static_cast<int64_t>(run), rows_.first_row_number);
        new_rows_->encoded = &encoded;
        for (size_t i = 0; i < run; ++i) {
            new_rows_->rows[i] = encoded.data + i * encoded.row_bytes;
            groups_.table().complete(*new_rows_, static_cast<int32_t>(i), added[done + i].record);
        }
        done += run;
    }
    added.clear();
}

void ColumnAggregator::finish() {
    if (mode_ == Mode::kSingle) {
        if (single_ != nullptr) accumulators_.flush({&single_, 1});
    } else if (mode_ == Mode::kNumbered) {
        leave_arrays();
    }
}

}  // namespace spillway
