// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/chunk_feeder.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "device/value_packer.hpp"
#include "executor/source_pieces.hpp"
#include "memory/buffer.hpp"

namespace spillway {

namespace {

// Rows that a worker copies at a time: a multiple of 64, so that nobody else writes to its words of bitmaps. Of 16
// bytes they are 1 MiB: few enough that 16 workers complete the first chunk of 2^22 rows together.
constexpr uint64_t kSliceRows = 64 * 1024;
constexpr uint64_t kSliceBytesMax = 4ULL << 20;  // of a read, but for a single row
constexpr uint64_t kRowsPerWord = 64;            // in words of bitmaps
// Rows that are read at a time where they are packed, so that what has to be written first stays in the L2 cache.
constexpr uint64_t kPackedReadRows = 8 * 1024;

// Headers of a column of a chunk, of which slices begin with whole blocks.
uint64_t headers_of(uint64_t chunk_rows, uint32_t width) {
    return chunk_rows / cuda::kPackedValues * cuda::packed_planes(width);
}

}  // namespace

ChunkRing::ChunkRing(KeptPinned& pinned, uint64_t slots, uint64_t chunk_bytes, uint64_t header_bytes) {
    constexpr const char* kPurpose = "chunks on their way to the GPU";
    reservation_ = pinned.reserve(slots * chunk_bytes, kPurpose);
    for (uint64_t i = 0; i < slots; ++i) blocks_.push_back(pinned.device().allocate_pinned(chunk_bytes, kPurpose));
    if (header_bytes == 0) return;
    try {
        headers_reservation_ = pinned.reserve(slots * header_bytes, kPurpose);
        for (uint64_t i = 0; i < slots; ++i)
            headers_.push_back(pinned.device().allocate_pinned(header_bytes, kPurpose));
    } catch (const Error& error) {
        const bool full = error.code() == ErrorCode::kBudgetTooSmall || error.code() == ErrorCode::kOutOfMemory;
        if (!full) throw;
        headers_.clear();  // values go as they are
    }
}

uint64_t chunk_header_bytes(const ChunkColumns& columns, uint64_t chunk_rows) {
    if (!columns.is_packed() || chunk_rows % cuda::kPackedValues != 0) return 0;
    uint64_t headers = 0;
    for (size_t c = 0; c < columns.value_columns(); ++c) headers += headers_of(chunk_rows, columns.value_width(c));
    return headers * sizeof(cuda::PackedBlock);
}

ChunkFeeder::ChunkFeeder(const ChunkInput& input, const ChunkColumns& columns, ChunkRing& ring, uint64_t chunk_rows,
                         MemoryBudget& budget, JobControl& control, DevicePause pause)
    : input_(input),
      columns_(columns),
      ring_(ring),
      budget_(budget),
      control_(control),
      pause_(std::move(pause)),
      chunk_rows_(chunk_rows),
      // Slices of a stream begin anywhere.
      packs_(input.stream == nullptr && ring.headers(0) != nullptr && chunk_header_bytes(columns, chunk_rows) > 0),
      mutex_(input.stream != nullptr ? input.stream->mutex() : own_mutex_),
      changed_(input.stream != nullptr ? input.stream->changed() : own_changed_) {
    slots_.resize(ring.slots());
    for (size_t i = 0; i < slots_.size(); ++i) {
        slots_[i].columns = columns.columns(ring.data(i));
        const cuda::PackedBlock* headers = ring.headers(i);
        for (size_t c = 0; packs_ && c < columns.value_columns(); ++c) {
            slots_[i].blocks.push_back(headers);
            headers += headers_of(chunk_rows, columns.value_width(c));
        }
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    if (input.stream != nullptr) {
        input.stream->begin_reading();
        return;
    }
    part_.source = input.source;
    part_.end_row = static_cast<uint64_t>(input.source->rows());
    ended_ = true;
}

ChunkFeeder::~ChunkFeeder() {
    // After a failure a source of the stream may not have been read to its end; whoever brought it waits for it.
    const std::lock_guard<std::mutex> lock(mutex_);
    if (input_.stream != nullptr && part_.source != nullptr) input_.stream->give_back(false);
}

int ChunkFeeder::workers_max(int workers) const {
    if (input_.stream != nullptr) return workers;
    const uint64_t slices_per_chunk = (chunk_rows_ + kSliceRows - 1) / kSliceRows;
    const uint64_t whole = part_.end_row / chunk_rows_;
    const uint64_t last = (part_.end_row % chunk_rows_ + kSliceRows - 1) / kSliceRows;
    return static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(workers), whole * slices_per_chunk + last));
}

void ChunkFeeder::wake() {
    const std::lock_guard<std::mutex> lock(mutex_);
    changed_.notify_all();
}

