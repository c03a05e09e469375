// SPDX-License-Identifier: Apache-2.0
#include "cpu/hash_join/linear_probing_table.hpp"

#include <bit>
#include <cstring>

#include "cpu/row/column_builder.hpp"

namespace spillway {

namespace {

// Above this size a slot is likely a cache miss and worth a prefetch loop of its own (half of a common 1 MiB L2).
constexpr uint64_t kPrefetchTableBytes = 512 * 1024;

uint64_t slots_for(uint64_t rows) {
    return std::bit_ceil(rows < 8 ? uint64_t{16} : rows * 2);
}

}  // namespace

uint64_t LinearProbingTable::bytes_for(uint64_t rows, uint64_t numbers) {
    return slots_for(rows) * sizeof(Slot) + numbers * sizeof(uint32_t);
}

LinearProbingTable::LinearProbingTable(const BuildRows& rows, const RowLayout& probe_layout, uint64_t hash_mask,
                                       MemoryBudget& budget)
    : rows_(rows), probe_layout_(probe_layout), wide_(rows.layout().mode != KeyMode::kWord) {
    slot_count_ = slots_for(rows.rows());
    mask_ = (slot_count_ - 1) & hash_mask;
    slots_buffer_ = Buffer::allocate(budget, slot_count_ * sizeof(Slot), "join hash table");
    slots_ = reinterpret_cast<Slot*>(slots_buffer_.data());
    std::memset(static_cast<void*>(slots_), 0xff, slot_count_ * sizeof(Slot));
    prefetch_ = slot_count_ * sizeof(Slot) > kPrefetchTableBytes;
    insert_all(budget);
}

void LinearProbingTable::insert_all(MemoryBudget& budget) {
    const uint32_t row_bytes = rows_.layout().row_bytes;
    for (size_t s = 0; s < rows_.spans().size(); ++s) {
        const RowSpan& span = rows_.spans()[s];
        const uint8_t* row = span.rows;
        const uint32_t first = rows_.first_number(s);
        constexpr uint32_t kAhead = 16;
        for (uint32_t i = 0; i < span.count; ++i, row += row_bytes) {
            if (prefetch_ && i + kAhead < span.count) {
                __builtin_prefetch(&slots_[first_word(row + kAhead * row_bytes) & mask_], 1);
            }
            insert(first_word(row), first + i, row, budget);
        }
    }
}

void LinearProbingTable::insert(uint64_t word, uint32_t number, const uint8_t* row, MemoryBudget& budget) {
    for (uint64_t at = word & mask_;; at = (at + 1) & (slot_count_ - 1)) {
        Slot& slot = slots_[at];
        if (slot.first == kNoRow) {
            slot = {word, number, 1};
            if (next_ != nullptr) next_[number] = kNoRow;
            return;
        }
        if (slot.word != word) continue;
        if (wide_ && !wide_keys_equal(rows_.layout(), rows_.row(slot.first), rows_.layout(), row)) continue;
        if (next_ == nullptr) start_chains(budget);
        next_[number] = slot.first;
        slot.first = number;
        if (slot.count != 0xffffffffu) ++slot.count;
        return;
    }
}

void LinearProbingTable::start_chains(MemoryBudget& budget) {
    next_buffer_ =
        Buffer::allocate(budget, static_cast<uint64_t>(rows_.numbers()) * sizeof(uint32_t), "join hash table");
    next_ = reinterpret_cast<uint32_t*>(next_buffer_.data());
    std::memset(next_, 0xff, static_cast<size_t>(rows_.numbers()) * sizeof(uint32_t));
}

template <bool kWide>
const LinearProbingTable::Slot* LinearProbingTable::lookup(uint64_t word, const uint8_t* probe_row) const {
    for (uint64_t at = word & mask_;; at = (at + 1) & (slot_count_ - 1)) {
        const Slot& slot = slots_[at];
        if (slot.first == kNoRow) return nullptr;
        if (slot.word != word) continue;
        if constexpr (kWide) {
            if (!wide_keys_equal(rows_.layout(), rows_.row(slot.first), probe_layout_, probe_row)) continue;
        }
        return &slot;
    }
}

void LinearProbingTable::prefetch(const uint8_t* const* probe_rows, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) __builtin_prefetch(&slots_[first_word(probe_rows[i]) & mask_]);
}

void LinearProbingTable::find(const uint8_t* const* probe_rows, int64_t count, uint32_t* first) const {
    // Prefetch in groups: a core tracks some tens of outstanding misses, more would only evict each other.
    constexpr int64_t kGroup = 64;
    for (int64_t begin = 0; begin < count; begin += kGroup) {
        const int64_t end = begin + kGroup < count ? begin + kGroup : count;
        if (prefetch_) prefetch(probe_rows + begin, end - begin);
        for (int64_t i = begin; i < end; ++i) {
            const uint64_t word = first_word(probe_rows[i]);
            const Slot* slot = wide_ ? lookup<true>(word, probe_rows[i]) : lookup<false>(word, probe_rows[i]);
            first[i] = slot == nullptr ? kNoRow : slot->first;
        }
    }
}

uint64_t LinearProbingTable::count_of(const Slot& slot) const {
    if (slot.count != 0xffffffffu) return slot.count;
    uint64_t count = 0;
    for (uint32_t number = slot.first; number != kNoRow; number = next_[number]) ++count;
    return count;
}

uint64_t LinearProbingTable::count_matches(const uint8_t* const* probe_rows, int64_t count) const {
    constexpr int64_t kGroup = 64;
    uint64_t matches = 0;
    for (int64_t begin = 0; begin < count; begin += kGroup) {
        const int64_t end = begin + kGroup < count ? begin + kGroup : count;
        if (prefetch_) prefetch(probe_rows + begin, end - begin);
        for (int64_t i = begin; i < end; ++i) {
            const uint64_t word = first_word(probe_rows[i]);
            const Slot* slot = wide_ ? lookup<true>(word, probe_rows[i]) : lookup<false>(word, probe_rows[i]);
            if (slot != nullptr) matches += count_of(*slot);
        }
    }
    return matches;
}

}  // namespace spillway
