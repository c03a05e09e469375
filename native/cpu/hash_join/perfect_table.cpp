// SPDX-License-Identifier: Apache-2.0
#include "cpu/hash_join/perfect_table.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/hash.hpp"
#include "base/parallel.hpp"

namespace spillway {

namespace {

uint32_t sign_shift(const RowLayout& layout) {
    return 64 - 8 * static_cast<uint32_t>(layout.keys[0].spec.width);
}

// Heads that fit the L1 cache are as fast as bits.
constexpr uint64_t kPresentValuesMin = 8192;
// Fuller ranges have to be looked up in the heads anyway.
constexpr uint64_t kPresentSparsity = 4;

// A normalized key as a 64-bit pattern whose unsigned order is the order of the signed values (offset binary).
uint64_t ordered_word(uint64_t word, uint32_t shift) {
    const auto value = static_cast<int64_t>(word << shift) >> shift;
    return static_cast<uint64_t>(value) ^ (1ULL << 63);
}

uint64_t ordered_key(uint64_t mixed, uint32_t shift) {
    return ordered_word(unmix64(mixed), shift);
}

constexpr uint64_t kClearedBytes = 1 << 20;  // by one worker at a time
constexpr uint64_t kRowsPerWorkerMin = 16384;
constexpr const char* kPerfectTablePurpose = "join hash table";

uint64_t present_words(uint64_t values) {
    return (values + 1) / 64 + 1;
}

}  // namespace

std::optional<KeyRange> key_range(const BuildRows& rows) {
    if (!is_one_integer(rows.layout()) || rows.rows() == 0) return std::nullopt;
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

uint64_t PerfectTable::bytes_for(uint64_t values) {
    return block_capacity((values + 1) * sizeof(uint32_t)) + block_capacity(present_words(values) * sizeof(uint64_t));
}

PerfectTable::PerfectTable(const BuildRows& rows, const RowLayout& probe_layout, const KeyRange& range,
                           MemoryBudget& budget, int workers)
    : min_(range.min), span_(range.span), sign_shift_(sign_shift(probe_layout)) {
    heads_buffer_ = Buffer::allocate(budget, (span_ + 2) * sizeof(uint32_t), kPerfectTablePurpose);
    heads_ = reinterpret_cast<uint32_t*>(heads_buffer_.data());
    if (span_ >= kPresentValuesMin && rows.rows() < span_ / kPresentSparsity) {
        present_buffer_ = Buffer::allocate(budget, present_words(span_ + 1) * sizeof(uint64_t), kPerfectTablePurpose);
        present_ = reinterpret_cast<uint64_t*>(present_buffer_.data());
    }
    clear(workers);
    if (workers > 1) {
        if (fill_in_parallel(rows, workers)) return;
        clear(workers);
    }
    fill(rows, budget);
}

void PerfectTable::clear(int workers) {
    // Heads of keys that are not present are never looked at.
    uint8_t* const bytes = present_ != nullptr ? present_buffer_.data() : heads_buffer_.data();
    const uint64_t size =
        present_ != nullptr ? present_words(span_ + 1) * sizeof(uint64_t) : (span_ + 2) * sizeof(uint32_t);
    const uint64_t pieces = (size + kClearedBytes - 1) / kClearedBytes;
    std::atomic<uint64_t> next{0};
    parallel_run(
        static_cast<int>(std::clamp<uint64_t>(pieces, 1, static_cast<uint64_t>(std::max(workers, 1)))), [&](int) {
            for (uint64_t piece = next++; piece < pieces; piece = next++) {
                const uint64_t begin = piece * kClearedBytes;
                std::memset(bytes + begin, present_ != nullptr ? 0 : 0xff, std::min(kClearedBytes, size - begin));
            }
        });
}

template <class EachRow>
void PerfectTable::each_row(const BuildRows& rows, int workers, const EachRow& each) const {
    std::atomic<size_t> next{0};
    const auto useful = std::min<uint64_t>(rows.rows() / kRowsPerWorkerMin, rows.spans().size());
    parallel_run(static_cast<int>(std::clamp<uint64_t>(useful, 1, static_cast<uint64_t>(std::max(workers, 1)))),
                 [&](int) {
                     for (size_t s = next++; s < rows.spans().size(); s = next++) {
                         const uint8_t* row = rows.spans()[s].rows;
                         const uint32_t number = rows.first_number(s);
                         for (uint32_t i = 0; i < rows.spans()[s].count; ++i, row += rows.layout().row_bytes) {
                             each(index_of(row), number + i);
                         }
                     }
                 });
}

// Returns false where keys are equal: one of their rows stays, and they need chains, which one worker makes.
bool PerfectTable::fill_in_parallel(const BuildRows& rows, int workers) {
    std::atomic<bool> has_equal{false};
    each_row(rows, workers, [&](uint64_t index, uint32_t number) {
        bool is_taken = false;
        if (present_ != nullptr) {
            const uint64_t bit = 1ULL << (index % 64);
            is_taken = (std::atomic_ref(present_[index / 64]).fetch_or(bit, std::memory_order_relaxed) & bit) != 0;
            std::atomic_ref(heads_[index]).store(number, std::memory_order_relaxed);
        } else {
            is_taken = std::atomic_ref(heads_[index]).exchange(number, std::memory_order_relaxed) != kNoRow;
        }
        if (is_taken) has_equal.store(true, std::memory_order_relaxed);
    });
    return !has_equal;
}

void PerfectTable::fill(const BuildRows& rows, MemoryBudget& budget) {
    each_row(rows, 1, [&](uint64_t index, uint32_t number) {
        const uint32_t before = head(index);
        if (before != kNoRow) {
            if (next_ == nullptr) start_chains(rows, budget);
            next_[number] = before;
        }
        heads_[index] = number;
        if (present_ != nullptr) present_[index / 64] |= 1ULL << (index % 64);
    });
}

void PerfectTable::start_chains(const BuildRows& rows, MemoryBudget& budget) {
    const uint64_t bytes = static_cast<uint64_t>(rows.numbers()) * sizeof(uint32_t);
    next_buffer_ = Buffer::allocate(budget, bytes, kPerfectTablePurpose);
    next_ = reinterpret_cast<uint32_t*>(next_buffer_.data());
    std::memset(next_, 0xff, bytes);
}

uint64_t PerfectTable::index_of(const uint8_t* row) const {
    return ordered_key(first_word(row), sign_shift_) - min_;
}

uint32_t PerfectTable::head(uint64_t index) const {
    const bool is_present = present_ == nullptr || ((present_[index / 64] >> (index % 64)) & 1) != 0;
    return is_present ? heads_[index] : kNoRow;
}

uint64_t PerfectTable::index_of_word(uint64_t word) const {
    return std::min(ordered_word(word, sign_shift_) - min_, span_ + 1);
}

void PerfectTable::find(const uint8_t* const* probe_rows, int64_t count, uint32_t* first) const {
    for (int64_t i = 0; i < count; ++i) {
        const uint64_t index = index_of(probe_rows[i]);
        first[i] = index <= span_ ? head(index) : kNoRow;
    }
}

uint64_t PerfectTable::count_matches(const uint8_t* const* probe_rows, int64_t count) const {
    uint64_t matches = 0;
    for (int64_t i = 0; i < count; ++i) {
        const uint64_t index = index_of(probe_rows[i]);
        if (index > span_) continue;
        uint32_t number = head(index);
        if (next_ == nullptr) {
            matches += number != kNoRow;
        } else {
            for (; number != kNoRow; number = next_[number]) ++matches;
        }
    }
    return matches;
}

// There are no branches, as a processor cannot foretell whether a key is there.
int64_t PerfectTable::find_words(const uint8_t* words, int64_t count, int32_t* positions, uint32_t* numbers) const {
    int64_t found = 0;
    if (present_ == nullptr) {
        for (int64_t i = 0; i < count; ++i) {
            const uint32_t number = heads_[index_of_word(first_word(words + i * 8))];
            positions[found] = static_cast<int32_t>(i);
            numbers[found] = number;
            found += number != kNoRow ? 1 : 0;
        }
        return found;
    }
    for (int64_t i = 0; i < count; ++i) {
        const uint64_t index = index_of_word(first_word(words + i * 8));
        positions[found] = static_cast<int32_t>(i);
        found += static_cast<int64_t>((present_[index / 64] >> (index % 64)) & 1);
    }
    for (int64_t i = 0; i < found; ++i) numbers[i] = heads_[index_of_word(first_word(words + positions[i] * 8))];
    return found;
}

}  // namespace spillway
