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

// Runs [i, n) lie side by side in the spill file: n, at most `end`, and so that they take at most bytes_max.
size_t neighbours_end(const std::vector<SpilledRun>& runs, size_t i, size_t end, uint64_t bytes_max, bool only_raw) {
    const SpillExtent& first = runs[i].extent;
    uint64_t bytes = first.bytes;
    size_t next = i + 1;
    for (; next < end; ++next) {
        const SpillExtent& extent = runs[next].extent;
        const bool follows = extent.shard == first.shard && extent.offset == first.offset + static_cast<int64_t>(bytes);
        if (!follows || bytes + extent.bytes > bytes_max || (only_raw && extent.encoding != 0)) break;
        bytes += extent.bytes;
    }
    return next;
}

uint64_t extent_bytes(const std::vector<SpilledRun>& runs, size_t begin, size_t end) {
    const SpillExtent& last = runs[end - 1].extent;
    return static_cast<uint64_t>(last.offset - runs[begin].extent.offset) + last.bytes;
}

}  // namespace

void SpillReader::fetch(const std::vector<SpilledRun>& runs, size_t i, size_t end) {
    const SpillExtent& first = runs[i].extent;
    if (first.shard == shard_ && first.offset >= begin_ && first.offset + first.bytes <= end_) return;
    const uint64_t most = std::max<uint64_t>(first.bytes, std::min(kReadBytesMax, 2 * rows_.spec().spill_run_bytes));
    const uint64_t bytes = extent_bytes(runs, i, neighbours_end(runs, i, end, most, false));
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

const uint8_t* SpillReader::read(const std::vector<SpilledRun>& runs, size_t i, size_t end, uint8_t* out) {
    const SpilledRun& run = runs[i];
    const SpillExtent& extent = run.extent;
    fetch(runs, i, end);
    const uint8_t* const stored = buffer_.data() + (extent.offset - begin_);
    if (extent.encoding == 0) return stored;
    const uint32_t row_bytes = rows_.layout().row_bytes;
    if ((extent.encoding & kSpillPacked) != 0) {
        unpack_rows(stored, extent.bytes, run.rows, row_bytes, out);
    } else {
        std::memcpy(out, stored, extent.bytes);
    }
    if ((extent.encoding & kSpillUnmixed) != 0) mix_first_words(out, run.rows, row_bytes);
    return out;
}

size_t SpillReader::read_into(const std::vector<SpilledRun>& runs, size_t i, size_t end, uint8_t* out) {
    const SpillExtent& first = runs[i].extent;
    if (first.encoding != 0) {
        read(runs, i, end, out);
        return i + 1;
    }
    const size_t next = neighbours_end(runs, i, end, UINT64_MAX, true);
    rows_.spill_file().read({first.offset, first.shard}, out, extent_bytes(runs, i, next));
    return next;
}

PartitionedRows::PartitionedRows(PartitionSpec spec, RowLayout layout, MemoryBudget& budget,
                                 std::shared_ptr<SpillSpace> spill_space, JobControl& control)
    : spec_(std::move(spec)),
      layout_(std::move(layout)),
      budget_(budget),
      control_(control),
      pool_(budget, spec_.page_bytes, spec_.pool_bytes),
      spill_(std::make_unique<SpillFile>(std::move(spill_space), control, spec_.workers, spec_.spill)),
      partitions_(static_cast<size_t>(partition_count()) + 1),
      spilled_(partitions_.size()) {}

PartitionedRows::~PartitionedRows() {
    for (int32_t p = 0; p <= null_partition(); ++p) free_partition(p);
}

uint64_t PartitionedRows::total_rows() const {
    uint64_t rows = 0;
    for (const Partition& partition : partitions_) rows += partition.rows;
    return rows;
}

void PartitionedRows::add_spilled_run(int32_t p, const SpilledRun& run) {
    std::vector<SpilledRun>& runs = spilled_[p];
    // Doubling leaves a quarter of the memory unused on average, and what was freed to other sizes.
    if (runs.size() == runs.capacity()) runs.reserve(runs.size() + std::max<size_t>(runs.size() / 4, 8));
    runs.push_back(run);
}

uint32_t PartitionedRows::page_rows(int32_t p, size_t page) const {
    const std::vector<Page>& pages = partitions_[p].pages;
    return page < pages.size() ? pages[page].rows : spilled_[p][page - pages.size()].rows;
}

uint64_t PartitionedRows::page_load_bytes(int32_t p, size_t page) const {
    const size_t resident = partitions_[p].pages.size();
    return page < resident ? 0 : spilled_[p][page - resident].capacity_bytes;
}

uint64_t PartitionedRows::page_extent_bytes(int32_t p, size_t page) const {
    const size_t resident = partitions_[p].pages.size();
    return page < resident ? 0 : spilled_[p][page - resident].extent.bytes;
}

uint64_t PartitionedRows::load_bytes(int32_t p) const {
    uint64_t bytes = 0;
    uint64_t extent_max = 0;
    for (const SpilledRun& run : spilled_[p]) {
        bytes += run.capacity_bytes;
        extent_max = std::max<uint64_t>(extent_max, run.extent.bytes);
    }
    return load_bytes(bytes, extent_max);
}

uint64_t PartitionedRows::load_bytes(uint64_t bytes, uint64_t extent_max) const {
    extent_max = std::max(extent_max, std::min(kReadBytesMax, 2 * spec_.spill_run_bytes));
    return bytes == 0 ? 0 : block_capacity(bytes) + block_capacity(extent_max);
}

uint64_t PartitionedRows::cursor_bytes(int32_t p) const {
    uint64_t decoded = 0;
    uint64_t extent_max = 0;
    for (const SpilledRun& run : spilled_[p]) {
        extent_max = std::max<uint64_t>(extent_max, run.extent.bytes);
        if (run.extent.encoding != 0) decoded = std::max<uint64_t>(decoded, run.capacity_bytes);
    }
    if (extent_max == 0) return 0;
    const uint64_t read = std::max(extent_max, std::min(kReadBytesMax, 2 * spec_.spill_run_bytes));
    return block_capacity(read) + (decoded == 0 ? 0 : block_capacity(decoded));
}

std::vector<RowSpan> PartitionedRows::load(int32_t p, std::vector<Buffer>& memory) {
    return load_pages(p, 0, page_count(p), memory);
}

std::vector<RowSpan> PartitionedRows::load_pages(int32_t p, size_t begin_page, size_t end_page,
                                                 std::vector<Buffer>& memory) {
    const auto& pages = partitions_[p].pages;
    const auto& runs = spilled_[p];
    std::vector<RowSpan> spans;
    spans.reserve(end_page - begin_page);
    for (size_t i = begin_page; i < std::min(end_page, pages.size()); ++i) {
        spans.push_back({pages[i].data, pages[i].rows});
    }
    const size_t begin = std::max(begin_page, pages.size()) - pages.size();
    const size_t end = std::max(end_page, pages.size()) - pages.size();
    uint64_t bytes = 0;
    for (size_t i = begin; i < end; ++i) bytes += runs[i].capacity_bytes;
    if (bytes == 0) return spans;
    memory.push_back(Buffer::allocate(budget_, bytes, "spilled pages read back"));
    uint8_t* at = memory.back().data();
    SpillReader reader(*this);
    size_t read = begin;  // runs before it are in memory
    for (size_t i = begin; i < end; ++i) {
        if (i >= read) read = reader.read_into(runs, i, end, at);
        spans.push_back({at, runs[i].rows});
        at += runs[i].capacity_bytes;
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
    for (const SpilledRun& run : spilled_[p]) {
        const SpillExtent& extent = run.extent;
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
        if (page.own == nullptr) pool_.release(page.data);
    }
    std::vector<Page>().swap(partitions_[p].pages);
    std::vector<SpilledRun>().swap(spilled_[p]);
}

PageCursor::PageCursor(PartitionedRows& rows, int32_t partition, size_t begin_page, size_t end_page)
    : rows_(rows), partition_(partition), page_(begin_page), end_(end_page), reader_(rows) {}

bool PageCursor::next(RowSpan& span) {
    while (page_ < end_ && rows_.page_rows(partition_, page_) == 0) ++page_;
    if (page_ >= end_) return false;
    const size_t at = page_++;
    const std::vector<Page>& pages = rows_.partition(partition_).pages;
    if (at < pages.size()) {
        span = {pages[at].data, pages[at].rows};
        return true;
    }
    const std::vector<SpilledRun>& runs = rows_.spilled_runs(partition_);
    const SpilledRun& run = runs[at - pages.size()];
    if (run.extent.encoding != 0 && buffer_.capacity() < run.capacity_bytes) {
        buffer_ = Buffer();
        buffer_ = Buffer::allocate(rows_.budget(), run.capacity_bytes, "spilled pages read back");
    }
    span = {reader_.read(runs, at - pages.size(), end_ - pages.size(), buffer_.data()), run.rows};
    return true;
}

}  // namespace spillway
