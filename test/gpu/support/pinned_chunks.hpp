// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "stream/stream_operator.hpp"
#include "support/host_table.hpp"
#include "support/packed_reference.hpp"

// Inputs and results of joins beyond GPU memory as chunks and blocks of pinned host memory.
namespace spillway::gpu_test {

// In memory of its own, as DeviceArray: what the product's pools hand out is for its own tests.
class PinnedBytes {
  public:
    explicit PinnedBytes(uint64_t bytes) {
        if (bytes > 0) CHECK_CUDA(cudaHostAlloc(&data_, bytes, cudaHostAllocPortable));
    }
    PinnedBytes(PinnedBytes&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
    PinnedBytes(const PinnedBytes&) = delete;
    PinnedBytes& operator=(const PinnedBytes&) = delete;
    ~PinnedBytes() { cudaFreeHost(data_); }

    uint8_t* data() const { return static_cast<uint8_t*>(data_); }

  private:
    void* data_ = nullptr;
};

// What nothing may read any more, or has written yet.
constexpr int kSpoiled = 0xdd;

// A table, its key column first, cut into chunks. What was released is spoiled at once, so that a join which releases a
// chunk before it has read it gives a wrong result.
class PinnedChunks final : public cuda::ChunkSource {
  public:
    // cuts: rows of the chunks, over and over; 0 is a chunk without rows.
    PinnedChunks(const HostTable& table, const std::vector<uint64_t>& cuts, bool packed = false)
        : packed_(packed), memory_(bytes_of(table, cuts, packed)) {
        uint64_t first = 0;
        for (size_t cut = 0; first < table.rows() || (cut < cuts.size() && cuts[cut] == 0); ++cut) {
            const uint64_t rows = std::min(cuts[cut % cuts.size()], table.rows() - first);
            add(table, first, rows);
            first += rows;
        }
        image_.assign(memory_.data(), memory_.data() + used_bytes_);
    }

    bool next(cuda::Chunk& chunk) override {
        if (on_next) on_next(next_);
        if (next_ == chunks_.size()) return false;
        chunk = chunks_[next_].chunk;
        ++next_;
        held_most_ = std::max(held_most_, next_ - released_);
        return true;
    }
    void release() override {
        if (released_ == next_) fail("a chunk is released that was not handed out", __FILE__, __LINE__);
        const Placed& placed = chunks_[released_++];
        if (placed.end > placed.begin) std::memset(memory_.data() + placed.begin, kSpoiled, placed.end - placed.begin);
    }

    // As if nobody had asked for anything.
    void rewind() {
        if (used_bytes_ > 0) std::memcpy(memory_.data(), image_.data(), used_bytes_);
        next_ = released_ = 0;
    }
    uint64_t chunks() const { return chunks_.size(); }
    bool all_released() const { return released_ == chunks_.size(); }
    uint64_t held_most() const { return held_most_; }

    // Called with the number of the chunk that is asked for, by the thread that runs the join.
    std::function<void(uint64_t)> on_next;

  private:
    struct Placed {
        cuda::Chunk chunk;
        uint64_t begin;  // of its bytes
        uint64_t end;
    };

    static uint64_t bytes_of(const HostTable& table, const std::vector<uint64_t>& cuts, bool packed) {
        if (std::all_of(cuts.begin(), cuts.end(), [](uint64_t rows) { return rows == 0; })) {
            fail("chunks without rows hold no table", __FILE__, __LINE__);
        }
        uint64_t row_bytes = 1;  // of validity: chunks of one row take a word of it each
        uint64_t least = table.rows() + 1;
        for (const HostColumn& column : table.columns) row_bytes += column.width;
        for (const uint64_t rows : cuts) least = rows == 0 ? least : std::min(least, rows);
        const uint64_t chunks = (table.rows() / least + 2) * cuts.size();
        const uint64_t block_bytes = kPackedAlign + cuda::kPackedValues * row_bytes;  // of blocks that are not full
        const uint64_t packed_bytes = packed ? chunks * (table.columns.size() + 1) * block_bytes : 0;
        return table.rows() * (row_bytes + 1) + packed_bytes + chunks * (4 + 32 * (table.columns.size() + 1));
    }

