// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "cpu/radix_partition/partitioned_rows.hpp"
#include "cpu/radix_partition/spill_writer.hpp"

namespace spillway {

// Takes the full pages of all workers of one partition pass and decides which stay. Hybrid residency: when the pool is
// exhausted, the highest-numbered partition that is still in memory goes to disk whole, and from then on its pages
// follow whenever there is a run of them (PartitionSpec::spill_run_bytes), so that low-numbered partitions stay
// resident on both sides of a join (Triton join, section 5; hybrid hash join) and what is read back lies in few pieces.
class PageSpiller {
  public:
    explicit PageSpiller(PartitionedRows& rows);

    struct PartitionPage {
        int32_t partition;
        Page page;
    };
    // One of scratch.spare, which is filled from the pool. When there is none left, hands in `pending` (full pages that
    // the caller still holds) and spills. Throws kBudgetTooSmall when nothing can be spilled.
    uint8_t* acquire(std::vector<PartitionPage>& pending, SpillScratch& scratch);
    // For a row larger than a page that stays in memory. Nothing: there is no room in the pool, and passing_memory()
    // does. Throws when the set may not spill.
    std::unique_ptr<OwnMemory> own_memory(uint64_t bytes);
    // For a row larger than a page that is written at once: not the pool's. Spills until the budget has enough.
    std::unique_ptr<OwnMemory> passing_memory(uint64_t bytes, std::vector<PartitionPage>& pending,
                                              SpillScratch& scratch);
    // Hands in full pages (or the last, partly filled ones) and clears the list.
    void hand_in(std::vector<PartitionPage>& pages, SpillScratch& scratch);
    // Writes a page that was never handed in.
    void spill_page(PartitionPage&& page, SpillScratch& scratch);
    // A page that was still open at the end of the pass. Without a lock: whoever calls owns the partition.
    void place(int32_t partition, Page&& page);
    // With PartitionSpec::force_spill, everything that is in memory goes to disk.
    void spill_if_forced(SpillScratch& scratch);
    // How many pages a worker may take from the pool or hold back at a time, so that locks are rare: all workers
    // together at most the surplus of the pool over one open page per worker and partition, which alone must always
    // find a page.
    size_t batch_pages() const;

  private:
    std::vector<SpillRun> take_victims(SpillScratch& scratch);
    uint64_t take_runs(SpillScratch& scratch, uint64_t wanted, std::vector<SpillRun>& runs);
    void announce_runs(SpillScratch& scratch);
    uint64_t take_pages(int32_t partition, size_t multiple, uint64_t wanted, std::vector<SpillRun>& runs);
    void write_victims(std::vector<SpillRun>& runs, SpillScratch& scratch);
    void give_back(std::vector<SpillRun>& runs);
    void release_freed(SpillScratch& scratch);
    void release_spare(SpillScratch& scratch);
    size_t run_pages() const;
    // False when no page in memory can go, now or after what other workers are writing.
    bool spill_some(std::vector<PartitionPage>& pending, SpillScratch& scratch);
    // For the planner, which makes another plan.
    Error set_full() const;
    Error nothing_to_spill() const;

    PartitionedRows& rows_;
    SpillWriter writer_;
    // Pages that the list of a partition has room for from the start: one that doubles, now in this and now in that
    // worker, leaves each of its sizes in some arena of the C allocator.
    const size_t pages_expected_;
    // Partitions that spill and had a whole run in memory when they were put here, once for each run: all workers
    // change the counters of all partitions, so looking through 1,000 of them for every write is dear.
    std::mutex ready_mutex_;
    std::vector<int32_t> ready_;
    std::atomic<uint64_t> handed_in_{0};  // counts hand-ins
    std::atomic<int32_t> spilling_from_;  // partitions from here on go to disk
    std::atomic<int> writing_{0};         // workers that are writing victims right now
};

}  // namespace spillway
