// SPDX-License-Identifier: Apache-2.0
// DistinctPairs, second half: the partitions of pairs are read back and counted.
#include <algorithm>
#include <bit>

#include "executor/cpu/distinct_pairs.hpp"

namespace spillway {

namespace {

// Each level has half of the memory of the one above.
constexpr int kLevelsMax = 4;
// So many passes over a partition of pairs cost no more than to partition it once more.
constexpr uint64_t kPassesMax = 4;

// Bytes counted in a TableMemory while they are in use elsewhere.
struct Charge {
    Charge(TableMemory& memory, uint64_t bytes) : memory(memory), bytes(bytes) { memory.charge(bytes); }
    ~Charge() { memory.give_back(bytes); }
    Charge(const Charge&) = delete;
    TableMemory& memory;
    const uint64_t bytes;
};

}  // namespace

void DistinctPairs::count(const std::function<void(double)>& progress) {
    TableMemory memory(rows_->budget(), input_.memory_bytes / static_cast<uint64_t>(input_.workers) / 2);
    const auto partitions = [&] {
        for (int32_t p = next_++; p < rows_->partition_count(); p = next_++) {
            control_.check();
            const uint64_t pairs = rows_->partition(p).rows;
            if (pairs == 0) continue;
            rows_->prefetch(p);
            count_partition(p, memory);
            rows_->free_partition(p);
            const uint64_t counted = counted_.fetch_add(pairs, std::memory_order_relaxed) + pairs;
            progress(static_cast<double>(counted) / static_cast<double>(total_));
        }
    };
    try {
        guarded(partitions);
    } catch (...) {
        next_ = rows_->partition_count();  // what other workers would still count is counted in another way
        throw;
    }
}

// body(pair, hash): hash below the bits that all pairs of the partition have in common. Byte strings live until
// page_ends().
template <class Body, class PageEnds>
void DistinctPairs::for_each_pair(int32_t partition, Body&& body, PageEnds&& page_ends) {
    const uint32_t row_bytes = rows_->layout().row_bytes;
    const int32_t bits = rows_->spec().radix_bits;
    PageCursor cursor(*rows_, partition, 0, rows_->page_count(partition));
    for (RowSpan span; cursor.next(span);) {
        control_.check();
        const uint8_t* row = span.rows;
        for (uint32_t i = 0; i < span.count; ++i, row += row_bytes) {
            const uint64_t word = first_word(row);
            uint64_t record;
            std::memcpy(&record, row + record_offset_, sizeof record);
            Pair pair{reinterpret_cast<uint8_t*>(record), 0, nullptr, 0};
            pair.value = unmix64(std::rotr(word, bits_used_)) ^ record * record_factor_;
            if (!numbers_) {
                pair.length = var_ref(row, kBytesOffset).length;
                pair.bytes = var_bytes(row, kBytesOffset);
            }
            body(pair, word << bits);
        }
        page_ends();
    }
}

void DistinctPairs::count_partition(int32_t partition, TableMemory& memory) {
    const uint64_t pairs = rows_->partition(partition).rows;
    const uint64_t read = count_range(partition, HashRange{}, memory);
    if (read == pairs) return;
    const uint64_t left = memory.limit() - std::min(memory.limit(), rows_->cursor_bytes(partition));
    if (read * kPassesMax < pairs && level_ + 1 < kLevelsMax && left >= kWorkerBytesMin) {
        count_again(partition, left);
    } else {
        count_ranges(partition, memory);
    }
}

// Returns how many pairs were read: all, or fewer when those of the range do not fit; then nothing is counted.
uint64_t DistinctPairs::count_range(int32_t partition, const HashRange& range, TableMemory& memory) {
    const Charge cursor(memory, rows_->cursor_bytes(partition));
    DistinctSet set(aggregate_, memory, input_.counting);
    uint64_t read = 0;
    try {
        const auto add = [&](const Pair& pair, uint64_t hash) {
            if (range.contains(hash)) {
                if (numbers_) {
                    set.add_number(pair.record, pair.value, mix64(pair.value));
                } else {
                    set.add_bytes(pair.record, pair.bytes, pair.length, pair.value);
                }
            }
            ++read;
        };
        for_each_pair(partition, add, [] {});
    } catch (const TableFull&) {
        if (set.pairs() <= 1) throw;
        set.undo();
    }
    set.clear();
    return read;
}

void DistinctPairs::count_ranges(int32_t partition, TableMemory& memory) {
    const uint64_t pairs = rows_->partition(partition).rows;
    uint64_t span = ~0ULL / 2;
    for (uint64_t first = 0;;) {
        const HashRange range{first, ~0ULL - first <= span ? ~0ULL : first + span};
        if (count_range(partition, range, memory) < pairs) {
            if (span == 0) throw TableFull{};
            span /= 2;
            continue;
        }
        if (range.last == ~0ULL) return;
        first = range.last + 1;
    }
}

// With the next bits of the hash.
void DistinctPairs::count_again(int32_t partition, uint64_t memory_bytes) {
    const Partition& from = rows_->partition(partition);
    Input input = input_;
    input.memory_bytes = memory_bytes;
    input.workers = 1;
    input.rows = from.rows;
    input.heap_bytes = from.bytes;
    DistinctPairs next(aggregate_, input, *rows_, control_, level_ + 1, bits_used_ + rows_->spec().radix_bits);
    for_each_pair(
        partition, [&](const Pair& pair, uint64_t) { next.add_again(pair); }, [&] { next.append(0); });
    next.finish();
    next.count([](double) {});
}

}  // namespace spillway
