// SPDX-License-Identifier: Apache-2.0
#include "cpu/hash_join/linear_probing_table.hpp"

#include <algorithm>
#include <cstring>

#include "base/hash.hpp"
#include "cpu/hash_join/vector_probing_kernels.hpp"
#include "cpu/row/column_builder.hpp"

namespace spillway {

namespace {

// Above this size a slot is likely a cache miss and worth a prefetch loop of its own (half of a common 1 MiB L2).
constexpr uint64_t kPrefetchTableBytes = 512 * 1024;
constexpr const char* kPurpose = "join hash table";

uint64_t slots_for(uint64_t rows) {
    return std::max<uint64_t>(rows * 3, 16);
}

bool numbered(TableUse use, bool wide) {
    return finds(use) || wide;
}

}  // namespace

uint64_t LinearProbingTable::bytes_for(TableUse use, uint64_t rows, uint64_t numbers) {
    // Wide keys need row numbers for any use.
    const uint64_t arrays = counts(use) ? 2 : 1;
    const uint64_t slots = slots_for(rows);
    return block_capacity(slots * sizeof(uint64_t)) + arrays * block_capacity(slots * sizeof(uint32_t)) +
           (finds(use) ? block_capacity(numbers * sizeof(uint32_t)) : 0);
}

LinearProbingTable::LinearProbingTable(const BuildRows& rows, const RowLayout& probe_layout, TableUse use,
                                       uint64_t hash_mask, MemoryBudget& budget)
    : rows_(rows),
      probe_layout_(probe_layout),
      wide_(rows.layout().mode != KeyMode::kWord),
      numbered_(numbered(use, wide_)),
      chained_(finds(use)),
      counted_(counts(use)),
      hash_mask_(hash_mask) {
    slot_count_ = slots_for(rows.rows());
    words_buffer_ = Buffer::allocate(budget, slot_count_ * sizeof(uint64_t), kPurpose);
    words_ = reinterpret_cast<uint64_t*>(words_buffer_.data());
    if (numbered_) {
        first_buffer_ = Buffer::allocate(budget, slot_count_ * sizeof(uint32_t), kPurpose);
        first_ = reinterpret_cast<uint32_t*>(first_buffer_.data());
    }
    prefetch_ = slot_count_ * sizeof(uint64_t) > kPrefetchTableBytes;
    do {
        clear_slots();
    } while (!(wide_ ? insert_all<true>(budget) : insert_all<false>(budget)));
}

void LinearProbingTable::clear_slots() {
    std::fill_n(words_, slot_count_, free_word_);
    counts_ = nullptr;
    next_ = nullptr;
}

// False: a build row's word is the one that marks free slots (one in 2^64, or an adversary's); it has been changed and
// the slots must be filled anew.
template <bool kWide>
bool LinearProbingTable::insert_all(MemoryBudget& budget) {
    const uint32_t row_bytes = rows_.layout().row_bytes;
    for (size_t s = 0; s < rows_.spans().size(); ++s) {
        const RowSpan& span = rows_.spans()[s];
        const uint8_t* row = span.rows;
        const uint32_t first = rows_.first_number(s);
        constexpr uint32_t kAhead = 16;
        for (uint32_t i = 0; i < span.count; ++i, row += row_bytes) {
            if (prefetch_ && i + kAhead < span.count) {
                __builtin_prefetch(&words_[slot_of(first_word(row + kAhead * row_bytes))], 1);
            }
            const uint64_t word = first_word(row);
            if (word == free_word_) {
                free_word_ = mix64(free_word_ + 1);
                return false;
            }
            uint64_t at = slot_of(word);
            for (; words_[at] != free_word_; at = after(at)) {
                if (words_[at] != word) continue;
                if (!kWide || wide_keys_equal(rows_.layout(), rows_.row(first_[at]), rows_.layout(), row)) break;
            }
            if (words_[at] == word) {
                insert_equal(at, first + i, budget);
                continue;
            }
            words_[at] = word;
            if (numbered_) first_[at] = first + i;
        }
    }
    return true;
}

void LinearProbingTable::insert_equal(uint64_t at, uint32_t number, MemoryBudget& budget) {
    if (counted_) {
        if (counts_ == nullptr) {
            if (counts_buffer_.empty()) {
                counts_buffer_ = Buffer::allocate(budget, slot_count_ * sizeof(uint32_t), kPurpose);
            }
            counts_ = reinterpret_cast<uint32_t*>(counts_buffer_.data());
            std::fill_n(counts_, slot_count_, 1u);
        }
        ++counts_[at];  // below 2^32: row numbers are
    }
    if (!chained_) return;
    if (next_ == nullptr) {
        const uint64_t bytes = static_cast<uint64_t>(rows_.numbers()) * sizeof(uint32_t);
        if (next_buffer_.empty()) next_buffer_ = Buffer::allocate(budget, bytes, kPurpose);
        next_ = reinterpret_cast<uint32_t*>(next_buffer_.data());
        std::memset(next_, 0xff, bytes);
    }
    next_[number] = first_[at];
    first_[at] = number;
}

template <bool kWide>
uint64_t LinearProbingTable::lookup(uint64_t word, const uint8_t* probe_row) const {
    const uint64_t free_word = free_word_;
    for (uint64_t at = slot_of(word);; at = after(at)) {
        const uint64_t found = words_[at];
        if (found == free_word) return kNoSlot;
        if (found != word) continue;
        if constexpr (kWide) {
            if (!wide_keys_equal(rows_.layout(), rows_.row(first_[at]), probe_layout_, probe_row)) continue;
        }
        return at;
    }
}

void LinearProbingTable::prefetch(const uint8_t* const* probe_rows, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) __builtin_prefetch(&words_[slot_of(first_word(probe_rows[i]))]);
}

// Calls body(index of the probe row, slot or kNoSlot). Prefetches in groups: a core tracks some tens of outstanding
// misses, more would only evict each other.
template <class Body>
void LinearProbingTable::each_match(const uint8_t* const* probe_rows, int64_t count, Body&& body) const {
    constexpr int64_t kGroup = 64;
    for (int64_t begin = 0; begin < count; begin += kGroup) {
        const int64_t end = std::min(begin + kGroup, count);
        if (prefetch_) prefetch(probe_rows + begin, end - begin);
        if (wide_) {
            for (int64_t i = begin; i < end; ++i) body(i, lookup<true>(first_word(probe_rows[i]), probe_rows[i]));
        } else {
            for (int64_t i = begin; i < end; ++i) body(i, lookup<false>(first_word(probe_rows[i]), probe_rows[i]));
        }
    }
}

void LinearProbingTable::find(const uint8_t* const* probe_rows, int64_t count, uint32_t* first) const {
    SPILLWAY_CHECK(chained_);
    each_match(probe_rows, count, [&](int64_t i, uint64_t at) { first[i] = at == kNoSlot ? kNoRow : first_[at]; });
}

uint64_t LinearProbingTable::count_matches(const uint8_t* const* probe_rows, int64_t count) const {
    SPILLWAY_CHECK(counted_);
    uint64_t matches = 0;
    if (counts_ == nullptr) {
        each_match(probe_rows, count, [&](int64_t, uint64_t at) { matches += at != kNoSlot; });
    } else {
        each_match(probe_rows, count, [&](int64_t, uint64_t at) { matches += at == kNoSlot ? 0 : counts_[at]; });
    }
    return matches;
}

}  // namespace spillway
