// SPDX-License-Identifier: Apache-2.0
#include "cpu/radix_partition/partitioned_rows.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "memory/page_packing.hpp"

namespace spillway {

namespace {

void read_page(PartitionedRows& rows, const Page& page, uint8_t* out, Buffer& packed) {
    const SpillExtent& extent = page.spill;
    const uint32_t row_bytes = rows.layout().row_bytes;
    if ((extent.encoding & kSpillPacked) != 0) {
        if (packed.capacity() < extent.bytes) packed.grow(rows.budget(), extent.bytes, "spilled pages read back");
        rows.spill_file().read(extent.offset, packed.data(), extent.bytes);
        unpack_rows(packed.data(), extent.bytes, page.rows, row_bytes, out);
    } else {
        rows.spill_file().read(extent.offset, out, extent.bytes);
    }
    if ((extent.encoding & kSpillUnmixed) == 0) return;
    for (uint64_t i = 0; i < page.rows; ++i) {
        uint64_t word;
        std::memcpy(&word, out + i * row_bytes, 8);
        word = mix64(word);
        std::memcpy(out + i * row_bytes, &word, 8);
    }
}

}  // namespace

PartitionedRows::PartitionedRows(PartitionSpec spec, RowLayout layout, MemoryBudget& budget,
                                 const std::string& spill_directory, JobControl& control)
    : spec_(std::move(spec)),
      layout_(std::move(layout)),
      budget_(budget),
      control_(control),
      pool_(budget, spec_.page_bytes, spec_.pool_bytes),
      spill_(spill_directory, control),
      partitions_(static_cast<size_t>(partition_count()) + 1) {}

PartitionedRows::~PartitionedRows() {
    for (int32_t p = 0; p <= null_partition(); ++p) free_partition(p);
}

uint64_t PartitionedRows::total_rows() const {
    uint64_t rows = 0;
    for (const Partition& partition : partitions_) rows += partition.rows;
    return rows;
}

uint64_t PartitionedRows::load_bytes(int32_t p) const {
    uint64_t bytes = 0;
    uint64_t packed_max = 0;
    for (const Page& page : partitions_[p].pages) {
        if (page.data != nullptr) continue;
        bytes += page.capacity_bytes;
        packed_max = std::max<uint64_t>(packed_max, page.spill.bytes);
    }
    return bytes + packed_max;
}

std::vector<RowSpan> PartitionedRows::load(int32_t p, std::vector<Buffer>& memory) {
    return load_pages(p, 0, partitions_[p].pages.size(), memory);
}

std::vector<RowSpan> PartitionedRows::load_pages(int32_t p, size_t begin_page, size_t end_page,
                                                 std::vector<Buffer>& memory) {
    const auto& pages = partitions_[p].pages;
    uint64_t bytes = 0;
    for (size_t i = begin_page; i < end_page; ++i) {
        if (pages[i].data == nullptr) bytes += pages[i].capacity_bytes;
    }
    uint8_t* at = nullptr;
    if (bytes > 0) {
        memory.push_back(Buffer::allocate(budget_, bytes, "spilled pages read back"));
        at = memory.back().data();
    }
    Buffer packed;
    std::vector<RowSpan> spans;
    spans.reserve(end_page - begin_page);
    for (size_t i = begin_page; i < end_page; ++i) {
        const Page& page = pages[i];
        if (page.data != nullptr) {
            spans.push_back({page.data, page.rows});
            continue;
        }
        read_page(*this, page, at, packed);
        spans.push_back({at, page.rows});
        at += page.capacity_bytes;
    }
    return spans;
}

void PartitionedRows::prefetch(int32_t p) {
    // Extents of one flush lie side by side: one request for each run of neighbours.
    int64_t begin = -1;
    int64_t end = -1;
    for (const Page& page : partitions_[p].pages) {
        if (!page.spill.present()) continue;
        if (page.spill.offset != end) {
            if (begin >= 0) spill_.prefetch(begin, static_cast<uint64_t>(end - begin));
            begin = page.spill.offset;
        }
        end = page.spill.offset + page.spill.bytes;
    }
    if (begin >= 0) spill_.prefetch(begin, static_cast<uint64_t>(end - begin));
}

void PartitionedRows::free_partition(int32_t p) {
    for (Page& page : partitions_[p].pages) {
        if (page.data != nullptr && page.own.empty()) pool_.release(page.data);
    }
    partitions_[p].pages.clear();
    partitions_[p].pages.shrink_to_fit();
}

PageCursor::PageCursor(PartitionedRows& rows, int32_t partition, size_t begin_page, size_t end_page)
    : rows_(rows), partition_(rows.partition(partition)), page_(begin_page), end_(end_page) {}

bool PageCursor::next(RowSpan& span) {
    while (page_ < end_ && partition_.pages[page_].rows == 0) ++page_;
    if (page_ >= end_) return false;
    const Page& page = partition_.pages[page_++];
    if (page.data != nullptr) {
        span = {page.data, page.rows};
        return true;
    }
    if (buffer_.capacity() < page.capacity_bytes) {
        buffer_ = Buffer();
        buffer_ = Buffer::allocate(rows_.budget(), page.capacity_bytes, "spilled pages read back");
    }
    read_page(rows_, page, buffer_.data(), packed_);
    span = {buffer_.data(), page.rows};
    return true;
}

}  // namespace spillway