// Makes the next source of the stream the part, if there is one. By one worker at a time, without the lock where that
// takes long.
bool ChunkFeeder::take_part(std::unique_lock<std::mutex>& lock) {
    Source* const source = input_.stream == nullptr || opens_ || readers_ > 0 ? nullptr : input_.stream->take();
    if (source == nullptr) return false;
    opens_ = true;
    part_.source = source;
    part_.own_columns.reset();
    part_.first_row = next_row_;
    part_.end_row = next_row_;
    part_.read_rows = 0;
    lock.unlock();
    std::optional<ChunkColumns> columns;
    try {
        columns.emplace(columns_.of(*source));
        source->load_dictionaries(columns->read(), budget_, control_);
    } catch (...) {
        lock.lock();
        opens_ = false;
        throw;
    }
    lock.lock();
    opens_ = false;
    part_.own_columns.emplace(std::move(*columns));
    part_.end_row = next_row_ + static_cast<uint64_t>(source->rows());
    if (part_.end_row == next_row_) end_part();
    changed_.notify_all();
    return true;
}

// The source of a stream that was read to its end goes back.
void ChunkFeeder::end_part() noexcept {
    if (input_.stream == nullptr) return;
    part_.source = nullptr;
    input_.stream->give_back(true);
}

// Joins those who read the part, or the one that follows. False: none does.
bool ChunkFeeder::enter() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
        control_.check();
        if (next_row_ < part_.end_row) break;
        if (input_.stream != nullptr && input_.stream->ended() && !ended_) {
            ended_ = true;
            changed_.notify_all();
        }
        if (ended_) return false;
        if (take_part(lock)) continue;
        changed_.wait_for(lock, kAbortPoll);
    }
    ++readers_;
    return true;
}

void ChunkFeeder::leave() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    // A worker that failed leaves rows behind; the source stays until the end then.
    if (--readers_ > 0 || part_.first_row + part_.read_rows < part_.end_row) return;
    end_part();
    changed_.notify_all();
}

// The next slice of the part, when its chunk has a slot; false: there are no more.
bool ChunkFeeder::take(Slice& slice) {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
        control_.check();
        if (next_row_ == part_.end_row) return false;
        if (next_row_ / chunk_rows_ < released_ + slots_.size()) break;
        changed_.wait_for(lock, kAbortPoll);
    }
    const uint64_t at = next_row_ % chunk_rows_;
    const uint64_t window = std::min(kSliceRows - at % kSliceRows, chunk_rows_ - at);
    slice = {next_row_, std::min(window, part_.end_row - next_row_)};
    next_row_ += slice.rows;
    return true;
}

class ChunkFeeder::Reading {
  public:
    explicit Reading(ChunkFeeder& feeder) : feeder_(feeder) {}
    ~Reading() { feeder_.leave(); }
    Reading(const Reading&) = delete;

  private:
    ChunkFeeder& feeder_;
};

void ChunkFeeder::work() {
    while (enter()) read_part();
}

// How one worker fills slices of a part.
class ChunkFeeder::Filling {
  public:
    Filling(ChunkFeeder& feeder, const ChunkColumns& columns, Source& source)
        : feeder_(feeder),
          columns_(columns),
          source_(source),
          reader_(source, columns.read(), feeder.budget_, feeder.control_),
          writer_(columns.writer(feeder.budget_)) {
        for (size_t c = 0; feeder.packs_ && c < columns.value_columns(); ++c)
            packers_.emplace_back(columns.value_width(c));
        written_.resize(packers_.size());
    }

    // Rows of the source from `first` on become rows [begin, ...) of the chunk.
    void fill(uint64_t slot, int64_t first, int64_t rows, uint64_t begin) {
        uint8_t* const chunk = feeder_.ring_.data(slot);
        start_packing(slot, begin);
        const int64_t most = packers_.empty() ? rows : static_cast<int64_t>(kPackedReadRows);
        uint64_t at = begin;
        for_pieces(source_, first, first + rows, [&](const Piece& piece) {
            for (int64_t done = 0; done < piece.rows;) {
                feeder_.control_.check();
                const int64_t row = piece.row + done;
                const int64_t left = std::min(piece.rows - done, most);
                const int64_t count = reader_.rows_within(piece.batch, row, left, kSliceBytesMax);
                const uint64_t number =
                    feeder_.part_.first_row + static_cast<uint64_t>(source_.first_row(piece.batch) + row);
                const std::vector<ColumnView>& views = reader_.read(piece.batch, row, count);
                write(views, static_cast<uint64_t>(count), number, columns_.rows(chunk, at));
                done += count;
                at += static_cast<uint64_t>(count);
            }
        });
        for (ValuePacker& packer : packers_) packer.finish();
    }

  private:
    void start_packing(uint64_t slot, uint64_t begin) {
        for (size_t c = 0; c < packers_.size(); ++c) {
            const uint32_t width = columns_.value_width(c);
            const uint64_t bytes = begin * width;  // before the slice
            auto* const blocks = const_cast<cuda::PackedBlock*>(feeder_.slots_[slot].blocks[c]);
            packers_[c].start(feeder_.ring_.data(slot) + columns_.value_place(c) + bytes,
                              blocks + headers_of(begin, width), bytes / 64);
        }
    }

