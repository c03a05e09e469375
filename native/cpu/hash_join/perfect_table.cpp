// SPDX-License-Identifier: Apache-2.0
#include "cpu/hash_join/perfect_table.hpp"

#include <algorithm>
#include <cstring>

#include "base/hash.hpp"

namespace spillway {

namespace {

uint32_t sign_shift(const RowLayout& layout) {
    return 64 - 8 * static_cast<uint32_t>(layout.keys[0].spec.width);
}

// The key as a 64-bit pattern whose unsigned order is the order of the signed values (offset binary).
uint64_t ordered_key(uint64_t word, uint32_t shift) {
    const auto value = static_cast<int64_t>(unmix64(word) << shift) >> shift;
    return static_cast<uint64_t>(value) ^ (1ULL << 63);
}

bool one_integer_key(const RowLayout& layout) {
    if (layout.mode != KeyMode::kWord || layout.keys.size() != 1 || layout.has_mask) return false;
    const KeySpec& spec = layout.keys[0].spec;
    return spec.kind == KeyKind::kInteger && spec.width > 0;
}

}  // namespace

std::optional<KeyRange> key_range(const BuildRows& rows) {
    if (!one_integer_key(rows.layout()) || rows.rows() == 0) return std::nullopt;
    const uint32_t shift = sign_shift(rows.layout());
    uint64_t low = ~0ULL;
    uint64_t high = 0;
    for (const RowSpan& span : rows.spans()) {
        const uint8_t* row = span.rows;
        for (uint32_t i = 0; i < span.count; ++i, row += rows.layout().row_bytes) {
            const uint64_t key = ordered_key(first_word(row), shift);
            low = std::min(low, key);
            high = std::max(high, key);
        }
    }
    return KeyRange{low, high - low};
}

PerfectTable::PerfectTable(const BuildRows& rows, const RowLayout& probe_layout, const KeyRange& range,
                           MemoryBudget& budget)
    : min_(range.min), span_(range.span), sign_shift_(sign_shift(probe_layout)) {
    heads_buffer_ = Buffer::allocate(budget, (span_ + 1) * sizeof(uint32_t), "join hash table");
    heads_ = reinterpret_cast<uint32_t*>(heads_buffer_.data());
    std::memset(heads_, 0xff, (span_ + 1) * sizeof(uint32_t));
    for (size_t s = 0; s < rows.spans().size(); ++s) {
        const uint8_t* row = rows.spans()[s].rows;
        uint32_t number = rows.first_number(s);
        for (uint32_t i = 0; i < rows.spans()[s].count; ++i, ++number, row += rows.layout().row_bytes) {
            uint32_t& head = heads_[index_of(row)];
            if (head != kNoRow) {
                if (next_ == nullptr) start_chains(rows, budget);
                next_[number] = head;
            }
            head = number;
        }
    }
}

void PerfectTable::start_chains(const BuildRows& rows, MemoryBudget& budget) {
    const uint64_t bytes = static_cast<uint64_t>(rows.numbers()) * sizeof(uint32_t);
    next_buffer_ = Buffer::allocate(budget, bytes, "join hash table");
    next_ = reinterpret_cast<uint32_t*>(next_buffer_.data());
    std::memset(next_, 0xff, bytes);
}

uint64_t PerfectTable::index_of(const uint8_t* row) const {
    return ordered_key(first_word(row), sign_shift_) - min_;
}

void PerfectTable::find(const uint8_t* const* probe_rows, int64_t count, uint32_t* first) const {
    for (int64_t i = 0; i < count; ++i) {
        const uint64_t index = index_of(probe_rows[i]);
        first[i] = index <= span_ ? heads_[index] : kNoRow;
    }
}

uint64_t PerfectTable::count_matches(const uint8_t* const* probe_rows, int64_t count) const {
    uint64_t matches = 0;
    for (int64_t i = 0; i < count; ++i) {
        const uint64_t index = index_of(probe_rows[i]);
        if (index > span_) continue;
        uint32_t number = heads_[index];
        if (next_ == nullptr) {
            matches += number != kNoRow;
        } else {
            for (; number != kNoRow; number = next_[number]) ++matches;
        }
    }
    return matches;
}

}  // namespace spillway
