// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "coherent_join/page_area.hpp"
#include "far_partition/far_partition.hpp"
#include "stream/row_pieces.hpp"

namespace spillway::cuda { inline namespace coherent_join {

// The partitions of one side after the first pass: of each chunk a list of pages per partition. Rows have the layout of
// packed rows, the mixed key first and the payload behind it, so that whoever looks packed rows up reads them where
// they are.
class FarSide {
  public:
    FarSide(Device& device, PageArea& area, uint32_t row_bytes, uint64_t page_rows, int radix_bits);

    // Partitions a chunk; has read it when it returns.
    void partition(const FarRelation& chunk, const FarPartitionOptions& options);

    uint64_t rows() const { return all_rows_; }  // with those that have no key
    const std::vector<uint64_t>& partition_rows() const { return rows_; }
    uint64_t rows(uint64_t partition) const { return rows_[partition]; }
    uint64_t partitions() const { return rows_.size(); }
    uint64_t far_rows() const { return far_rows_; }  // on pages that are not the device's

    // Appends rows [first, first + rows) of a partition as pieces of the area, counted from its base, a page each at
    // most. Returns how many of them are far.
    uint64_t find(uint64_t partition, uint64_t first, uint64_t rows, std::vector<RowPiece>& pieces) const;

  private:
    struct Chunk {
        std::vector<uint64_t> counts;  // by partition
        std::vector<uint64_t> begin;   // of each list among the pages
        std::vector<char*> pages;
    };

    Device& device_;
    PageArea& area_;
    const uint32_t row_bytes_;
    const uint64_t page_rows_;
    std::vector<Chunk> chunks_;
    std::vector<uint64_t> rows_;
    uint64_t all_rows_ = 0;
    uint64_t far_rows_ = 0;
};

}}  // namespace spillway::cuda::coherent_join
