// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "device/launch.hpp"
#include "out_of_core/chunk_reader.hpp"

namespace spillway::cuda {

namespace {

// Columns begin at multiples of this many bytes in a slot.
constexpr uint64_t kColumnAlignBytes = 256;

uint64_t aligned(uint64_t bytes) {
    return (bytes + kColumnAlignBytes - 1) / kColumnAlignBytes * kColumnAlignBytes;
}
uint64_t validity_bytes(uint64_t rows) {
    return (rows + 31) / 32 * sizeof(uint32_t);
}

// Where columns lie in a slot: key, validity, the others.
struct SlotLayout {
    uint64_t validity = 0;
    std::vector<uint64_t> columns;
    uint64_t bytes = 0;

    SlotLayout(uint32_t key_bytes, const std::vector<uint32_t>& widths, uint64_t rows) {
        validity = aligned(rows * key_bytes);
        bytes = validity + aligned(validity_bytes(rows));
        for (const uint32_t width : widths) {
            columns.push_back(bytes);
            bytes += aligned(rows * width);
        }
    }
};

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

}  // namespace

ChunkReader::ChunkReader(Device& device, CopyRing& ring, const CodeLayout& layout, uint32_t key_bytes,
                         const std::vector<uint32_t>& widths, uint64_t chunk_rows)
    : device_(device), ring_(ring), layout_(layout), key_bytes_(key_bytes), widths_(widths), chunk_rows_(chunk_rows) {}

uint64_t ChunkReader::slot_bytes(uint32_t key_bytes, const std::vector<uint32_t>& widths, uint64_t chunk_rows) {
    return SlotLayout(key_bytes, widths, chunk_rows).bytes;
}

// Chunks whose copies are done go back to the source; all but `keep` of them in any case.
void ChunkReader::release(ChunkSource& source, size_t keep) {
    while (!unreleased_.empty() && (unreleased_.size() > keep || ring_.is_copied(unreleased_.front()))) {
        ring_.wait_copied(unreleased_.front());
        unreleased_.pop_front();
        source.release();
    }
}

void ChunkReader::copy_in(const HostChunk& chunk) {
    if (chunk.rows > chunk_rows_ || chunk.columns.size() != widths_.size()) {
        throw Error(ErrorCode::kInvalid, "a chunk has more rows or other columns than the plan says");
    }
    const SlotLayout at(key_bytes_, widths_, chunk_rows_);
    const uint32_t slot = ring_.take();
    ring_.copy(slot, 0, chunk.key, chunk.rows * key_bytes_);
    if (chunk.key_valid != nullptr) ring_.copy(slot, at.validity, chunk.key_valid, validity_bytes(chunk.rows));
    for (size_t c = 0; c < widths_.size(); ++c) {
        ring_.copy(slot, at.columns[c], chunk.columns[c], chunk.rows * widths_[c]);
    }
    ring_.filled(slot);
    filled_.push_back({slot, chunk.rows, chunk.key_valid != nullptr});
    unreleased_.push_back(slot);
}

// As many copies are enqueued as there are slots: the link never waits for the host.
void ChunkReader::fetch(ChunkSource& source) {
    while (more_ && filled_.size() < ring_.slots()) {
        device_.check_cancelled();
        // A source has as many chunks as the ring: it waits for one of them rather than for ever.
        release(source, ring_.slots() - 1);
        HostChunk chunk;
        more_ = source.next(chunk);
        if (more_) copy_in(chunk);
    }
}

PartitionedRows ChunkReader::partition_keyless(const DeviceRelation& relation) {
    const uint64_t words = (relation.rows + 31) / 32;
    const Allocation inverted = device_.memory().allocate(words * sizeof(uint32_t), "rows without a key");
    launch(invert_words, dim3(static_cast<unsigned>((words + kOutOfCoreThreads - 1) / kOutOfCoreThreads)),
           dim3(kOutOfCoreThreads), 0, device_.stream(), relation.key_valid, inverted.as<uint32_t>(), words);
    DeviceRelation keyless = relation;
    keyless.key_valid = inverted.as<const uint32_t>();
    return radix_partition(device_, keyless, 0);
}

void ChunkReader::partition(const Filled& filled, const Wants& wants, Work& work) {
    const SlotLayout at(key_bytes_, widths_, chunk_rows_);
    const uint8_t* const data = ring_.data(filled.slot);
    DeviceRelation relation;
    relation.rows = filled.rows;
    relation.key = {data, key_bytes_};
    if (filled.has_validity) relation.key_valid = reinterpret_cast<const uint32_t*>(data + at.validity);
    for (size_t c = 0; c < widths_.size(); ++c) relation.columns.push_back({data + at.columns[c], widths_[c]});
    ring_.wait_on_device(filled.slot);
    Allocation passes;
    if (wants.add_to != nullptr) wants.add_to->add(relation);
    if (wants.passing != nullptr && filled.rows > 0) {
        passes = device_.memory().allocate(validity_bytes(filled.rows), "rows that the filter lets pass");
        wants.passing->test(relation, passes.as<uint32_t>());
        relation.key_valid = passes.as<const uint32_t>();
    }
    // The rows of the chunk before the last one have been used: their memory serves this one.
    work.rows = {};
    work.keyless = {};
    if (relation.rows > 0 && wants.transform) relation = wants.transform(relation);
    if (relation.rows > 0) {
        work.rows = radix_partition(device_, relation, static_cast<int>(layout_.radix_bits));
        if (wants.keyless && filled.has_validity) work.keyless = partition_keyless(relation);
    }
    ring_.emptied(filled.slot);
    if (relation.rows == 0) return;
    const uint64_t partitions = work.rows.partitions();
    work.has_extremes = wants.extremes();
    const uint64_t extremes = work.has_extremes ? partitions * layout_.fields : 0;
    if (work.has_extremes) {
        work.extremes = device_.memory().allocate(extremes * sizeof(FieldExtremes), "extremes of fields");
        find_extremes(device_, layout_, work.rows.data.as<const uint32_t>(), work.rows.begin.as<const uint64_t>(),
                      work.rows.end.as<const uint64_t>(), partitions, relation.rows, work.extremes.as<FieldExtremes>());
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

uint64_t ChunkReader::read(ChunkSource& source, const Wants& wants,
                           const std::function<void(const PartitionedChunk&)>& use) {
    const uint64_t partitions = 1ULL << layout_.radix_bits;
    const uint64_t words_max = 2 * partitions + 2 + 2 * partitions * layout_.fields;
    Work first(device_, words_max);
    Work second(device_, words_max);
    Work* before = nullptr;
    Work* now = &first;
    uint64_t rows = 0;
    for (;;) {
        fetch(source);
        if (filled_.empty()) break;
        const Filled filled = filled_.front();
        filled_.pop_front();
        rows += filled.rows;
        partition(filled, wants, *now);
        if (before != nullptr) use(finish(*before));
        before = now;
        now = now == &first ? &second : &first;
    }
    if (before != nullptr) use(finish(*before));
    release(source, 0);
    return rows;
}

}  // namespace spillway::cuda
