// SPDX-License-Identifier: Apache-2.0
#include "cpu/radix_partition/page_spiller.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "cpu/radix_partition/write_combining.hpp"

namespace spillway {

namespace {

constexpr const char* kRowPurpose = "a row larger than a page";

// Guesses the pages of a partition in memory. A pool that is larger than its rows says nothing, so the guess has a
// limit.
size_t expected_pages(PartitionedRows& rows) {
    constexpr uint64_t kPagesMax = 64;
    const uint64_t pages = rows.pool().pool_bytes() / rows.spec().page_bytes;
    const auto partitions = static_cast<uint64_t>(rows.null_partition()) + 1;
    return static_cast<size_t>(std::min(pages / partitions * 5 / 4 + 1, kPagesMax));
}

}  // namespace

PageSpiller::PageSpiller(PartitionedRows& rows)
    : rows_(rows), writer_(rows), pages_expected_(expected_pages(rows)), spilling_from_(rows.null_partition() + 1) {}

size_t PageSpiller::run_pages() const {
    const PartitionSpec& spec = rows_.spec();
    if (spec.force_spill) return 1;
    return std::max<size_t>(1, spec.spill_run_bytes / spec.page_bytes);
}

size_t PageSpiller::batch_pages() const {
    // With 16 workers and pages of 4 KiB, two locks per page cost as much as filling it. 10 M x 10 M rows in 40 MB,
    // pages of 1 KiB, medians of three runs: 27.8 ms with 32 pages, 27.2 with 64, 27.3 with 128, 27.9 with 256. More
    // of them leave fewer to rows that stay.
    constexpr uint64_t kPagesMax = 64;
    const PartitionSpec& spec = rows_.spec();
    const auto workers = static_cast<uint64_t>(std::max(spec.workers, 1));
    const uint64_t pages = std::min(spec.pool_bytes, rows_.budget().limit()) / spec.page_bytes;
    const uint64_t open = workers * (static_cast<uint64_t>(rows_.null_partition()) + 1);
    const uint64_t surplus = pages > open ? pages - open : 0;
    return static_cast<size_t>(std::clamp<uint64_t>(surplus / (2 * workers), 1, kPagesMax));
}

bool PageSpiller::spill_some(std::vector<PartitionPage>& pending, SpillScratch& scratch) {
    hand_in(pending, scratch);
    const uint64_t before = handed_in_.load(std::memory_order_acquire);
    std::vector<SpillRun> victims = take_victims(scratch);
    if (!victims.empty()) {
        write_victims(victims, scratch);
        return true;
    }
    // Pages that were handed in behind this worker's back: to partitions that it had looked at.
    if (writing_.load(std::memory_order_acquire) == 0 && handed_in_.load(std::memory_order_acquire) == before) {
        return false;
    }
    std::this_thread::yield();
    return true;
}

void PageSpiller::place(int32_t partition, Page&& page) {
    Partition& target = rows_.mutable_partition(partition);
    if (target.pages.capacity() == 0) target.pages.reserve(pages_expected_);
    target.rows += page.rows;
    target.bytes += page.content_bytes;
    target.resident_pages.fetch_add(1, std::memory_order_release);
    target.pages.push_back(std::move(page));
}

void PageSpiller::hand_in(std::vector<PartitionPage>& pages, SpillScratch& scratch) {
    if (pages.empty()) return;
    stream_fence();  // other workers may read the pages from now on
    const auto run = static_cast<uint32_t>(run_pages());
    const int32_t spilling_from = rows_.spec().spill ? spilling_from_.load(std::memory_order_relaxed) : INT32_MAX;
    // The lines of the partitions come from other cores' caches: all at once instead of one after the other.
    for (const PartitionPage& each : pages) __builtin_prefetch(&rows_.partition(each.partition), 1);
    for (PartitionPage& each : pages) {
        std::lock_guard<Partition> lock(rows_.mutable_partition(each.partition));
        place(each.partition, std::move(each.page));
        const bool whole =
            rows_.mutable_partition(each.partition).resident_pages.load(std::memory_order_relaxed) % run == 0;
        if (whole && each.partition >= spilling_from) scratch.ready.push_back(each.partition);
    }
    pages.clear();
    handed_in_.fetch_add(1, std::memory_order_release);
    announce_runs(scratch);
    spill_if_forced(scratch);
}

void PageSpiller::spill_if_forced(SpillScratch& scratch) {
    if (!rows_.spec().force_spill) return;
    for (std::vector<SpillRun> victims = take_victims(scratch); !victims.empty(); victims = take_victims(scratch)) {
        write_victims(victims, scratch);
    }
}

std::vector<SpillRun> PageSpiller::take_victims(SpillScratch& scratch) {
    std::vector<SpillRun> runs;
    const uint64_t wanted = std::max(rows_.spec().spill_write_bytes, rows_.spec().page_bytes);
    uint64_t bytes = take_runs(scratch, wanted, runs);
    // Less is not worth a write of its own while whole partitions can still go.
    while (bytes < wanted / 4) {
        int32_t from = spilling_from_.load(std::memory_order_relaxed);
        if (from == 0) break;
        if (!spilling_from_.compare_exchange_weak(from, from - 1, std::memory_order_relaxed)) continue;
        bytes += take_pages(from - 1, 1, wanted - bytes, runs);
        const size_t left =
            rows_.mutable_partition(from - 1).resident_pages.load(std::memory_order_relaxed) / run_pages();
        scratch.ready.assign(left, from - 1);
        announce_runs(scratch);
    }
    // Every partition spills and none has a whole run.
    for (int32_t p = rows_.null_partition(); p >= 0 && bytes == 0; --p) bytes += take_pages(p, 1, wanted, runs);
    return runs;
}

void PageSpiller::announce_runs(SpillScratch& scratch) {
    if (scratch.ready.empty()) return;
    std::lock_guard<std::mutex> lock(ready_mutex_);
    ready_.insert(ready_.end(), scratch.ready.begin(), scratch.ready.end());
    scratch.ready.clear();
}

// Whole runs of partitions that spill already.
uint64_t PageSpiller::take_runs(SpillScratch& scratch, uint64_t wanted, std::vector<SpillRun>& runs) {
    const uint64_t run_bytes = run_pages() * rows_.spec().page_bytes;
    uint64_t bytes = 0;
    while (bytes < wanted) {
        {
            std::lock_guard<std::mutex> lock(ready_mutex_);
            const auto count = static_cast<std::ptrdiff_t>(std::min((wanted - bytes) / run_bytes + 1, ready_.size()));
            scratch.ready.assign(ready_.end() - count, ready_.end());
            ready_.erase(ready_.end() - count, ready_.end());
        }
        if (scratch.ready.empty()) return bytes;
        for (const int32_t p : scratch.ready) bytes += take_pages(p, run_pages(), run_bytes, runs);
    }
    scratch.ready.clear();
    return bytes;
}

// Moves pages of the partition that are in memory to `runs`: a multiple of `multiple`, and no more than reach `wanted`
// bytes (a partition with a frequent key may fill the memory). Returns their bytes. Who finds a partition empty has
// seen writing_ raised by whoever took its pages.
uint64_t PageSpiller::take_pages(int32_t partition, size_t multiple, uint64_t wanted, std::vector<SpillRun>& runs) {
    Partition& from = rows_.mutable_partition(partition);
    if (from.resident_pages.load(std::memory_order_acquire) < multiple) return 0;
    std::lock_guard<Partition> lock(from);
    const size_t enough = wanted / rows_.spec().page_bytes / multiple * multiple + multiple;
    size_t count = from.resident_pages.load(std::memory_order_relaxed) / multiple * multiple;
    count = std::min(count, enough);
    if (count == 0) return 0;
    if (runs.empty()) writing_.fetch_add(1, std::memory_order_acq_rel);
    from.resident_pages.fetch_sub(static_cast<uint32_t>(count), std::memory_order_release);
    uint64_t bytes = 0;
    // By bytes, not pages: a row larger than a page may be as large as many of them.
    const uint64_t run_bytes = run_pages() * rows_.spec().page_bytes;
    uint64_t run = run_bytes;  // of which these are taken
    auto& pages = from.pages;
    for (; count > 0; --count) {
        Page& page = pages.back();
        if (run + page.capacity_bytes > run_bytes) {
            runs.push_back({partition, {}, {}, 0});
            run = 0;
        }
        run += page.capacity_bytes;
        bytes += page.capacity_bytes;
        runs.back().pages.push_back(std::move(page));
        pages.pop_back();
    }
    return bytes;
}

void PageSpiller::spill_page(PartitionPage&& page, SpillScratch& scratch) {
    {
        Partition& target = rows_.mutable_partition(page.partition);
        std::lock_guard<Partition> lock(target);
        target.rows += page.page.rows;
        target.bytes += page.page.content_bytes;
    }
    std::vector<SpillRun> runs;
    runs.push_back({page.partition, {}, {}, 0});
    runs.back().pages.push_back(std::move(page.page));
    writing_.fetch_add(1, std::memory_order_acq_rel);
    write_victims(runs, scratch);
}

// The pages were not written whole: they go back with the PartitionedRows. Nobody reads them any more, since the job
// fails (VarRefs may point to where the bytes would be in the file).
void PageSpiller::give_back(std::vector<SpillRun>& runs) {
    for (SpillRun& run : runs) {
        Partition& from = rows_.mutable_partition(run.partition);
        std::lock_guard<Partition> lock(from);
        for (Page& page : run.pages) from.pages.push_back(std::move(page));
    }
}

void PageSpiller::write_victims(std::vector<SpillRun>& runs, SpillScratch& scratch) {
    struct Done {
        std::atomic<int>& writing;
        ~Done() { writing.fetch_sub(1, std::memory_order_acq_rel); }
    } done{writing_};
    try {
        writer_.write(runs, scratch);
    } catch (...) {
        give_back(runs);
        throw;
    }
    for (SpillRun& run : runs) {
        for (Page& page : run.pages) {
            if (page.own == nullptr) scratch.freed.push_back(page.data);
        }
        run.pages.clear();
    }
    release_freed(scratch);
    for (SpillRun& run : runs) {
        Partition& from = rows_.mutable_partition(run.partition);
        std::lock_guard<Partition> lock(from);
        from.spilled_bytes += run.content_bytes;
        rows_.add_spilled_run(run.partition, run.spilled);
    }
}

uint8_t* PageSpiller::acquire(std::vector<PartitionPage>& pending, SpillScratch& scratch) {
    const size_t wanted = std::max<size_t>(scratch.spare_max, 1);
    while (scratch.spare.empty() && !rows_.pool().try_acquire(wanted, scratch.spare)) {
        rows_.control().check();
        if (!rows_.spec().spill) throw set_full();
        if (spill_some(pending, scratch)) continue;
        // Another worker may have written and released between the two looks at the pool.
        if (!rows_.pool().try_acquire(wanted, scratch.spare)) throw nothing_to_spill();
    }
    uint8_t* const page = scratch.spare.back();
    scratch.spare.pop_back();
    return page;
}

// Who spills needs as many pages next as it has written: what it keeps goes neither through the lock of the pool nor
// from its cache to another core's.
void PageSpiller::release_freed(SpillScratch& scratch) {
    while (!scratch.freed.empty() && scratch.spare.size() < scratch.spare_max) {
        scratch.spare.push_back(scratch.freed.back());
        scratch.freed.pop_back();
    }
    if (!scratch.freed.empty()) rows_.pool().release(scratch.freed);
    scratch.freed.clear();
}

void PageSpiller::release_spare(SpillScratch& scratch) {
    if (!scratch.spare.empty()) rows_.pool().release(scratch.spare);
    scratch.spare.clear();
}

std::unique_ptr<OwnMemory> PageSpiller::own_memory(uint64_t bytes) {
    const uint64_t capacity = block_capacity(bytes);
    if (std::optional<PagePool::Claim> claim = rows_.pool().try_claim(capacity)) {
        if (std::optional<Reservation> reserved = rows_.budget().try_reserve(capacity)) {
            Buffer buffer = Buffer::allocate(rows_.budget(), *reserved, bytes, kRowPurpose);
            return std::make_unique<OwnMemory>(OwnMemory{std::move(*claim), std::move(buffer)});
        }
    }
    if (!rows_.spec().spill) throw set_full();
    return nullptr;
}

std::unique_ptr<OwnMemory> PageSpiller::passing_memory(uint64_t bytes, std::vector<PartitionPage>& pending,
                                                       SpillScratch& scratch) {
    const uint64_t capacity = block_capacity(bytes);
    std::optional<Reservation> reserved = rows_.budget().try_reserve(capacity);
    // Only slabs without a page in use go back to the budget: no spare ones.
    const size_t spare_max = std::exchange(scratch.spare_max, 0);
    if (!reserved) release_spare(scratch);
    while (!reserved) {
        rows_.control().check();
        // Nothing to spill: the reservation says what is missing.
        reserved = spill_some(pending, scratch) ? rows_.budget().try_reserve(capacity)
                                                : rows_.budget().reserve(capacity, kRowPurpose);
    }
    scratch.spare_max = spare_max;
    Buffer buffer = Buffer::allocate(rows_.budget(), *reserved, bytes, kRowPurpose);
    return std::make_unique<OwnMemory>(OwnMemory{{}, std::move(buffer)});
}

Error PageSpiller::set_full() const {
    const PagePool& pool = rows_.pool();
    return Error(ErrorCode::kBudgetTooSmall,
                 "rows that are to stay in memory need more than the " + std::to_string(pool.pool_bytes() >> 10) +
                     " KiB planned for them",
                 {{"reason", "setFull"}, {"poolBytes", std::to_string(pool.pool_bytes())}});
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
