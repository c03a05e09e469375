// SPDX-License-Identifier: Apache-2.0
#include "cpu/radix_partition/partitioned_rows.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "base/mix_kernels.hpp"
#include "memory/page_packing.hpp"

namespace spillway {

namespace {

// One read call carries at most this much beyond a single extent, a few runs when those are large.
constexpr uint64_t kReadBytesMax = 32 * 1024;

}  // namespace

namespace {

// Pages [i, n) lie side by side in the spill file: n, at most `end`, and so that they take at most bytes_max.
size_t neighbours_end(const std::vector<Page>& pages, size_t i, size_t end, uint64_t bytes_max, bool only_raw) {
    const SpillExtent& first = pages[i].spill;
    uint64_t bytes = first.bytes;
    size_t next = i + 1;
    for (; next < end; ++next) {
        const SpillExtent& extent = pages[next].spill;
        const bool follows = extent.present() && extent.shard == first.shard &&
                             extent.offset == first.offset + static_cast<int64_t>(bytes);
        if (!follows || bytes + extent.bytes > bytes_max || (only_raw && extent.encoding != 0)) break;
        bytes += extent.bytes;
    }
    return next;
}

uint64_t extent_bytes(const std::vector<Page>& pages, size_t begin, size_t end) {
    const SpillExtent& last = pages[end - 1].spill;
    return static_cast<uint64_t>(last.offset - pages[begin].spill.offset) + last.bytes;
}

}  // namespace

void SpillReader::fetch(const std::vector<Page>& pages, size_t i, size_t end) {
    const SpillExtent& first = pages[i].spill;
    if (first.shard == shard_ && first.offset >= begin_ && first.offset + first.bytes <= end_) return;
    const uint64_t most = std::max<uint64_t>(first.bytes, std::min(kReadBytesMax, 2 * rows_.spec().spill_run_bytes));
    const uint64_t bytes = extent_bytes(pages, i, neighbours_end(pages, i, end, most, false));
    if (buffer_.capacity() < bytes) {
        buffer_ = Buffer();
        buffer_ = Buffer::allocate(rows_.budget(), bytes, "spilled pages read back");
    }
    begin_ = end_ = 0;  // nothing, should the read fail
    rows_.spill_file().read({first.offset, first.shard}, buffer_.data(), bytes);
    shard_ = first.shard;
    begin_ = first.offset;
    end_ = first.offset + static_cast<int64_t>(bytes);
}

const uint8_t* SpillReader::read(const std::vector<Page>& pages, size_t i, size_t end, uint8_t* out) {
    const Page& page = pages[i];
    const SpillExtent& extent = page.spill;
    fetch(pages, i, end);
    const uint8_t* const stored = buffer_.data() + (extent.offset - begin_);
    if (extent.encoding == 0) return stored;
    const uint32_t row_bytes = rows_.layout().row_bytes;
    if ((extent.encoding & kSpillPacked) != 0) {
        unpack_rows(stored, extent.bytes, page.rows, row_bytes, out);
    } else {
        std::memcpy(out, stored, extent.bytes);
    }
    if ((extent.encoding & kSpillUnmixed) != 0) mix_first_words(out, page.rows, row_bytes);
    return out;
}

size_t SpillReader::read_into(const std::vector<Page>& pages, size_t i, size_t end, uint8_t* out) {
    const SpillExtent& first = pages[i].spill;
    if (first.encoding != 0) {
        read(pages, i, end, out);
        return i + 1;
    }
    const size_t next = neighbours_end(pages, i, end, UINT64_MAX, true);
    rows_.spill_file().read({first.offset, first.shard}, out, extent_bytes(pages, i, next));
    return next;
}

PartitionedRows::PartitionedRows(PartitionSpec spec, RowLayout layout, MemoryBudget& budget,
                                 std::shared_ptr<SpillSpace> spill_space, JobControl& control)
    : spec_(std::move(spec)),
      layout_(std::move(layout)),
      budget_(budget),
      control_(control),
      pool_(budget, spec_.page_bytes, spec_.pool_bytes),
      spill_(std::make_unique<SpillFile>(std::move(spill_space), control, spec_.workers)),
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
    if (partitions_[p].spilled_bytes == 0) return 0;  // mostly; there may be 100,000 pages in all
    uint64_t bytes = 0;
    uint64_t extent_max = std::min(kReadBytesMax, 2 * spec_.spill_run_bytes);
    for (const Page& page : partitions_[p].pages) {
        if (page.data != nullptr) continue;
        bytes += page.capacity_bytes;
        extent_max = std::max<uint64_t>(extent_max, page.spill.bytes);
    }
    return bytes == 0 ? 0 : bytes + extent_max;
}