    // Columns begin at multiples of their width, as slices of larger arrays do, and no better.
    void* place(uint64_t bytes, uint64_t align) {
        used_bytes_ = (used_bytes_ + align - 1) / align * align;
        void* const data = memory_.data() + used_bytes_;
        used_bytes_ += bytes;
        return data;
    }

    void add(const HostTable& table, uint64_t first, uint64_t rows) {
        Placed placed;
        placed.begin = used_bytes_;
        placed.chunk.rows = rows;
        for (size_t c = 0; c < table.columns.size(); ++c) {
            const HostColumn& column = table.columns[c];
            void* data = nullptr;  // a chunk without rows points at nothing
            const cuda::PackedBlock* blocks = nullptr;
            if (rows > 0 && packed_) {
                data = place(round_up(rows, cuda::kPackedValues) * column.width, kPackedAlign);
                auto* const told = static_cast<cuda::PackedBlock*>(
                    place(packed_blocks(column.width, rows) * sizeof(cuda::PackedBlock), sizeof(cuda::PackedBlock)));
                pack_reference(column.bytes.data() + first * column.width, column.width, rows,
                               static_cast<uint8_t*>(data), told);
                blocks = told;
            } else if (rows > 0) {
                data = place(rows * column.width, column.width);
                std::memcpy(data, column.bytes.data() + first * column.width, rows * column.width);
            }
            if (c > 0) placed.chunk.columns.push_back(data);
            if (c == 0) placed.chunk.key = data;
            if (c > 0 && packed_) placed.chunk.column_blocks.push_back(blocks);
            if (c == 0) placed.chunk.key_blocks = blocks;
        }
        placed.chunk.key_valid = validity(table.columns[0], first, rows);
        placed.end = used_bytes_;
        chunks_.push_back(std::move(placed));
    }

    // Chunks in which every row has a key say so, also beside others that have none in some rows. Bits behind the last
    // row are set: nothing may depend on them.
    const uint32_t* validity(const HostColumn& key, uint64_t first, uint64_t rows) {
        std::vector<uint32_t> words((rows + 31) / 32, ~0U);
        bool all = true;
        for (uint64_t row = 0; row < rows; ++row) {
            if (key.is_valid(first + row)) continue;
            words[row / 32] &= ~(1U << row % 32);
            all = false;
        }
        if (all) return nullptr;
        void* const data = place(words.size() * sizeof(uint32_t), sizeof(uint32_t));
        std::memcpy(data, words.data(), words.size() * sizeof(uint32_t));
        return static_cast<const uint32_t*>(data);
    }

    static constexpr uint64_t kPackedAlign = 64;
    static uint64_t round_up(uint64_t rows, uint64_t to) { return (rows + to - 1) / to * to; }

    const bool packed_;
    PinnedBytes memory_;
    uint64_t used_bytes_ = 0;
    std::vector<uint8_t> image_;
    std::vector<Placed> chunks_;
    uint64_t next_ = 0;
    uint64_t released_ = 0;
    uint64_t held_most_ = 0;
};

// Takes as many rows as there must be and no more. Rows are read when their block is closed, and spoiled behind that:
// what comes later is lost, and seen to be.
class CollectingSink final : public cuda::ResultSink {
  public:
    // packed: values come packed, into memory of each block.
    CollectingSink(const std::vector<uint32_t>& widths, uint64_t rows, bool packed = false)
        : rows_(rows), packed_(packed) {
        for (const uint32_t width : widths) {
            memory_.emplace_back(rows * width);
            if (rows > 0) std::memset(memory_.back().data(), kSpoiled, rows * width);
            table_.columns.push_back({width, {}, {}});
        }
    }

