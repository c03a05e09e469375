// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/chunk_feeder.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "executor/source_pieces.hpp"

namespace spillway {

namespace {

// Rows that a worker copies at a time: a multiple of 64, so that nobody else writes to its words of bitmaps. Of 16
// bytes they are 1 MiB: few enough that 16 workers complete the first chunk of 2^22 rows together.
constexpr uint64_t kSliceRows = 64 * 1024;
constexpr uint64_t kSliceBytesMax = 4ULL << 20;  // of a read, but for a single row

}  // namespace

ChunkRing::ChunkRing(KeptPinned& pinned, uint64_t slots, uint64_t chunk_bytes) {
    constexpr const char* kPurpose = "chunks on their way to the GPU";
    reservation_ = pinned.reserve(slots * chunk_bytes, kPurpose);
    for (uint64_t i = 0; i < slots; ++i) blocks_.push_back(pinned.device().allocate_pinned(chunk_bytes, kPurpose));
}

ChunkFeeder::ChunkFeeder(Source& source, const ChunkColumns& columns, ChunkRing& ring, uint64_t chunk_rows,
                         MemoryBudget& budget, JobControl& control)
    : source_(source),
      columns_(columns),
      ring_(ring),
      budget_(budget),
      control_(control),
      rows_(static_cast<uint64_t>(source.rows())),
      chunk_rows_(chunk_rows),
      slices_per_chunk_((chunk_rows + kSliceRows - 1) / kSliceRows),
      chunks_((rows_ + chunk_rows - 1) / chunk_rows) {
    if (chunks_ > 0) slices_ = (chunks_ - 1) * slices_per_chunk_ + slices_of(chunks_ - 1);
    slots_.resize(ring.slots());
    for (size_t i = 0; i < slots_.size(); ++i) slots_[i].columns = columns.columns(ring.data(i));
}

uint64_t ChunkFeeder::chunk_end(uint64_t chunk) const {
    return std::min(rows_, (chunk + 1) * chunk_rows_);
}

uint64_t ChunkFeeder::slices_of(uint64_t chunk) const {
    return (chunk_end(chunk) - chunk * chunk_rows_ + kSliceRows - 1) / kSliceRows;
}

int ChunkFeeder::workers_max(int workers) const {
    return static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(workers), slices_));
}

void ChunkFeeder::wake() {
    const std::lock_guard<std::mutex> lock(mutex_);
    changed_.notify_all();
}

// The next slice whose chunk has a slot; false: there are no more.
bool ChunkFeeder::take(uint64_t& slice) {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
        control_.check();
        if (next_slice_ == slices_) return false;
        if (next_slice_ / slices_per_chunk_ < released_ + slots_.size()) break;
        changed_.wait_for(lock, kOutOfCorePoll);
    }
    slice = next_slice_++;
    return true;
}

void ChunkFeeder::work() {
    SourceReader reader(source_, columns_.read(), budget_, control_);
    const std::unique_ptr<RowEncoder> encoder = columns_.encoder(budget_);
    for (uint64_t slice = 0; take(slice);) fill(reader, encoder.get(), slice);
}

void ChunkFeeder::fill(SourceReader& reader, RowEncoder* encoder, uint64_t slice) {
    const uint64_t chunk = slice / slices_per_chunk_;
    const uint64_t slot = chunk % slots_.size();
    uint8_t* const to = ring_.data(slot);
    const uint64_t begin = slice % slices_per_chunk_ * kSliceRows;  // in the chunk
    const uint64_t first = chunk * chunk_rows_ + begin;             // in the source
    const uint64_t rows = std::min(kSliceRows, chunk_end(chunk) - first);
    columns_.clear_key_validity(to, begin, rows);
    uint64_t at = begin;
    for_pieces(source_, static_cast<int64_t>(first), static_cast<int64_t>(first + rows), [&](const Piece& piece) {
        for (int64_t done = 0; done < piece.rows;) {
            control_.check();
            const int64_t row = piece.row + done;
            const int64_t part = reader.rows_within(piece.batch, row, piece.rows - done, kSliceBytesMax);
            const auto number = static_cast<uint64_t>(source_.first_row(piece.batch) + row);
            columns_.write(reader.read(piece.batch, row, part), static_cast<uint64_t>(part), number, encoder, to, at);
            done += part;
            at += static_cast<uint64_t>(part);
        }
    });
    control_.rows_in.fetch_add(rows, std::memory_order_relaxed);
    const bool has_null = !columns_.all_have_keys(to, begin, rows);
    const std::lock_guard<std::mutex> lock(mutex_);
    Slot& filled = slots_[slot];
    filled.has_null = filled.has_null || has_null;
    if (++filled.slices == slices_of(chunk)) changed_.notify_all();
}

bool ChunkFeeder::next(cuda::Chunk& chunk) {
    std::unique_lock<std::mutex> lock(mutex_);
    control_.check();
    if (given_ == chunks_) return false;
    // The slot of a chunk that was not released holds the slices of an older one.
    SPILLWAY_CHECK(given_ < released_ + slots_.size());
    Slot& slot = slots_[given_ % slots_.size()];
    while (slot.slices < slices_of(given_)) {
        changed_.wait_for(lock, kOutOfCorePoll);
        control_.check();
    }
    const uint8_t* const data = ring_.data(given_ % slots_.size());
    chunk.rows = chunk_end(given_) - given_ * chunk_rows_;
    chunk.key = columns_.key(data);
    chunk.key_valid = slot.has_null ? columns_.key_valid(data) : nullptr;
    chunk.columns.assign(slot.columns.begin(), slot.columns.end());
    ++given_;
    return true;
}

void ChunkFeeder::release() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    Slot& slot = slots_[released_ % slots_.size()];
    slot.slices = 0;
    slot.has_null = false;
    ++released_;
    changed_.notify_all();
}

}  // namespace spillway
