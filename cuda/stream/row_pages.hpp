// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "memory_model/stream_memory.hpp"
#include "stream/parcels.hpp"
#include "stream/row_pieces.hpp"

namespace spillway::cuda { inline namespace stream {

struct RowCopy {
    uint64_t from = 0;  // rows
    uint64_t to = 0;
    uint64_t rows = 0;
};
static_assert(sizeof(RowCopy) == kRowCopyBytes);

// Copies ranges of packed rows within device memory; the ranges do not overlap. Reads and writes each row once.
void copy_rows(Device& device, Parcels& parcels, const uint32_t* from, uint32_t* to, uint32_t row_words,
               const std::vector<RowCopy>& copies);

// Build rows in device memory: a partition is a list of pages of a pool that never grows, so that no histogram is
// needed before the rows come, and pages of a partition that leaves serve any other. Row `i` of a partition lies in
// page i / page_rows of its list. Pages are handed out by the host in the order of the device's stream: one given back
// may be written by what is enqueued next.
class RowPages {
  public:
    // page_rows: a power of two. Takes pages * page_rows rows of device memory.
    RowPages(Device& device, Parcels& parcels, uint32_t row_words, uint64_t page_rows, uint64_t pages,
             uint64_t partitions);

    uint32_t* data() const { return memory_.as<uint32_t>(); }
    uint64_t page_rows() const { return page_rows_; }
    uint64_t capacity_rows() const { return pages_ * page_rows_; }
    uint64_t free_pages() const { return free_.size(); }
    uint64_t rows(uint64_t partition) const { return lists_[partition].rows; }
    const std::vector<uint32_t>& pages(uint64_t partition) const { return lists_[partition].pages; }

    // The pages of a partition as pieces of data().
    std::vector<RowPiece> pieces(uint64_t partition) const;
    // Pages that so many more rows take.
    uint64_t pages_for(uint64_t partition, uint64_t more_rows) const;
    // Appends pieces of the batch to their partitions' lists; there must be pages enough.
    void append(const RowPieces& batch, const std::vector<RowPiece>& pieces);
    // The same for who copies the rows itself: where they go. They count as there.
    std::vector<RowCopy> allot(const std::vector<RowPiece>& pieces);
    // Copies rows [first, first + rows) of a partition to `to`, one behind the other.
    void gather(uint64_t partition, uint64_t first, uint64_t rows, uint32_t* to);
    // The pages of a partition are free again.
    void release(uint64_t partition);
    // Its first pages are: the rows behind them become its first ones.
    void release_front(uint64_t partition, uint64_t pages);

  private:
    struct List {
        uint64_t rows = 0;
        std::vector<uint32_t> pages;
    };

    Device& device_;
    Parcels& parcels_;
    const uint32_t row_words_;
    const uint64_t page_rows_;
    const uint64_t pages_;
    Allocation memory_;
    std::vector<uint32_t> free_;  // the last is the next
    std::vector<List> lists_;
};

}}  // namespace spillway::cuda::stream