    std::vector<void*> open(uint64_t rows) override {
        if (on_open) on_open(opened_blocks_);
        if (rows == 0) fail("a block of no rows is asked for", __FILE__, __LINE__);
        if (rows > rows_ - opened_) fail("the result has more rows than it must have", __FILE__, __LINE__);
        std::vector<void*> columns;
        for (size_t c = 0; c < memory_.size(); ++c) columns.push_back(place(c, opened_));
        if (packed_) columns = open_packed(rows);
        open_.push_back(rows);
        opened_ += rows;
        ++opened_blocks_;
        open_most_ = std::max<uint64_t>(open_most_, open_.size());
        return columns;
    }
    std::vector<cuda::PackedBlock*> packed_blocks() const override {
        std::vector<cuda::PackedBlock*> all;
        if (!packed_) return all;
        for (const PinnedBytes& blocks : packed_open_.back().blocks) {
            all.push_back(reinterpret_cast<cuda::PackedBlock*>(blocks.data()));
        }
        return all;
    }
    void close() override {
        if (on_close) on_close(opened_blocks_ - open_.size());
        if (open_.empty()) fail("a block is closed that was not opened", __FILE__, __LINE__);
        const uint64_t rows = open_.front();
        open_.erase(open_.begin());
        if (packed_) close_packed(rows);
        for (size_t c = 0; c < memory_.size(); ++c) {
            HostColumn& column = table_.columns[c];
            uint8_t* const from = place(c, closed_);
            column.bytes.insert(column.bytes.end(), from, from + rows * column.width);
            std::memset(from, kSpoiled, rows * column.width);
        }
        closed_ += rows;
    }

    // All blocks were closed, and they held all rows.
    bool complete() const { return closed_ == rows_ && open_.empty(); }
    const HostTable& table() const { return table_; }
    uint64_t blocks() const { return opened_blocks_; }
    uint64_t open_most() const { return open_most_; }

    // Called with the number of the block.
    std::function<void(uint64_t)> on_open;
    std::function<void(uint64_t)> on_close;

  private:
    struct PackedRows {
        std::vector<PinnedBytes> words;
        std::vector<PinnedBytes> blocks;
    };
    uint8_t* place(size_t column, uint64_t row) const {
        return memory_[column].data() + row * table_.columns[column].width;
    }
    std::vector<void*> open_packed(uint64_t rows) {
        std::vector<void*> columns;
        packed_open_.emplace_back();
        PackedRows& made = packed_open_.back();
        for (const HostColumn& column : table_.columns) {
            const uint64_t whole = (rows + cuda::kPackedValues - 1) / cuda::kPackedValues * cuda::kPackedValues;
            made.words.emplace_back(whole * column.width);
            made.blocks.emplace_back(gpu_test::packed_blocks(column.width, rows) * sizeof(cuda::PackedBlock));
            columns.push_back(made.words.back().data());
        }
        return columns;
    }
    // To where they would be if they had come as they are.
    void close_packed(uint64_t rows) {
        const PackedRows& from = packed_open_.front();
        for (size_t c = 0; c < memory_.size(); ++c) {
            const auto* const blocks = reinterpret_cast<const cuda::PackedBlock*>(from.blocks[c].data());
            unpack_reference(blocks, from.words[c].data(), table_.columns[c].width, rows, place(c, closed_));
        }
        packed_open_.pop_front();
    }

    const uint64_t rows_;
    const bool packed_;
    std::deque<PackedRows> packed_open_;  // blocks of the open_
    std::vector<PinnedBytes> memory_;
    HostTable table_;
    std::vector<uint64_t> open_;  // rows of blocks, the oldest first
    uint64_t opened_ = 0;
    uint64_t closed_ = 0;
    uint64_t opened_blocks_ = 0;
    uint64_t open_most_ = 0;
};

}  // namespace spillway::gpu_test
