// SPDX-License-Identifier: Apache-2.0
#include "cpu/radix_partition/radix_partitioner.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "base/error.hpp"
#include "base/parallel.hpp"
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
          scratch_(rows.spec(), rows.budget()),
          batch_pages_(spiller.batch_pages()),
          combining_(!rows.layout().has_var && row_bytes_ <= kCombinedRowBytesMax),
          slots_(static_cast<size_t>(rows.null_partition()) + 1) {
        scratch_.spare_max = batch_pages_;
        scratch_.spare.reserve(batch_pages_);  // pages on their way into it must not be lost for want of memory
        if (combining_) {
            buffers_ =
                Buffer::allocate(rows.budget(), slots_.size() * kBufferRows * row_bytes_, "write-combining buffers");
            lines_ = buffers_.data();
            buffered_ = std::make_unique<uint8_t[]>(slots_.size());
        }
        const uint64_t unit = combining_ ? kBufferRows : 1;
        rows_per_page_ = static_cast<uint32_t>(page_bytes_ / (unit * row_bytes_) * unit);
        SPILLWAY_CHECK(rows_per_page_ > 0 || !combining_);
    }

    ~Worker() {
        for (Slot& slot : slots_) {
            if (slot.page != nullptr) rows_.pool().release(slot.page);
        }
        if (!scratch_.spare.empty()) rows_.pool().release(scratch_.spare);
        for (PageSpiller::PartitionPage& each : pending_) {
            if (each.page.own == nullptr) rows_.pool().release(each.page.data);
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

    // Rows in write-combining buffers go to the open pages, full pages to the partitions.
    void flush_all() {
        for (size_t p = 0; p < slots_.size(); ++p) {
            if (!combining_ || buffered_[p] == 0) continue;
            Slot& slot = slots_[p];
            if (slot.page == nullptr) open_page(slot);
            std::memcpy(slot.page + static_cast<uint64_t>(slot.rows) * row_bytes_,
                        lines_ + p * kBufferRows * row_bytes_, static_cast<size_t>(buffered_[p]) * row_bytes_);
            slot.rows += buffered_[p];
            buffered_[p] = 0;
        }
        spiller_.hand_in(pending_, scratch_);
        buffers_ = Buffer();
        stream_fence();
    }

    // The open page of a partition joins the others.
    void place_open_page(int32_t p) {
        if (slots_[p].page != nullptr) spiller_.place(p, take_page(slots_[p]));
    }

  private:
    struct Slot {
        uint8_t* page = nullptr;
        uint32_t rows = 0;        // in the page
        uint32_t heap_begin = 0;  // byte strings of the page start here (they grow downwards)
        uint32_t heap_bytes = 0;
    };

    int32_t partition_of(const EncodedRows& encoded, int64_t i, uint64_t hash) const {
        if (encoded.null_key != nullptr && encoded.null_key[i] != 0) return rows_.null_partition();
        return radix_of(hash, rows_.spec().hash_mask, rows_.spec().radix_bits);
    }

    template <uint32_t W>
    void append_combining(const EncodedRows& encoded) {
        const uint64_t mask = rows_.spec().hash_mask;
        const int32_t bits = rows_.spec().radix_bits;
        const uint8_t* row = encoded.data;
        // Copies: a store through a byte pointer might change any member, so those would be loaded again for every row.
        const Combining to{lines_, buffered_.get()};
        if (encoded.null_key == nullptr) {
            for (int64_t i = 0; i < encoded.rows; ++i, row += W) {
                combine<W>(to, radix_of(first_word(row), mask, bits), row);
            }
            return;
        }
        const int32_t null_partition = rows_.null_partition();
        for (int64_t i = 0; i < encoded.rows; ++i, row += W) {
            const bool null = encoded.null_key[i] != 0;
            combine<W>(to, null ? null_partition : radix_of(first_word(row), mask, bits), row);
        }
    }

    struct Combining {
        uint8_t* lines;
        uint8_t* buffered;
    };

    // Per row: one byte counter, one store to the line of the partition. The counters stay in the L1 cache whatever the
    // fan-out; a counter in Slot was a cache miss for every third row.
    template <uint32_t W>
    void combine(const Combining& to, int32_t p, const uint8_t* row) {
        uint8_t* const line = to.lines + static_cast<uint64_t>(static_cast<uint32_t>(p)) * (kBufferRows * W);
        const uint32_t at = to.buffered[p];
        std::memcpy(line + at * W, row, W);
        to.buffered[p] = static_cast<uint8_t>(at + 1);
        if (at + 1 == kBufferRows) flush<W>(p, line);
    }

    template <uint32_t W>
    void flush(int32_t p, const uint8_t* line) {
        Slot& slot = slots_[p];
        if (slot.page == nullptr) open_page(slot);
        stream_line_copy(slot.page + static_cast<uint64_t>(slot.rows) * W, line, kBufferRows * W);
        buffered_[p] = 0;
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

    // A row larger than a page gets a page of its own size. Where the pool has no room for it, it goes to disk itself:
    // others may be in use, and such a row needs memory of its size again wherever it is read.
    void append_oversized(int32_t p, const EncodedRows& encoded, int64_t i, uint64_t bytes) {
        Page page;
        page.own = spiller_.own_memory(bytes);
        const bool stays = page.own != nullptr;
        if (!stays) page.own = spiller_.passing_memory(bytes, pending_, scratch_);
        page.data = page.own->buffer.data();
        page.rows = 1;
        page.content_bytes = page.capacity_bytes = static_cast<uint32_t>(bytes);
        place_row(encoded, i, page.data, page.data + row_bytes_);
        if (!stays) return spiller_.spill_page({p, std::move(page)}, scratch_);
        pending_.push_back({p, std::move(page)});
        spiller_.hand_in(pending_, scratch_);  // at once: it may be large
    }

    void open_page(Slot& slot) {
        slot.page = spiller_.acquire(pending_, scratch_);
        slot.rows = 0;
        slot.heap_begin = static_cast<uint32_t>(page_bytes_);
        slot.heap_bytes = 0;
    }

    Page take_page(Slot& slot) {
        Page page;
        page.data = slot.page;
        page.rows = slot.rows;
        page.capacity_bytes = static_cast<uint32_t>(page_bytes_);
        page.content_bytes = slot.rows * row_bytes_ + slot.heap_bytes;
        slot.page = nullptr;
        return page;
    }

    void close_page(int32_t p) { hold(p, take_page(slots_[p])); }

    void hold(int32_t p, Page&& page) {
        pending_.push_back({p, std::move(page)});
        if (pending_.size() >= batch_pages_) spiller_.hand_in(pending_, scratch_);
    }

    PartitionedRows& rows_;
    PageSpiller& spiller_;
    const uint32_t row_bytes_;
    const uint64_t page_bytes_;
    SpillScratch scratch_;
    const size_t batch_pages_;
    const bool combining_;
    uint32_t rows_per_page_ = 0;
    Buffer buffers_;                       // write-combining: kBufferRows rows per partition
    uint8_t* lines_ = nullptr;             // their bytes
    std::unique_ptr<uint8_t[]> buffered_;  // rows in each of them
    std::vector<Slot> slots_;
    std::vector<PageSpiller::PartitionPage> pending_;  // full pages not handed in yet
};

RadixPartitioner::RadixPartitioner(PartitionedRows& rows)
    : rows_(rows),
      shared_(std::make_unique<Shared>(rows)),
      workers_(static_cast<size_t>(std::max(rows.spec().workers, 1))) {}
RadixPartitioner::~RadixPartitioner() = default;

RadixPartitioner::Worker& RadixPartitioner::worker(int index) {
    SPILLWAY_CHECK(static_cast<size_t>(index) < workers_.size());
    if (!workers_[index]) workers_[index] = std::make_unique<Worker>(rows_, shared_->spiller);
    return *workers_[index];
}

void RadixPartitioner::append(int worker_index, const EncodedRows& encoded) {
    worker(worker_index).append(encoded);
}

// Two steps, the second when all workers are through with the first: flush, then collect the open pages of a slice of
// the partitions from all workers. (Each worker handing in its own pages, one for every partition, cost 2 to 4 ms with
// 16 workers: the lists of pages went from core to core.)
void RadixPartitioner::finish() {
    const int count = static_cast<int>(workers_.size());
    const int32_t partitions = rows_.null_partition() + 1;
    std::atomic<int> flushed{0};
    const auto cancelled = [this] { return rows_.control().cancelled.load(std::memory_order_relaxed); };
    const auto body = [&](int index) {
        if (workers_[index]) workers_[index]->flush_all();
        flushed.fetch_add(1, std::memory_order_acq_rel);
        while (flushed.load(std::memory_order_acquire) < count) {
            if (cancelled()) return;  // a worker failed: its error ends the job
            std::this_thread::yield();
        }
        const auto begin = static_cast<int32_t>(static_cast<int64_t>(partitions) * index / count);
        const auto end = static_cast<int32_t>(static_cast<int64_t>(partitions) * (index + 1) / count);
        for (int32_t p = begin; p < end; ++p) {
            for (auto& worker : workers_) {
                if (worker) worker->place_open_page(p);
            }
        }
    };
    parallel_run(count, body, [this] { rows_.control().cancelled.store(true, std::memory_order_relaxed); });
    rows_.control().check();
    for (auto& worker : workers_) worker.reset();
    SpillScratch scratch;
    shared_->spiller.spill_if_forced(scratch);
    rows_.pool().seal();
}

}  // namespace spillway
