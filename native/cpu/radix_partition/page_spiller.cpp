// SPDX-License-Identifier: Apache-2.0
#include "cpu/radix_partition/page_spiller.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/hash.hpp"
#include "cpu/radix_partition/write_combining.hpp"
#include "memory/page_packing.hpp"

namespace spillway {

namespace {

// One write call carries this many bytes: small enough to come from a worker's scratch in cache, large enough that the
// system call (about 1 us) is noise against the copy (about 100 us).
constexpr uint64_t kWriteBytes = 256 * 1024;

void unmix_word(uint8_t* row) {
    uint64_t word;
    std::memcpy(&word, row, 8);
    word = unmix64(word);
    std::memcpy(row, &word, 8);
}

}  // namespace

PageSpiller::PageSpiller(PartitionedRows& rows)
    : rows_(rows), resident_pages_(static_cast<size_t>(rows.null_partition()) + 1) {}

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

uint8_t* PageSpiller::acquire(std::vector<PartitionPage>& pending, std::vector<uint8_t>& scratch) {
    for (;;) {
        if (uint8_t* page = rows_.pool().try_acquire()) return page;
        rows_.control().check();
        if (!rows_.spec().spill) throw nothing_to_spill();
        hand_in(pending, scratch);
        std::vector<Victim> victims = take_victims();
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

void PageSpiller::add(int32_t partition, Page&& page) {
    Partition& target = rows_.mutable_partition(partition);
    target.rows += page.rows;
    target.bytes += page.content_bytes;
    if (page.data != nullptr) {
        ++resident_pages_[partition];
        highest_resident_ = std::max(highest_resident_, partition);
    }
    target.pages.push_back(std::move(page));
}

void PageSpiller::hand_in(std::vector<PartitionPage>& pages, std::vector<uint8_t>& scratch) {
    if (pages.empty()) return;
    stream_fence();  // other workers may read the pages from now on
    {
        std::lock_guard<std::mutex> lock(mutex_);
        for (PartitionPage& each : pages) add(each.partition, std::move(each.page));
    }
    pages.clear();
    if (!rows_.spec().force_spill) return;
    for (std::vector<Victim> victims = take_victims(); !victims.empty(); victims = take_victims()) {
        write_victims(victims, scratch);
    }
}

std::vector<PageSpiller::Victim> PageSpiller::take_victims() {
    std::vector<Victim> victims;
    std::lock_guard<std::mutex> lock(mutex_);
    uint64_t bytes = 0;
    while (bytes < kWriteBytes && highest_resident_ >= 0) {
        const int32_t p = highest_resident_;
        if (resident_pages_[p] == 0) {
            --highest_resident_;
            continue;
        }
        auto& pages = rows_.mutable_partition(p).pages;
        for (size_t i = pages.size(); i-- > 0 && bytes < kWriteBytes && resident_pages_[p] > 0;) {
            if (pages[i].data == nullptr) continue;
            bytes += pages[i].capacity_bytes;
            victims.push_back({p, std::move(pages[i])});
            pages[i] = std::move(pages.back());
            pages.pop_back();
            --resident_pages_[p];
        }
    }
    if (!victims.empty()) writing_.fetch_add(1, std::memory_order_acq_rel);
    return victims;
}

void PageSpiller::encode(Page& page, std::vector<uint8_t>& scratch, SpillExtent& extent) {
    const RowLayout& layout = rows_.layout();
    const uint64_t rows_bytes = static_cast<uint64_t>(page.rows) * layout.row_bytes;
    // With byte strings in the heap the page goes as it is: VarRefs are distances inside it.
    const uint64_t raw_bytes = layout.has_var ? page.capacity_bytes : rows_bytes;
    extent.raw_bytes = static_cast<uint32_t>(raw_bytes);
    extent.encoding = 0;
    const size_t begin = scratch.size();
    if (rows_.spec().pack_spilled && !layout.has_var) {
        if (layout.mode == KeyMode::kWord) {
            // Mixed keys use all 64 bits; the keys themselves are often dense and pack to a third.
            for (uint64_t at = 0; at < rows_bytes; at += layout.row_bytes) unmix_word(page.data + at);
            extent.encoding |= kSpillUnmixed;
        }
        scratch.resize(begin + packed_bytes_max(page.rows, layout.row_bytes));
        const uint64_t packed = pack_rows(page.data, page.rows, layout.row_bytes, scratch.data() + begin);
        if (packed > 0) {
            scratch.resize(begin + packed);
            extent.encoding |= kSpillPacked;
            extent.bytes = static_cast<uint32_t>(packed);
            return;
        }
    }
    scratch.resize(begin + raw_bytes);
    std::memcpy(scratch.data() + begin, page.data, raw_bytes);
    extent.bytes = static_cast<uint32_t>(raw_bytes);
}

void PageSpiller::write_victims(std::vector<Victim>& victims, std::vector<uint8_t>& scratch) {
    struct Done {
        std::atomic<int>& writing;
        ~Done() { writing.fetch_sub(1, std::memory_order_acq_rel); }
    } done{writing_};
    scratch.clear();
    std::vector<uint64_t> begins;
    for (Victim& victim : victims) {
        begins.push_back(scratch.size());
        encode(victim.page, scratch, victim.page.spill);
    }
    int64_t offset = 0;
    try {
        offset = rows_.spill_file().write(scratch.data(), scratch.size());
    } catch (...) {
        std::lock_guard<std::mutex> lock(mutex_);
        for (Victim& victim : victims)
            rows_.mutable_partition(victim.partition).pages.push_back(std::move(victim.page));
        throw;  // the pages go back with the PartitionedRows
    }
    for (size_t i = 0; i < victims.size(); ++i) {
        Page& page = victims[i].page;
        page.spill.offset = offset + static_cast<int64_t>(begins[i]);
        if (page.own.empty()) {
            rows_.pool().release(page.data);
        } else {
            page.own = Buffer();
        }
        page.data = nullptr;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    for (Victim& victim : victims) {
        Partition& target = rows_.mutable_partition(victim.partition);
        target.spilled_bytes += victim.page.content_bytes;
        target.pages.push_back(std::move(victim.page));
    }
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
