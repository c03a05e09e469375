// SPDX-License-Identifier: Apache-2.0
#include "cpu/radix_partition/page_spiller.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <thread>

#include "base/mix_kernels.hpp"
#include "cpu/radix_partition/write_combining.hpp"
#include "memory/page_packing.hpp"

namespace spillway {

namespace {

// Keys that do not pack (random 64-bit ones) are not tried for ever: unmixing and looking at them costs as much as the
// write. After this many runs in a row the rest of the set goes as it is.
constexpr int kFutileRunsMax = 8;

}  // namespace

SpillScratch::SpillScratch(const PartitionSpec& spec, MemoryBudget& budget) {
    // Rows that are not packed are written from their pages.
    if (!spec.spill || !spec.pack_spilled) return;
    const uint64_t run_bytes = std::max(spec.spill_run_bytes, spec.page_bytes);
    reservation = budget.reserve(spec.spill_write_bytes + 2 * run_bytes, "buffers for spilled rows");
}

PageSpiller::PageSpiller(PartitionedRows& rows)
    : rows_(rows),
      resident_pages_(static_cast<size_t>(rows.null_partition()) + 1),
      spilled_(static_cast<size_t>(rows.null_partition()) + 1),
      spilling_from_(rows.null_partition() + 1) {}

size_t PageSpiller::run_pages() const {
    const PartitionSpec& spec = rows_.spec();
    // Pages with byte strings are written one by one: VarRefs are distances inside a page.
    if (rows_.layout().has_var || spec.force_spill) return 1;
    return std::max<size_t>(1, spec.spill_run_bytes / spec.page_bytes);
}

size_t PageSpiller::batch_pages() const {
    // 32 pages: with 16 workers and pages of 4 KiB, two locks per page cost as much as filling it.
    constexpr uint64_t kPagesMax = 32;
    const PartitionSpec& spec = rows_.spec();
    const auto workers = static_cast<uint64_t>(std::max(spec.workers, 1));
    const uint64_t pages = std::min(spec.pool_bytes, rows_.budget().limit()) / spec.page_bytes;
    const uint64_t open = workers * (static_cast<uint64_t>(rows_.null_partition()) + 1);
    const uint64_t surplus = pages > open ? pages - open : 0;
    return static_cast<size_t>(std::clamp<uint64_t>(surplus / (2 * workers), 1, kPagesMax));
}

uint8_t* PageSpiller::acquire(std::vector<PartitionPage>& pending, SpillScratch& scratch) {
    for (;;) {
        if (uint8_t* page = rows_.pool().try_acquire()) return page;
        rows_.control().check();
        if (!rows_.spec().spill) throw nothing_to_spill();
        hand_in(pending, scratch);
        std::vector<Run> victims = take_victims(scratch);
        if (!victims.empty()) {
            write_victims(victims, scratch);
            continue;
        }
        if (writing_.load(std::memory_order_acquire) == 0) {
            // Another worker may have written and released between the two looks at the pool.
            if (uint8_t* page = rows_.pool().try_acquire()) return page;
            throw nothing_to_spill();
        }
        std::this_thread::yield();
    }
}

void PageSpiller::place(int32_t partition, Page&& page) {
    Partition& target = rows_.mutable_partition(partition);
    target.rows += page.rows;
    target.bytes += page.content_bytes;
    if (page.data != nullptr) resident_pages_[partition].fetch_add(1, std::memory_order_release);
    target.pages.push_back(std::move(page));
}

void PageSpiller::hand_in(std::vector<PartitionPage>& pages, SpillScratch& scratch) {
    if (pages.empty()) return;
    stream_fence();  // other workers may read the pages from now on
    for (PartitionPage& each : pages) {
        std::lock_guard<std::mutex> lock(lock_of(each.partition));
        place(each.partition, std::move(each.page));
    }
    pages.clear();
    spill_if_forced(scratch);
}

void PageSpiller::spill_if_forced(SpillScratch& scratch) {
    if (!rows_.spec().force_spill) return;
    for (std::vector<Run> victims = take_victims(scratch); !victims.empty(); victims = take_victims(scratch)) {
        write_victims(victims, scratch);
    }
}

std::vector<PageSpiller::Run> PageSpiller::take_victims(SpillScratch& scratch) {
    std::vector<Run> runs;
    const uint64_t wanted = std::max(rows_.spec().spill_write_bytes, rows_.spec().page_bytes);
    uint64_t bytes = take_runs(scratch, wanted, runs);
    // Less is not worth a write of its own while whole partitions can still go.
    while (bytes < wanted / 4) {
        int32_t from = spilling_from_.load(std::memory_order_relaxed);
        if (from == 0) break;
        if (!spilling_from_.compare_exchange_weak(from, from - 1, std::memory_order_relaxed)) continue;
        bytes += take_pages(from - 1, 1, wanted - bytes, runs);
    }
    // Every partition spills and none has a whole run.
    for (int32_t p = rows_.null_partition(); p >= 0 && bytes == 0; --p) bytes += take_pages(p, 1, wanted, runs);
    return runs;
}

// Whole runs of partitions that spill already.
uint64_t PageSpiller::take_runs(SpillScratch& scratch, uint64_t wanted, std::vector<Run>& runs) {
    const int32_t from = spilling_from_.load(std::memory_order_relaxed);
    const int32_t count = rows_.null_partition() + 1 - from;
    uint64_t bytes = 0;
    for (int32_t i = 0; i < count && bytes < wanted; ++i, ++scratch.turn) {
        const int32_t p = from + static_cast<int32_t>(scratch.turn % static_cast<uint32_t>(count));
        bytes += take_pages(p, run_pages(), wanted - bytes, runs);
    }
    return bytes;
}

// Moves pages of the partition that are in memory to `runs`: a multiple of `multiple`, and no more than reach `wanted`
// bytes (a partition with a frequent key may fill the memory). Returns their bytes. Who finds a partition empty has
// seen writing_ raised by whoever took its pages.
uint64_t PageSpiller::take_pages(int32_t partition, size_t multiple, uint64_t wanted, std::vector<Run>& runs) {
    if (resident_pages_[partition].load(std::memory_order_acquire) < multiple) return 0;
    std::lock_guard<std::mutex> lock(lock_of(partition));
    const size_t enough = wanted / rows_.spec().page_bytes / multiple * multiple + multiple;
    size_t count = resident_pages_[partition].load(std::memory_order_relaxed) / multiple * multiple;
    count = std::min(count, enough);
    if (count == 0) return 0;
    if (runs.empty()) writing_.fetch_add(1, std::memory_order_acq_rel);
    resident_pages_[partition].fetch_sub(static_cast<uint32_t>(count), std::memory_order_release);
    uint64_t bytes = 0;
    const size_t run = run_pages();
    auto& pages = rows_.mutable_partition(partition).pages;
    for (; count > 0; --count) {
        Page& page = pages.back();
        const bool follows = !runs.empty() && runs.back().partition == partition && runs.back().pages.size() < run &&
                             page.own == nullptr && runs.back().pages.back().own == nullptr;
        if (!follows) runs.push_back({partition, {}, {}});
        bytes += page.capacity_bytes;
        runs.back().pages.push_back(std::move(page));
        pages.pop_back();
    }
    return bytes;
}

void PageSpiller::encode(Run& run, SpillScratch& scratch) {
    const uint32_t row_bytes = rows_.layout().row_bytes;
    Page& spilled = run.spilled;
    for (const Page& page : run.pages) {
        spilled.rows += page.rows;
        spilled.content_bytes += page.content_bytes;
    }
    const bool var = rows_.layout().has_var;
    spilled.capacity_bytes = var ? run.pages[0].capacity_bytes : spilled.rows * row_bytes;
    spilled.spill.raw_bytes = spilled.capacity_bytes;
    spilled.spill.bytes = spilled.capacity_bytes;
    // With byte strings in the heap a page goes as it is.
    if (rows_.spec().pack_spilled && !var && futile_.load(std::memory_order_relaxed) < kFutileRunsMax) {
        run.packed = encode_packed(run, scratch);
    }
}

bool PageSpiller::encode_packed(Run& run, SpillScratch& scratch) {
    const RowLayout& layout = rows_.layout();
    Page& spilled = run.spilled;
    scratch.rows.resize(spilled.capacity_bytes);
    uint8_t* at = scratch.rows.data();
    for (const Page& page : run.pages) {
        const uint64_t bytes = static_cast<uint64_t>(page.rows) * layout.row_bytes;
        std::memcpy(at, page.data, bytes);
        at += bytes;
    }
    if (layout.mode == KeyMode::kWord) {
        // Mixed keys use all 64 bits; the keys themselves are often dense and pack to a third.
        unmix_first_words(scratch.rows.data(), spilled.rows, layout.row_bytes);
        spilled.spill.encoding |= kSpillUnmixed;
    }
    const size_t begin = scratch.encoded.size();
    run.encoded_at = begin;
    scratch.encoded.resize(begin + packed_bytes_max(spilled.rows, layout.row_bytes));
    const uint64_t packed =
        pack_rows(scratch.rows.data(), spilled.rows, layout.row_bytes, scratch.encoded.data() + begin);
    scratch.encoded.resize(begin + packed);
    if (packed == 0) {
        spilled.spill.encoding = 0;
        futile_.fetch_add(1, std::memory_order_relaxed);
        return false;
    }
    futile_.store(0, std::memory_order_relaxed);
    spilled.spill.encoding |= kSpillPacked;
    spilled.spill.bytes = static_cast<uint32_t>(packed);
    return true;
}

// The pages were not written: they go back with the PartitionedRows.
void PageSpiller::give_back(std::vector<Run>& runs) {
    for (Run& run : runs) {
        std::lock_guard<std::mutex> lock(lock_of(run.partition));
        auto& pages = rows_.mutable_partition(run.partition).pages;
        for (Page& page : run.pages) pages.push_back(std::move(page));
    }
}

void PageSpiller::write_victims(std::vector<Run>& runs, SpillScratch& scratch) {
    struct Done {
        std::atomic<int>& writing;
        ~Done() { writing.fetch_sub(1, std::memory_order_acq_rel); }
    } done{writing_};
    try {
        write_runs(runs, scratch);
    } catch (...) {
        give_back(runs);
        throw;
    }
    for (Run& run : runs) {
        for (Page& page : run.pages) {
            if (page.own == nullptr) scratch.freed.push_back(page.data);
        }
        run.pages.clear();
    }
    rows_.pool().release(scratch.freed);
    scratch.freed.clear();
    for (Run& run : runs) {
        std::lock_guard<std::mutex> lock(lock_of(run.partition));
        rows_.mutable_partition(run.partition).spilled_bytes += run.spilled.content_bytes;
        spilled_[run.partition].push_back(std::move(run.spilled));
    }
}

// One write for all: packed runs from the scratch memory, others straight from their pages.
void PageSpiller::write_runs(std::vector<Run>& runs, SpillScratch& scratch) {
    scratch.encoded.clear();
    for (Run& run : runs) encode(run, scratch);
    const bool var = rows_.layout().has_var;
    const uint32_t row_bytes = rows_.layout().row_bytes;
    scratch.pieces.clear();
    for (const Run& run : runs) {
        if (run.packed) {
            scratch.pieces.push_back({scratch.encoded.data() + run.encoded_at, run.spilled.spill.bytes});
            continue;
        }
        for (const Page& page : run.pages) {
            const uint64_t bytes = var ? page.capacity_bytes : static_cast<uint64_t>(page.rows) * row_bytes;
            scratch.pieces.push_back({page.data, bytes});
        }
    }
    const SpillFile::Position position = rows_.spill_file().write(scratch.pieces);
    int64_t offset = position.offset;
    for (Run& run : runs) {
        run.spilled.spill.offset = offset;
        run.spilled.spill.shard = position.shard;
        offset += run.spilled.spill.bytes;
    }
}

void PageSpiller::gather(int32_t partition) {
    auto& spilled = spilled_[partition];
    auto& pages = rows_.mutable_partition(partition).pages;
    pages.insert(pages.end(), std::make_move_iterator(spilled.begin()), std::make_move_iterator(spilled.end()));
    std::vector<Page>().swap(spilled);
}

Error PageSpiller::nothing_to_spill() const {
    const PagePool& pool = rows_.pool();
    return Error(ErrorCode::kBudgetTooSmall,
                 "the page pool of " + std::to_string(pool.pool_bytes() >> 10) + " KiB (pages of " +
                     std::to_string(pool.page_bytes() >> 10) + " KiB) is exhausted by the open pages of " +
                     std::to_string(rows_.partition_count()) + " partitions; raise the option 'memory.host'",
                 {{"tier", "host"},
                  {"poolBytes", std::to_string(pool.pool_bytes())},
                  {"pageBytes", std::to_string(pool.page_bytes())},
                  {"option", "memory.host"}});
}

}  // namespace spillway
