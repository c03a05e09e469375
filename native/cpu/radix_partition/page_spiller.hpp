// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "cpu/radix_partition/partitioned_rows.hpp"

namespace spillway {

// Takes the full pages of all workers of one partition pass and decides which stay. Hybrid residency: when the pool is
// exhausted, full pages of the highest-numbered partition that still has some go to disk, so that low-numbered
// partitions stay resident on both sides of a join (Triton join, section 5; hybrid hash join).
class PageSpiller {
  public:
    explicit PageSpiller(PartitionedRows& rows);

    struct PartitionPage {
        int32_t partition;
        Page page;
    };
    // A page from the pool. When there is none left, hands in `pending` (full pages that the caller still holds) and
    // spills. Throws kBudgetTooSmall when nothing can be spilled.
    uint8_t* acquire(std::vector<PartitionPage>& pending, std::vector<uint8_t>& scratch);
    // Hands in full pages (or the last, partly filled ones) and clears the list.
    void hand_in(std::vector<PartitionPage>& pages, std::vector<uint8_t>& scratch);
    // How many pages a worker may take from the pool or hold back at a time, so that locks are rare: all workers
    // together at most the surplus of the pool over one open page per worker and partition, which alone must always
    // find a page.
    size_t batch_pages() const;

  private:
    using Victim = PartitionPage;
    void add(int32_t partition, Page&& page);
    std::vector<Victim> take_victims();
    void write_victims(std::vector<Victim>& victims, std::vector<uint8_t>& scratch);
    void encode(Page& page, std::vector<uint8_t>& scratch, SpillExtent& extent);
    Error nothing_to_spill() const;

    PartitionedRows& rows_;
    std::mutex mutex_;
    std::vector<size_t> resident_pages_;  // full pages in memory, per partition
    int32_t highest_resident_ = -1;       // upper bound of the partitions that have some
    std::atomic<int> writing_{0};         // workers that are writing victims right now
};

}  // namespace spillway
