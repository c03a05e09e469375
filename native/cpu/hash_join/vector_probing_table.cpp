// SPDX-License-Identifier: Apache-2.0
#include "cpu/hash_join/vector_probing_table.hpp"

#include <algorithm>
#include <cstring>

#include "base/hash.hpp"

namespace spillway {

namespace {

// Above this size a bucket is likely a cache miss and worth a prefetch loop of its own (half of a common 1 MiB L2).
constexpr uint64_t kVectorPrefetchTableBytes = 512 * 1024;
constexpr uint32_t kBlockRows = 1024;
constexpr const char* kVectorTablePurpose = "join hash table";

// 10 M x 10 M rows on two cores: 5 % slower with two slots per row, 25 % with three halves.
uint64_t buckets_for(uint64_t rows, TableRoom room) {
    return ((room.tight ? rows * 2 : rows * 5 / 2) + 2 * kBucketWords) / kBucketWords;
}

}  // namespace

const VectorProbingKernels* vector_probing_kernels() {
#if defined(__x86_64__)
    static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
    return has_avx2 ? avx2_probing_kernels() : nullptr;
#else
    return nullptr;
#endif
}

bool VectorProbingTable::usable(const RowLayout& build) {
    return build.mode == KeyMode::kWord && vector_probing_kernels() != nullptr;
}

uint64_t VectorProbingTable::bytes_for(TableUse use, TableRoom room, uint64_t rows, uint64_t numbers) {
    const uint64_t arrays = static_cast<uint64_t>(finds(use)) + static_cast<uint64_t>(counts(use) && room.equal_keys);
    const uint64_t slots = buckets_for(rows, room) * kBucketWords;
    return block_capacity(slots * sizeof(uint64_t)) + arrays * block_capacity(slots * sizeof(uint32_t)) +
           (finds(use) && room.equal_keys ? block_capacity(numbers * sizeof(uint32_t)) : 0);
}

VectorProbingTable::VectorProbingTable(uint64_t rows, uint64_t numbers, uint32_t row_bytes, TableUse use,
                                       TableRoom room, uint64_t hash_mask, MemoryBudget& budget)
    : numbers_(numbers), row_bytes_(row_bytes), use_(use), room_(room), kernels_(*vector_probing_kernels()) {
    buckets_.count = buckets_for(rows, room);
    buckets_.hash_mask = hash_mask;
    buckets_.free_word = ~0ULL;
    const uint64_t slots = buckets_.count * kBucketWords;
    words_buffer_ = Buffer::allocate(budget, slots * sizeof(uint64_t), kVectorTablePurpose);
    buckets_.words = reinterpret_cast<uint64_t*>(words_buffer_.data());
    buckets_.prefetch = slots * sizeof(uint64_t) > kVectorPrefetchTableBytes;
    if (finds(use)) {
        first_buffer_ = Buffer::allocate(budget, slots * sizeof(uint32_t), kVectorTablePurpose);
        first_ = reinterpret_cast<uint32_t*>(first_buffer_.data());
    }
}

std::unique_ptr<VectorProbingTable> VectorProbingTable::make(const BuildRows& rows, TableUse use, TableRoom room,
                                                             uint64_t hash_mask, MemoryBudget& budget) {
    std::unique_ptr<VectorProbingTable> table(
        new VectorProbingTable(rows.rows(), rows.numbers(), rows.layout().row_bytes, use, room, hash_mask, budget));
    Filled filled;
    do {
        table->clear_slots();
        filled = Filled::kAll;
        for (size_t s = 0; s < rows.spans().size() && filled == Filled::kAll; ++s) {
            filled = table->insert_span(rows.spans()[s], rows.first_number(s), budget);
        }
    } while (filled == Filled::kFreeWordTaken);
    return filled == Filled::kAll ? std::move(table) : nullptr;
}

std::unique_ptr<VectorProbingTable> VectorProbingTable::make_counter(uint64_t rows, uint32_t row_bytes,
                                                                     const EachSpan& each, TableRoom room,
                                                                     uint64_t hash_mask, MemoryBudget& budget) {
    SPILLWAY_CHECK(rows < kNoRow);
    std::unique_ptr<VectorProbingTable> table(
        new VectorProbingTable(rows, 0, row_bytes, TableUse::kCount, room, hash_mask, budget));
    Filled filled;
    do {
        table->clear_slots();
        filled = Filled::kAll;
        each([&](const RowSpan& span) {
            filled = table->insert_span(span, 0, budget);
            return filled == Filled::kAll;
        });
    } while (filled == Filled::kFreeWordTaken);
    return filled == Filled::kAll ? std::move(table) : nullptr;
}

void VectorProbingTable::clear_slots() {
    std::fill_n(buckets_.words, buckets_.count * kBucketWords, buckets_.free_word);
    counts_ = nullptr;
    next_ = nullptr;
}

// kFreeWordTaken: a build row's word is the one that marks free slots (one in 2^64, or an adversary's); that has been
// changed and the slots must be filled anew.
VectorProbingTable::Filled VectorProbingTable::insert_span(const RowSpan& span, uint32_t first_number,
                                                           MemoryBudget& budget) {
    for (uint32_t done = 0; done < span.count; done += kBlockRows) {
        const uint32_t count = std::min(span.count - done, kBlockRows);
        const uint8_t* rows = span.rows + static_cast<uint64_t>(done) * row_bytes_;
        const Filled filled = insert_rows(rows, count, first_number + done, budget);
        if (filled != Filled::kAll) return filled;
    }
    return Filled::kAll;
}

VectorProbingTable::Filled VectorProbingTable::insert_rows(const uint8_t* rows, uint32_t count, uint32_t first_number,
                                                           MemoryBudget& budget) {
    uint64_t slots[kBlockRows];
    for (uint32_t done = 0; done < count;) {
        const uint8_t* row = rows + static_cast<uint64_t>(done) * row_bytes_;
        uint64_t equal_slot = 0;
        const uint32_t inserted =
            kernels_.insert(buckets_, row, row_bytes_, count - done, first_ == nullptr ? nullptr : slots, &equal_slot);
        if (first_ != nullptr) {
            for (uint32_t i = 0; i < inserted; ++i) first_[slots[i]] = first_number + done + i;
        }
        done += inserted;
        if (done == count) break;
        if (first_word(row + static_cast<uint64_t>(inserted) * row_bytes_) == buckets_.free_word) {
            buckets_.free_word = mix64(buckets_.free_word + 1);
            return Filled::kFreeWordTaken;
        }
        if (!room_.equal_keys) return Filled::kEqualKeys;
        insert_equal(equal_slot, first_number + done, budget);
        ++done;
    }
    return Filled::kAll;
}

void VectorProbingTable::insert_equal(uint64_t slot, uint32_t number, MemoryBudget& budget) {
    if (counts(use_)) {
        if (counts_ == nullptr) {
            const uint64_t all = buckets_.count * kBucketWords;
            if (counts_buffer_.empty()) {
                counts_buffer_ = Buffer::allocate(budget, all * sizeof(uint32_t), kVectorTablePurpose);
            }
            counts_ = reinterpret_cast<uint32_t*>(counts_buffer_.data());
            std::fill_n(counts_, all, 1u);
        }
        ++counts_[slot];  // below 2^32: there are no more rows
    }
    if (!finds(use_)) return;
    if (next_ == nullptr) {
        const uint64_t bytes = numbers_ * sizeof(uint32_t);
        if (next_buffer_.empty()) next_buffer_ = Buffer::allocate(budget, bytes, kVectorTablePurpose);
        next_ = reinterpret_cast<uint32_t*>(next_buffer_.data());
        std::memset(next_, 0xff, bytes);
    }
    next_[number] = first_[slot];
    first_[slot] = number;
}

void VectorProbingTable::find(const uint8_t* const* probe_rows, int64_t count, uint32_t* first) const {
    SPILLWAY_CHECK(finds(use_));
    uint64_t slots[kBlockRows];
    for (int64_t done = 0; done < count; done += kBlockRows) {
        const auto block = static_cast<uint32_t>(std::min<int64_t>(count - done, kBlockRows));
        kernels_.find(buckets_, probe_rows + done, block, slots);
        for (uint32_t i = 0; i < block; ++i) first[done + i] = slots[i] == kNoSlot ? kNoRow : first_[slots[i]];
    }
}

uint64_t VectorProbingTable::count_matches(const uint8_t* const* probe_rows, int64_t count) const {
    SPILLWAY_CHECK(counts(use_));
    uint64_t matches = 0;
    uint64_t slots[kBlockRows];
    for (int64_t done = 0; done < count; done += kBlockRows) {
        const auto block = static_cast<uint32_t>(std::min<int64_t>(count - done, kBlockRows));
        if (counts_ == nullptr) {
            matches += kernels_.count(buckets_, probe_rows + done, block);
            continue;
        }
        kernels_.find(buckets_, probe_rows + done, block, slots);
        for (uint32_t i = 0; i < block; ++i) matches += slots[i] == kNoSlot ? 0 : counts_[slots[i]];
    }
    return matches;
}

}  // namespace spillway
