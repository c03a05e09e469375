// SPDX-License-Identifier: Apache-2.0
#include "cpu/radix_partition/radix_partitioner.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "cpu/radix_partition/page_spiller.hpp"
#include "cpu/radix_partition/write_combining.hpp"

namespace spillway {

namespace {

// Rows per write-combining buffer. Rows are multiples of 8 bytes, so 8 of them always fill whole 64-byte lines.
constexpr uint32_t kBufferRows = 8;
// Wider rows gain nothing from combining (a row is a line) and their buffers would not fit the L2 cache.
constexpr uint32_t kCombinedRowBytesMax = 64;

}  // namespace

struct RadixPartitioner::Shared {
    explicit Shared(PartitionedRows& rows) : spiller(rows) {}
    PageSpiller spiller;
};

class RadixPartitioner::Worker {
  public:
    Worker(PartitionedRows& rows, PageSpiller& spiller)
        : rows_(rows),
          spiller_(spiller),
          row_bytes_(rows.layout().row_bytes),
          page_bytes_(rows.spec().page_bytes),
          combining_(!rows.layout().has_var && row_bytes_ <= kCombinedRowBytesMax),
          slots_(static_cast<size_t>(rows.null_partition()) + 1) {
        if (combining_) {
            buffers_ =
                Buffer::allocate(rows.budget(), slots_.size() * kBufferRows * row_bytes_, "write-combining buffers");
        }
        const uint64_t unit = combining_ ? kBufferRows : 1;
        rows_per_page_ = static_cast<uint32_t>(page_bytes_ / (unit * row_bytes_) * unit);
        SPILLWAY_CHECK(rows_per_page_ > 0 || !combining_);
    }

    ~Worker() {
        for (Slot& slot : slots_) {
            if (slot.page != nullptr) rows_.pool().release(slot.page);
        }
    }

    void append(const EncodedRows& encoded) {
        if (!combining_) return append_plain(encoded);
        switch (row_bytes_ / 8) {
            case 1:
                return append_combining<8>(encoded);
            case 2:
                return append_combining<16>(encoded);
            case 3:
                return append_combining<24>(encoded);
            case 4:
                return append_combining<32>(encoded);
            case 5:
                return append_combining<40>(encoded);
            case 6:
                return append_combining<48>(encoded);
            case 7:
                return append_combining<56>(encoded);
            default:
                return append_combining<64>(encoded);
        }
    }

    void finish() {
        for (size_t p = 0; p < slots_.size(); ++p) {
            Slot& slot = slots_[p];
            if (slot.buffered > 0) {
                if (slot.page == nullptr) open_page(slot);
                std::memcpy(slot.page + static_cast<uint64_t>(slot.rows) * row_bytes_, buffer(p),
                            static_cast<size_t>(slot.buffered) * row_bytes_);
                slot.rows += slot.buffered;
                slot.buffered = 0;
            }
            if (slot.page != nullptr) close_page(static_cast<int32_t>(p));
        }
        stream_fence();
        buffers_ = Buffer();
    }

  private:
    struct Slot {
        uint8_t* page = nullptr;
        uint32_t rows = 0;        // in the page
        uint32_t buffered = 0;    // in the write-combining buffer
        uint32_t heap_begin = 0;  // byte strings of the page start here (they grow downwards)
        uint32_t heap_bytes = 0;
    };

    uint8_t* buffer(size_t p) { return buffers_.data() + p * kBufferRows * row_bytes_; }

    int32_t partition_of(const EncodedRows& encoded, int64_t i, uint64_t hash) const {
        if (encoded.null_key != nullptr && encoded.null_key[i] != 0) return rows_.null_partition();
        return radix_of(hash, rows_.spec().hash_mask, rows_.spec().radix_bits);
    }

    template <uint32_t W>
    void append_combining(const EncodedRows& encoded) {
        const PartitionSpec& spec = rows_.spec();
        const uint64_t mask = spec.hash_mask;
        const int32_t bits = spec.radix_bits;
        const uint8_t* nulls = encoded.null_key;
        const int32_t null_partition = rows_.null_partition();
        uint8_t* const buffers = buffers_.data();
        Slot* const slots = slots_.data();
        const uint8_t* row = encoded.data;
        for (int64_t i = 0; i < encoded.rows; ++i, row += W) {
            uint64_t hash;
            std::memcpy(&hash, row, 8);
            int32_t p = radix_of(hash, mask, bits);
            if (nulls != nullptr && nulls[i] != 0) p = null_partition;
            Slot& slot = slots[p];
            uint8_t* const line = buffers + static_cast<uint64_t>(p) * (kBufferRows * W);
            std::memcpy(line + slot.buffered * W, row, W);
            if (++slot.buffered == kBufferRows) flush<W>(p, slot, line);
        }
    }

