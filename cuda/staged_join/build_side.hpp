// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "row_index/row_index.hpp"
#include "stream/chunk_reader.hpp"
#include "stream/row_pages.hpp"
#include "stream/row_spiller.hpp"

namespace spillway::cuda { inline namespace staged_join {

// Build rows between device memory and the spill store, as in a hybrid hash join: resident partitions are in pages, all
// others are spilled. All are resident at first, or as many as the plan says; the last one of them leaves when a chunk
// needs more pages than are free, so that nobody has to know sizes before.
class BuildSide {
  public:
    BuildSide(Device& device, Parcels& parcels, const RowLayout& rows, const CodeLayout& layout,
              const StreamSizes& sizes, uint64_t index_rows, bool marks);

    RowPages& pages() { return pages_; }
    RowIndex& index() { return index_; }
    bool is_resident(uint64_t partition) const { return resident_[partition] != 0; }
    std::vector<uint64_t> resident() const;
    const std::vector<uint64_t>& rows() const { return rows_; }  // of each partition, resident or not
    uint8_t* marks() const { return marks_.as<uint8_t>(); }      // nullptr: nobody asks

    void add(const PartitionedChunk& chunk, RowSpiller& spiller);
    // After the last chunk: partitions too large to be indexed leave, the others are indexed.
    void finish(RowSpiller& spiller);
    // Sorts the pages of these partitions and clears all marks.
    void index(const std::vector<uint64_t>& partitions);

    // Pieces of resident partitions, and the others.
    struct Split {
        std::vector<RowPiece> resident;
        std::vector<RowPiece> spilled;
    };
    Split split(const std::vector<RowPiece>& pieces) const;

    static constexpr int kSide = 0;

  private:
    uint64_t wanted_pages(const std::vector<RowPiece>& pieces) const;
    void evict(const std::vector<uint64_t>& partitions, RowSpiller& spiller);

    Device& device_;
    const uint32_t row_words_;
    const uint64_t chunk_rows_;
    RowPages pages_;
    RowIndex index_;
    std::vector<uint8_t> resident_;  // of each partition: 1 = it is
    std::vector<uint64_t> rows_;
    Allocation marks_;
};

}}  // namespace spillway::cuda::staged_join