    void write(const std::vector<ColumnView>& views, uint64_t rows, uint64_t number, ChunkRows to) {
        if (packers_.empty()) return columns_.write(views, rows, number, writer_, to);
        std::vector<const uint8_t*> values(packers_.size());
        for (size_t c = 0; c < packers_.size(); ++c) {
            values[c] = columns_.plain_values(c, views);
            uint8_t*& place = c == 0 ? to.key : to.columns[c - 1];
            place = nullptr;
            if (values[c] != nullptr) continue;
            written_[c].renew(feeder_.budget_, rows * columns_.value_width(c), "values on their way to the GPU");
            place = written_[c].data();
            values[c] = place;
        }
        columns_.write(views, rows, number, writer_, to);
        for (size_t c = 0; c < packers_.size(); ++c) packers_[c].append(values[c], rows);
    }

    ChunkFeeder& feeder_;
    const ChunkColumns& columns_;
    Source& source_;
    SourceReader reader_;
    ChunkWriter writer_;
    std::vector<ValuePacker> packers_;  // empty: nothing is packed
    std::vector<Buffer> written_;       // values that are packed next
};

void ChunkFeeder::read_part() {
    const Reading reading(*this);
    Filling filling(*this, part_columns(), *part_.source);
    for (Slice slice; take(slice);) fill(filling, slice);
}

void ChunkFeeder::fill(Filling& filling, const Slice& slice) {
    const ChunkColumns& columns = part_columns();
    const uint64_t slot = slice.row / chunk_rows_ % slots_.size();
    uint8_t* const to = ring_.data(slot);
    const uint64_t begin = slice.row % chunk_rows_;  // in the chunk
    // What begins inside of a word goes on with a window that an earlier source has begun, and cleared.
    const uint64_t window = std::min(kSliceRows - begin % kSliceRows, chunk_rows_ - begin);
    if (begin % kRowsPerWord == 0) columns.clear_key_validity(to, begin, window);
    filling.fill(slot, static_cast<int64_t>(slice.row - part_.first_row), static_cast<int64_t>(slice.rows), begin);
    control_.rows_in.fetch_add(slice.rows, std::memory_order_relaxed);
    const bool has_null = !columns.all_have_keys(to, begin, slice.rows);
    const std::lock_guard<std::mutex> lock(mutex_);
    Slot& filled = slots_[slot];
    filled.has_null = filled.has_null || has_null;
    filled.rows += slice.rows;
    part_.read_rows += slice.rows;
    if (is_ready()) changed_.notify_all();
}

// Have all chunks been given?
bool ChunkFeeder::at_end() const {
    return ended_ && next_row_ == part_.end_row && given_ * chunk_rows_ >= next_row_;
}

// Are all rows of the next chunk there, or is it known that none follow?
bool ChunkFeeder::is_ready() const {
    if (at_end()) return true;
    const uint64_t rows = slots_[given_ % slots_.size()].rows;
    return rows == chunk_rows_ || (ended_ && next_row_ == part_.end_row && given_ * chunk_rows_ + rows == next_row_);
}

void ChunkFeeder::wait_until_ready(std::unique_lock<std::mutex>& lock) {
    while (!is_ready()) {
        changed_.wait_for(lock, kAbortPoll);
        control_.check();
    }
}

bool ChunkFeeder::next(cuda::Chunk& chunk) {
    std::unique_lock<std::mutex> lock(mutex_);
    control_.check();
    // The slot of a chunk that was not released holds the rows of an older one.
    SPILLWAY_CHECK(at_end() || given_ < released_ + slots_.size());
    if (input_.stream != nullptr && pause_ && !is_ready()) {
        lock.unlock();
        pause_([&] {
            std::unique_lock<std::mutex> waiting(mutex_);
            wait_until_ready(waiting);
        });
        lock.lock();
    }
    wait_until_ready(lock);
    if (at_end()) return false;
    Slot& slot = slots_[given_ % slots_.size()];
    const uint8_t* const data = ring_.data(given_ % slots_.size());
    chunk.rows = slot.rows;
    chunk.key = columns_.key(data);
    chunk.key_valid = slot.has_null ? columns_.key_valid(data) : nullptr;
    chunk.columns.assign(slot.columns.begin(), slot.columns.end());
    if (packs_) {
        chunk.key_blocks = slot.blocks[0];
        chunk.column_blocks.assign(slot.blocks.begin() + 1, slot.blocks.end());
    }
    ++given_;
    return true;
}

void ChunkFeeder::release() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    Slot& slot = slots_[released_ % slots_.size()];
    slot.rows = 0;
    slot.has_null = false;
    ++released_;
    changed_.notify_all();
}

}  // namespace spillway