    template <uint32_t W>
    void flush(int32_t p, Slot& slot, const uint8_t* line) {
        if (slot.page == nullptr) open_page(slot);
        stream_line_copy(slot.page + static_cast<uint64_t>(slot.rows) * W, line, kBufferRows * W);
        slot.buffered = 0;
        slot.rows += kBufferRows;
        if (slot.rows == rows_per_page_) close_page(p);
    }

    void append_plain(const EncodedRows& encoded) {
        for (int64_t i = 0; i < encoded.rows; ++i) {
            const int32_t p = partition_of(encoded, i, encoded.hash(i));
            const uint32_t heap = encoded.heap_bytes == nullptr ? 0 : encoded.heap_bytes[i];
            const uint64_t needed = static_cast<uint64_t>(row_bytes_) + heap;
            if (needed > page_bytes_) {
                append_oversized(p, encoded, i, needed);
                continue;
            }
            Slot& slot = slots_[p];
            if (slot.page != nullptr && static_cast<uint64_t>(slot.rows) * row_bytes_ + needed > slot.heap_begin) {
                close_page(p);
            }
            if (slot.page == nullptr) open_page(slot);
            slot.heap_begin -= heap;
            slot.heap_bytes += heap;
            place_row(encoded, i, slot.page + static_cast<uint64_t>(slot.rows) * row_bytes_,
                      slot.page + slot.heap_begin);
            ++slot.rows;
        }
    }

    // A row larger than a page gets a page of its own size, straight from the budget.
    void append_oversized(int32_t p, const EncodedRows& encoded, int64_t i, uint64_t bytes) {
        Page page;
        page.own = Buffer::allocate(rows_.budget(), bytes, "a row larger than a page");
        page.data = page.own.data();
        page.rows = 1;
        page.content_bytes = page.capacity_bytes = static_cast<uint32_t>(bytes);
        place_row(encoded, i, page.data, page.data + row_bytes_);
        spiller_.hand_in(p, std::move(page), scratch_);
    }

    void open_page(Slot& slot) {
        slot.page = spiller_.acquire(scratch_);
        slot.rows = 0;
        slot.heap_begin = static_cast<uint32_t>(page_bytes_);
        slot.heap_bytes = 0;
    }

    void close_page(int32_t p) {
        Slot& slot = slots_[p];
        stream_fence();
        Page page;
        page.data = slot.page;
        page.rows = slot.rows;
        page.capacity_bytes = static_cast<uint32_t>(page_bytes_);
        page.content_bytes = slot.rows * row_bytes_ + slot.heap_bytes;
        slot.page = nullptr;
        spiller_.hand_in(p, std::move(page), scratch_);
    }

    PartitionedRows& rows_;
    PageSpiller& spiller_;
    const uint32_t row_bytes_;
    const uint64_t page_bytes_;
    const bool combining_;
    uint32_t rows_per_page_ = 0;
    Buffer buffers_;
    std::vector<Slot> slots_;
    std::vector<uint8_t> scratch_;
};

RadixPartitioner::RadixPartitioner(PartitionedRows& rows) : rows_(rows), shared_(std::make_unique<Shared>(rows)) {}
RadixPartitioner::~RadixPartitioner() = default;

RadixPartitioner::Worker& RadixPartitioner::worker(int index) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (static_cast<size_t>(index) >= workers_.size()) workers_.resize(static_cast<size_t>(index) + 1);
    if (!workers_[index]) workers_[index] = std::make_unique<Worker>(rows_, shared_->spiller);
    return *workers_[index];
}

void RadixPartitioner::append(int worker_index, const EncodedRows& encoded) {
    worker(worker_index).append(encoded);
}

void RadixPartitioner::finish() {
    for (auto& worker : workers_) {
        if (worker) worker->finish();
        worker.reset();
    }
}

}  // namespace spillway
