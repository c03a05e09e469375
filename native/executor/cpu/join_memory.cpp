// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/join_memory.hpp"

#include <algorithm>
#include <chrono>

#include "cpu/hash_join/co_partition_probe.hpp"

namespace spillway {

namespace {

// How late a waiting worker may notice that its job was cancelled: JobControl has no condition to wait on.
constexpr std::chrono::milliseconds kCancelPoll{20};

// Row numbers have gaps at the ends of pages.
uint64_t numbers_of(uint64_t rows) {
    return rows + rows / 2;
}

// Row numbers and the counters of equal keys have 32 bits; what does not fit is built in chunks.
bool outnumbers_table(uint64_t rows) {
    return numbers_of(rows) >= kNoRow;
}

}  // namespace

uint64_t JoinMemory::table(int32_t p, TableRoom room) const {
    const uint64_t rows = build_.partition(p).rows;
    const uint64_t numbers = numbers_of(rows);
    return (streams_build_rows() ? build_.cursor_bytes(p) : build_.load_bytes(p)) +
           JoinTable::bytes_for(spec_.scheme, use_, build_.layout(), rows, numbers, room) + mark_bytes(numbers);
}

uint64_t JoinMemory::mark_bytes(uint64_t numbers) const {
    return marks_build_rows(spec_) ? block_capacity(numbers) : 0;
}

uint64_t JoinMemory::second_pass(int32_t p) const {
    const uint64_t build_rows = build_.partition(p).rows;
    const uint64_t probe_rows = probe_.partition(p).rows;
    return build_.load_bytes(p) + probe_.load_bytes(p) + block_capacity(build_rows * build_.layout().row_bytes) +
           block_capacity(probe_rows * probe_.layout().row_bytes) + sub_table_planned(p);
}

// The rows of a sub-partition are one block, so their numbers have no gaps.
uint64_t JoinMemory::sub_table(uint64_t rows) const {
    return JoinTable::bytes_for(spec_.scheme, use_, build_.layout(), rows, rows) + mark_bytes(rows);
}

uint64_t JoinMemory::sub_table_planned(int32_t p) const {
    return sub_table(2 * (build_.partition(p).rows >> spec_.second_radix_bits) + 1);
}

bool JoinMemory::is_tight() const {
    uint64_t all = 0;
    for (const int32_t p : spec_.schedule) all += table(p, {.equal_keys = false});
    const auto workers = static_cast<uint64_t>(spec_.workers);
    return !spec_.schedule.empty() && all / spec_.schedule.size() * workers > spec_.table_bytes;
}

size_t JoinMemory::chunk_end(int32_t p, size_t begin, uint64_t probe_flags) const {
    const size_t pages = build_.page_count(p);
    uint64_t rows = 0;
    uint64_t loaded = 0;
    uint64_t extent_max = 0;
    size_t end = begin;
    for (; end < pages; ++end) {
        rows += build_.page_rows(p, end);
        loaded += build_.page_load_bytes(p, end);
        extent_max = std::max(extent_max, build_.page_extent_bytes(p, end));
        const uint64_t numbers = numbers_of(rows);
        const uint64_t bytes = build_.load_bytes(loaded, extent_max) + mark_bytes(numbers) + probe_flags +
                               JoinTable::bytes_for(spec_.scheme, use_, build_.layout(), rows, numbers);
        if (end > begin && (bytes > spec_.build_chunk_bytes || outnumbers_table(rows))) break;
    }
    return end;
}

size_t JoinMemory::flags_end(int32_t p, size_t begin) const {
    const size_t pages = probe_.page_count(p);
    uint64_t rows = 0;
    size_t end = begin;
    for (; end < pages; ++end) {
        rows += probe_.page_rows(p, end);
        if (end > begin && block_capacity(rows) > spec_.build_chunk_bytes / 4) break;
    }
    return end;
}

bool JoinMemory::takes_second_pass(int32_t p) const {
    return spec_.second_radix_bits > 0 && !build_.layout().has_var && !probe_.layout().has_var &&
           second_pass(p) <= spec_.table_bytes / static_cast<uint64_t>(spec_.workers);
}

bool JoinMemory::needs_all_workers(int32_t p) const {
    const bool splits = static_cast<int64_t>(probe_.partition(p).rows) > spec_.probe_split_rows && spec_.workers > 1;
    if (takes_second_pass(p) && !splits) return false;
    return splits || outnumbers_table(build_.partition(p).rows) ||
           table(p) > std::min(spec_.build_chunk_bytes, spec_.table_bytes);
}

uint64_t TableGate::enter(uint64_t bytes) {
    const uint64_t wanted = std::min(bytes, bytes_);  // alone, anyone may enter
    std::unique_lock<std::mutex> lock(mutex_);
    while (free_ < wanted) {
        control_.check();
        left_.wait_for(lock, kCancelPoll);
    }
    free_ -= wanted;
    return wanted;
}

void TableGate::leave(uint64_t bytes) {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        free_ += bytes;
    }
    left_.notify_all();
}

}  // namespace spillway
