// SPDX-License-Identifier: Apache-2.0
#include "cpu/hash_join/bucket_chaining_table.hpp"

#include <bit>
#include <cstring>

#include "cpu/row/column_builder.hpp"

namespace spillway {

namespace {

uint64_t heads_for(uint64_t rows) {
    return std::bit_ceil(rows < 16 ? uint64_t{16} : rows);
}

}  // namespace

uint64_t BucketChainingTable::bytes_for(uint64_t rows, uint64_t numbers) {
    return block_capacity((heads_for(rows) + numbers) * sizeof(uint32_t));
}

BucketChainingTable::BucketChainingTable(const BuildRows& rows, const RowLayout& probe_layout, uint64_t hash_mask,
                                         MemoryBudget& budget)
    : rows_(rows), probe_layout_(probe_layout), wide_(rows.layout().mode != KeyMode::kWord) {
    const uint64_t heads = heads_for(rows.rows());
    mask_ = (heads - 1) & hash_mask;
    buffer_ = Buffer::allocate(budget, bytes_for(rows.rows(), rows.numbers()), "join hash table");
    heads_ = reinterpret_cast<uint32_t*>(buffer_.data());
    next_ = heads_ + heads;
    std::memset(heads_, 0xff, heads * sizeof(uint32_t));
    for (size_t s = 0; s < rows.spans().size(); ++s) {
        const uint8_t* row = rows.spans()[s].rows;
        uint32_t number = rows.first_number(s);
        for (uint32_t i = 0; i < rows.spans()[s].count; ++i, ++number, row += rows.layout().row_bytes) {
            uint32_t& head = heads_[first_word(row) & mask_];
            next_[number] = head;
            head = number;
        }
    }
}

uint32_t BucketChainingTable::match_from(uint32_t number, uint64_t word, const uint8_t* row,
                                         const RowLayout& layout) const {
    for (; number != kNoRow; number = next_[number]) {
        const uint8_t* candidate = rows_.row(number);
        if (first_word(candidate) != word) continue;
        if (!wide_ || wide_keys_equal(rows_.layout(), candidate, layout, row)) return number;
    }
    return kNoRow;
}

void BucketChainingTable::find(const uint8_t* const* probe_rows, int64_t count, uint32_t* first) const {
    for (int64_t i = 0; i < count; ++i) {
        first[i] = match_from(head(probe_rows[i]), first_word(probe_rows[i]), probe_rows[i], probe_layout_);
    }
}

uint32_t BucketChainingTable::next_equal(uint32_t number) const {
    const uint8_t* row = rows_.row(number);
    return match_from(next_[number], first_word(row), row, rows_.layout());
}

uint64_t BucketChainingTable::count_matches(const uint8_t* const* probe_rows, int64_t count) const {
    uint64_t matches = 0;
    for (int64_t i = 0; i < count; ++i) {
        const uint64_t word = first_word(probe_rows[i]);
        uint32_t number = match_from(head(probe_rows[i]), word, probe_rows[i], probe_layout_);
        for (; number != kNoRow; number = match_from(next_[number], word, probe_rows[i], probe_layout_)) ++matches;
    }
    return matches;
}

}  // namespace spillway