uint64_t PartitionedRows::cursor_bytes(int32_t p) const {
    if (partitions_[p].spilled_bytes == 0) return 0;
    uint64_t decoded = 0;
    uint64_t extent_max = 0;
    for (const Page& page : partitions_[p].pages) {
        if (page.data != nullptr) continue;
        extent_max = std::max<uint64_t>(extent_max, page.spill.bytes);
        if (page.spill.encoding != 0) decoded = std::max<uint64_t>(decoded, page.capacity_bytes);
    }
    return extent_max == 0 ? 0 : std::max(extent_max, std::min(kReadBytesMax, 2 * spec_.spill_run_bytes)) + decoded;
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
    SpillReader reader(*this);
    std::vector<RowSpan> spans;
    spans.reserve(end_page - begin_page);
    size_t read = begin_page;  // pages before it are in memory
    for (size_t i = begin_page; i < end_page; ++i) {
        const Page& page = pages[i];
        if (page.data != nullptr) {
            spans.push_back({page.data, page.rows});
            continue;
        }
        if (i >= read) read = reader.read_into(pages, i, end_page, at);
        spans.push_back({at, page.rows});
        at += page.capacity_bytes;
    }
    return spans;
}

void PartitionedRows::prefetch(int32_t p) {
    // Extents of one flush lie side by side: one request for each run of neighbours.
    SpillFile::Position begin{-1, 0};
    int64_t end = -1;
    const auto request = [&] {
        if (begin.offset >= 0) spill_->prefetch(begin, static_cast<uint64_t>(end - begin.offset));
    };
    for (const Page& page : partitions_[p].pages) {
        const SpillExtent& extent = page.spill;
        if (!extent.present()) continue;
        if (extent.offset != end || extent.shard != begin.shard) {
            request();
            begin = {extent.offset, extent.shard};
        }
        end = extent.offset + extent.bytes;
    }
    request();
}

void PartitionedRows::free_partition(int32_t p) {
    for (Page& page : partitions_[p].pages) {
        if (page.data != nullptr && page.own == nullptr) pool_.release(page.data);
    }
    partitions_[p].pages.clear();
    partitions_[p].pages.shrink_to_fit();
}

PageCursor::PageCursor(PartitionedRows& rows, int32_t partition, size_t begin_page, size_t end_page)
    : rows_(rows), partition_(rows.partition(partition)), page_(begin_page), end_(end_page), reader_(rows) {}

bool PageCursor::next(RowSpan& span) {
    while (page_ < end_ && partition_.pages[page_].rows == 0) ++page_;
    if (page_ >= end_) return false;
    const size_t at = page_++;
    const Page& page = partition_.pages[at];
    if (page.data != nullptr) {
        span = {page.data, page.rows};
        return true;
    }
    if (page.spill.encoding != 0 && buffer_.capacity() < page.capacity_bytes) {
        buffer_ = Buffer();
        buffer_ = Buffer::allocate(rows_.budget(), page.capacity_bytes, "spilled pages read back");
    }
    span = {reader_.read(partition_.pages, at, end_, buffer_.data()), page.rows};
    return true;
}

}  // namespace spillway
