// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "cpu/radix_partition/partitioned_rows.hpp"

namespace spillway {

// A worker's memory for encoding spilled rows.
struct SpillScratch {
    SpillScratch() = default;
    SpillScratch(const PartitionSpec& spec, MemoryBudget& budget);

    Reservation reservation;       // of both; a row larger than a page may make them larger for a moment
    std::vector<uint8_t> rows;     // of one run
    std::vector<uint8_t> encoded;  // packed runs of one write
    std::vector<SpillPiece> pieces;
    std::vector<uint8_t*> freed;  // pages of one write
    std::vector<uint8_t*> spare;  // pages of the pool for the next rows; whoever owns the scratch gives them back
    size_t spare_max = 0;         // how many of its freed pages a worker keeps as spare ones
    std::vector<int32_t> ready;   // partitions on their way into or out of the list of whole runs
    int64_t writer = -1;          // number of the worker among those that spill, once it does
};

// Pages of one partition that are written as one.
struct SpillRun {
    int32_t partition;
    std::vector<Page> pages;
    SpilledRun spilled;
    uint64_t content_bytes = 0;  // of the pages
    bool packed = false;
    uint64_t encoded_at = 0;  // packed: where in SpillScratch::encoded
};

// Writes runs of pages to the spill file of a partition set: packed where that is wanted and makes them smaller, else
// straight from their pages. In the file a run is one page, so that one record says where it is: all rows, then the
// heaps of byte strings. Thread-safe, with a scratch per worker.
class SpillWriter {
  public:
    explicit SpillWriter(PartitionedRows& rows) : rows_(rows) {}
    // One write for all; sets SpillRun::spilled. The pages stay, but those with byte strings can be read no more.
    void write(std::vector<SpillRun>& runs, SpillScratch& scratch);

  private:
    void encode(SpillRun& run, SpillScratch& scratch);
    bool encode_packed(SpillRun& run, SpillScratch& scratch);
    void gather_heaps(SpillRun& run);
    void add_pieces(const SpillRun& run, std::vector<SpillPiece>& pieces) const;
    uint32_t heap_begin(const Page& page) const;

    PartitionedRows& rows_;
    std::atomic<int> futile_{0};  // runs in a row that packing did not shrink
    std::atomic<int64_t> writers_{0};
};

}  // namespace spillway
