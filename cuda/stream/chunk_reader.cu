// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "device/launch.hpp"
#include "stream/chunk_reader.hpp"

namespace spillway::cuda { inline namespace stream {

namespace {

__global__ void invert_words(const uint32_t* from, uint32_t* to, uint64_t words) {
    const uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < words) to[i] = ~from[i];
}

std::vector<RowPiece> pieces_of(const uint64_t* begin, const uint64_t* end, uint64_t partitions) {
    std::vector<RowPiece> pieces;
    pieces.reserve(partitions);
    for (uint64_t p = 0; p < partitions; ++p) {
        if (end[p] > begin[p]) pieces.push_back({begin[p], end[p] - begin[p], p});
    }
    return pieces;
}

// What a chunk publishes: begins, ends and extremes of all partitions, and where keyless rows begin and end.
uint64_t words_of(const CodeLayout& layout) {
    const uint64_t partitions = 1ULL << layout.radix_bits;
    return 2 * partitions + 2 + 2 * partitions * layout.fields;
}

}  // namespace

ChunkReader::ChunkReader(Device& device, CopyRing& ring, const CodeLayout& layout, uint32_t key_bytes,
                         const ColumnWidths& widths, const StreamSizes& sizes, Wants wants, Use use, ChunkOwner& owner)
    : device_(device),
      ring_(ring),
      layout_(layout),
      key_bytes_(key_bytes),
      widths_(widths),
      chunk_rows_(sizes.chunk_rows),
      unreleased_max_(sizes.host_chunk_slots / 2),
      wants_(std::move(wants)),
      use_(std::move(use)),
      owner_(owner),
      first_(device, words_of(layout)),
      second_(device, words_of(layout)),
      places_(key_bytes, widths, sizes.chunk_rows) {
    device.check_cancelled();
}

// Chunks whose copies are done go back to their owner; all but `keep` of them in any case.
void ChunkReader::release(size_t keep) {
    while (!unreleased_.empty() && (unreleased_.size() > keep || unreleased_.front().done())) {
        unreleased_.front().synchronize();
        idle_.push_back(std::move(unreleased_.front()));
        unreleased_.pop_front();
        owner_.release();
    }
}

// Blocks of packed values begin at multiples of their number.
bool ChunkReader::has_room(uint64_t rows) const {
    const uint64_t before = open_.relation.rows;
    return open_.slot != kNoSlot && before % kPackedValues == 0 && rows <= chunk_rows_ - before;
}

void ChunkReader::open_slot() {
    open_ = {{}, ring_.take()};
    const uint8_t* const data = ring_.data(open_.slot);
    open_.relation.key = {data, key_bytes_};
    for (size_t c = 0; c < widths_.size(); ++c) {
        open_.relation.columns.push_back({data + places_.columns[c], widths_[c]});
    }
}

void ChunkReader::close_slot() {
    if (open_.slot == kNoSlot) return;
    ring_.filled(open_.slot);
    filled_.push_back(std::exchange(open_, {}));
    if (filled_.size() == ring_.slots()) partition_oldest();
}

// The chunk's rows go behind those that the open slot has.
void ChunkReader::copy_in(const Chunk& chunk) {
    DeviceRelation& relation = open_.relation;
    copy_column(relation.rows * key_bytes_, chunk.key, chunk.key_blocks, chunk.rows, key_bytes_);
    copy_validity(chunk);
    for (size_t c = 0; c < widths_.size(); ++c) {
        const PackedBlock* const blocks = chunk.column_blocks.empty() ? nullptr : chunk.column_blocks[c];
        const uint64_t place = places_.columns[c] + relation.rows * widths_[c];
        copy_column(place, chunk.columns[c], blocks, chunk.rows, widths_[c]);
    }
    ring_.enqueue();
    relation.rows += chunk.rows;
    if (idle_.empty()) idle_.emplace_back();
    unreleased_.push_back(std::move(idle_.back()));
    idle_.pop_back();
    unreleased_.back().record(ring_.stream());
}

// Bits of chunks whose rows all have a key are set as soon as another chunk of the slot has bits.
void ChunkReader::copy_validity(const Chunk& chunk) {
    DeviceRelation& relation = open_.relation;
    const uint64_t before_bytes = validity_bytes(relation.rows);
    if (chunk.key_valid != nullptr) {
        if (relation.key_valid == nullptr && before_bytes > 0) {
            ring_.set(open_.slot, places_.validity, 0xff, before_bytes);
        }
        relation.key_valid = reinterpret_cast<const uint32_t*>(ring_.data(open_.slot) + places_.validity);
        ring_.copy(open_.slot, places_.validity + before_bytes, chunk.key_valid, validity_bytes(chunk.rows));
    } else if (relation.key_valid != nullptr) {
        ring_.set(open_.slot, places_.validity + before_bytes, 0xff, validity_bytes(chunk.rows));
    }
}

void ChunkReader::copy_column(uint64_t offset, const void* from, const PackedBlock* blocks, uint64_t rows,
                              uint32_t width) {
    if (blocks == nullptr) {
        ring_.copy(open_.slot, offset, from, rows * width);
    } else {
        ring_.copy_packed(open_.slot, offset, from, blocks, rows * width, width);
    }
}

DeviceRelation ChunkReader::lent(const Chunk& chunk) const {
    DeviceRelation relation;
    relation.rows = chunk.rows;
    relation.key = {chunk.key, key_bytes_};
    relation.key_valid = chunk.key_valid;
    for (size_t c = 0; c < widths_.size(); ++c) relation.columns.push_back({chunk.columns[c], widths_[c]});
    return relation;
}

void ChunkReader::push(const Chunk& chunk) {
    const size_t packed = chunk.column_blocks.size();
    if (chunk.rows > chunk_rows_ || chunk.columns.size() != widths_.size() ||
        (packed > 0 && packed != widths_.size())) {
        throw Error(ErrorCode::kInvalid, "a chunk has more rows or other columns than the plan says");
    }
    if (owner_.is_on_device()) {
        filled_.push_back({lent(chunk), kNoSlot});
        partition_oldest();
        device_.check_cancelled();
        return;
    }
    if (!has_room(chunk.rows)) {
        close_slot();
        open_slot();
    }
    copy_in(chunk);
    if (open_.relation.rows == chunk_rows_) close_slot();
    device_.check_cancelled();
    // So that their owner fills the others meanwhile.
    release(unreleased_max_);
}

uint64_t ChunkReader::finish() {
    close_slot();
    while (!filled_.empty()) partition_oldest();
    now_->rows = {};  // as prepare() does: they have been used
    const DeviceRelation rest = wants_.rest ? wants_.rest() : DeviceRelation{};
    if (rest.rows > 0) {
        now_->rows = radix_partition(device_, rest, static_cast<int>(layout_.radix_bits));
        publish(*now_, rest.rows);
        take_turns();
    }
    if (before_ != nullptr) use_(finish(*std::exchange(before_, nullptr)));
    release(0);
    return rows_;
}

void ChunkReader::partition_oldest() {
    const Filled filled = filled_.front();
    filled_.pop_front();
    rows_ += filled.relation.rows;
    prepare(filled, *now_);
    take_turns();
}

void ChunkReader::take_turns() {
    if (before_ != nullptr) use_(finish(*before_));
    before_ = now_;
    now_ = now_ == &first_ ? &second_ : &first_;
}

PartitionedRows ChunkReader::partition_keyless(const DeviceRelation& relation) {
    const uint64_t words = (relation.rows + 31) / 32;
    const Allocation inverted = device_.memory().allocate(words * sizeof(uint32_t), "rows without a key");
    launch(invert_words, grid_of_threads(words, kStreamThreads), dim3(kStreamThreads), 0, device_.stream(),
           relation.key_valid, inverted.as<uint32_t>(), words);
    DeviceRelation keyless = relation;
    keyless.key_valid = inverted.as<const uint32_t>();
    return radix_partition(device_, keyless, 0);
}

void ChunkReader::prepare(const Filled& filled, Work& work) {
    DeviceRelation relation = filled.relation;
    const bool has_validity = relation.key_valid != nullptr;
    if (filled.slot != kNoSlot) ring_.wait_on_device(filled.slot);
    Allocation passes;
    if (wants_.add_to != nullptr) wants_.add_to->add(relation);
    if (wants_.passing != nullptr && relation.rows > 0) {
        passes = device_.memory().allocate(validity_bytes(relation.rows), "rows that the filter lets pass");
        wants_.passing->test(relation, passes.as<uint32_t>());
        relation.key_valid = passes.as<const uint32_t>();
    }
    // The rows of the chunk before the last one have been used: their memory serves this one.
    work.rows = {};
    work.keyless = {};
    if (relation.rows > 0 && wants_.transform) relation = wants_.transform(relation);
    if (relation.rows > 0) work.rows = radix_partition(device_, relation, static_cast<int>(layout_.radix_bits));
    if (relation.rows > 0 && wants_.keyless && has_validity) work.keyless = partition_keyless(relation);
    if (filled.slot != kNoSlot) ring_.emptied(filled.slot);
    if (relation.rows > 0) publish(work, relation.rows);
}

void ChunkReader::publish(Work& work, uint64_t rows) {
    const uint64_t partitions = work.rows.partitions();
    work.has_extremes = wants_.extremes();
    const uint64_t extremes = work.has_extremes ? partitions * layout_.fields : 0;
    if (work.has_extremes) {
        work.extremes = device_.memory().allocate(extremes * sizeof(FieldExtremes), "extremes of fields");
        find_extremes(device_, layout_, work.rows.data.as<const uint32_t>(), work.rows.begin.as<const uint64_t>(),
                      work.rows.end.as<const uint64_t>(), partitions, rows, work.extremes.as<FieldExtremes>());
    }
    const uint64_t keyless = work.keyless.data ? 1 : 0;
    work.published.publish({{work.rows.begin.as(), partitions},
                            {work.rows.end.as(), partitions},
                            {work.keyless.begin.as(), keyless},
                            {work.keyless.end.as(), keyless},
                            {work.extremes.as(), extremes * 2}});
}

PartitionedChunk ChunkReader::finish(const Work& work) const {
    PartitionedChunk chunk;
    if (!work.rows.data) return chunk;
    const uint64_t* const words = work.published.wait();
    const uint64_t partitions = work.rows.partitions();
    chunk.batch.rows = work.rows.data.as<const uint32_t>();
    chunk.batch.row_words = layout_.row_words;
    chunk.batch.pieces = pieces_of(words, words + partitions, partitions);
    uint64_t at = 2 * partitions;
    if (work.keyless.data) {
        chunk.keyless.rows = work.keyless.data.as<const uint32_t>();
        chunk.keyless.row_words = layout_.row_words;
        chunk.keyless.pieces = pieces_of(words + at, words + at + 1, 1);
        at += 2;
    }
    if (work.has_extremes) chunk.extremes = reinterpret_cast<const FieldExtremes*>(words + at);
    return chunk;
}

}}  // namespace spillway::cuda::stream
