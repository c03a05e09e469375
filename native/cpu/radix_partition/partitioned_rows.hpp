// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/job_control.hpp"
#include "memory/buffer.hpp"
#include "memory/page_pool.hpp"
#include "memory/spill_file.hpp"
#include "model/stage_spec.hpp"

namespace spillway {

// Memory of a row larger than a page: straight from the budget, within the bytes of the pool.
struct OwnMemory {
    PagePool::Claim claim;
    Buffer buffer;
};

// Unit of a partition in memory: rows from the front, heap of byte strings from the back (VarRefs point upwards, so a
// page can be moved whole).
struct Page {
    uint8_t* data = nullptr;
    uint32_t rows = 0;
    uint32_t content_bytes = 0;      // rows and heap
    uint32_t capacity_bytes = 0;     // of memory that holds it: page size, or what its rows take
    std::unique_ptr<OwnMemory> own;  // of a row larger than a page
};

// Pages of a partition that were written as one, and are read back as one. No budget counts these records, which stay
// until the partition is read: one of 48 bytes for every spilled page of 1 KiB took more than 60 MiB per GiB on disk.
struct SpilledRun {
    uint32_t rows = 0;
    uint32_t capacity_bytes = 0;  // of memory that holds it
    SpillExtent extent;
};
static_assert(sizeof(SpilledRun) == 24);

// All that changes with a new page lies in one cache line: 16 workers that hand in pages of 1 KiB pass it from core to
// core for each.
struct alignas(64) Partition {
    std::vector<Page> pages;  // in memory
    uint64_t rows = 0;
    uint64_t bytes = 0;          // rows and heap
    uint64_t spilled_bytes = 0;  // of these, on disk (counted before packing)

    // While the partition is filled: full pages in memory, and a lock of `pages`, which is held for some instructions
    // and rarely wanted by two (a mutex takes 40 bytes, and waiting on an atomic goes through lines that all locks
    // share).
    std::atomic<uint32_t> resident_pages{0};
    std::atomic_flag locked = ATOMIC_FLAG_INIT;
    void lock() {
        while (locked.test_and_set(std::memory_order_acquire)) {
            for (int i = 0; i < kSpins && locked.test(std::memory_order_relaxed); ++i) {
            }
            if (locked.test(std::memory_order_relaxed)) std::this_thread::yield();
        }
    }
    void unlock() { locked.clear(std::memory_order_release); }

  private:
    static constexpr int kSpins = 100;
};
static_assert(sizeof(Partition) == 64);

struct RowSpan {
    const uint8_t* rows = nullptr;
    uint32_t count = 0;
};

// The result of a first partition pass: fan-out partitions by the top radix bits and one more for rows with a NULL key
// (NullKeys::kKeep). A partition is a list of pages, in no particular order (workers append independently): those in
// memory, then the spilled runs, of which each counts as one page.
class PartitionedRows {
  public:
    PartitionedRows(PartitionSpec spec, RowLayout layout, MemoryBudget& budget, std::shared_ptr<SpillSpace> spill_space,
                    JobControl& control);
    ~PartitionedRows();

    const PartitionSpec& spec() const { return spec_; }
    const RowLayout& layout() const { return layout_; }
    RowLayout& mutable_layout() { return layout_; }  // only before the first row: field types from the first batch
    int32_t partition_count() const { return 1 << spec_.radix_bits; }
    int32_t null_partition() const { return partition_count(); }
    const Partition& partition(int32_t p) const { return partitions_[p]; }
    Partition& mutable_partition(int32_t p) { return partitions_[p]; }
    uint64_t total_rows() const;
    const std::vector<SpilledRun>& spilled_runs(int32_t p) const { return spilled_[p]; }
    // While partitions are filled, under the lock of p.
    void add_spilled_run(int32_t p, const SpilledRun& run);
    size_t page_count(int32_t p) const { return partitions_[p].pages.size() + spilled_[p].size(); }
    uint32_t page_rows(int32_t p, size_t page) const;
    // Memory that loading this page needs; none for one in memory.
    uint64_t page_load_bytes(int32_t p, size_t page) const;
    // What it takes on disk.
    uint64_t page_extent_bytes(int32_t p, size_t page) const;
    PagePool& pool() { return pool_; }
    SpillFile& spill_file() { return *spill_; }
    // For whoever wants to close it later than the rows are freed.
    std::unique_ptr<SpillFile> take_spill_file() { return std::move(spill_); }
    MemoryBudget& budget() { return budget_; }
    JobControl& control() { return control_; }

    // Bytes of memory that reading this partition whole needs beyond the pages that are in memory already.
    uint64_t load_bytes(int32_t p) const;
    // The same for some of its pages, of `bytes` in memory and extents of at most `extent_max` on disk.
    uint64_t load_bytes(uint64_t bytes, uint64_t extent_max) const;
    // The same for reading it page by page (PageCursor).
    uint64_t cursor_bytes(int32_t p) const;
    // Makes every page of p resident in `memory` (allocated here from the budget, already reserved or not) and returns
    // all spans. The spans live until free_partition(p) and while `memory` lives.
    std::vector<RowSpan> load(int32_t p, std::vector<Buffer>& memory);
    // The same for pages [begin_page, end_page) only.
    std::vector<RowSpan> load_pages(int32_t p, size_t begin_page, size_t end_page, std::vector<Buffer>& memory);
    // Asks the system to read the spilled pages of p ahead.
    void prefetch(int32_t p);
    // Gives the memory of p back; its rows are gone.
    void free_partition(int32_t p);

  private:
    PartitionSpec spec_;
    RowLayout layout_;
    MemoryBudget& budget_;
    JobControl& control_;
    PagePool pool_;
    std::unique_ptr<SpillFile> spill_;
    std::vector<Partition> partitions_;
    std::vector<std::vector<SpilledRun>> spilled_;  // of each partition
};

// Reads spilled runs of one partition in their order. Extents that lie side by side (a partition is mostly evicted in
// one go) come with one system call.
class SpillReader {
  public:
    explicit SpillReader(PartitionedRows& rows) : rows_(rows) {}
    // Rows of runs[i]. Those stored as they are lie in the reader's buffer until its next call, others are decoded to
    // `out` (capacity_bytes of it). Reads ahead up to runs[end].
    const uint8_t* read(const std::vector<SpilledRun>& runs, size_t i, size_t end, uint8_t* out);
    // Rows of runs[i] and of the runs behind it that lie side by side in the file as in memory, to `out`. Returns the
    // first run (up to `end`) that was not read.
    size_t read_into(const std::vector<SpilledRun>& runs, size_t i, size_t end, uint8_t* out);

  private:
    void fetch(const std::vector<SpilledRun>& runs, size_t i, size_t end);

    PartitionedRows& rows_;
    Buffer buffer_;
    uint8_t shard_ = 0;
    int64_t begin_ = 0;  // of the file range in buffer_
    int64_t end_ = 0;
};

// Reads the rows of one partition page by page with one page of buffer, for sides that need not be resident.
// pages [begin, end) of the partition; several cursors may read disjoint ranges at once.
class PageCursor {
  public:
    PageCursor(PartitionedRows& rows, int32_t partition, size_t begin_page, size_t end_page);
    bool next(RowSpan& span);  // the span lives until the next call

  private:
    PartitionedRows& rows_;
    const int32_t partition_;
    size_t page_;
    size_t end_;
    Buffer buffer_;
    SpillReader reader_;
};

}  // namespace spillway
