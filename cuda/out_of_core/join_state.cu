// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "out_of_core/join_state.hpp"
#include "out_of_core/working_memory.hpp"
#include "radix_partition/radix_policy.hpp"

namespace spillway::cuda {

namespace {

// Partitions of a pass that keeps its counters in shared memory; more take one pass more.
constexpr int kRadixBitsMax = 12;

// Result rows take turns with spilled ones where they share a link. On two streams the copy engine served the one that
// always had a copy ready: spilled rows waited for three windows of results, and then all kernels for the buffers of
// spilled rows, 1 ms of each 5.7.
std::unique_ptr<ResultWriter> make_writer(Device& device, const OutOfCoreSpec& spec, const JoinShape& shape,
                                          cudaStream_t stream) {
    if (spec.result != OutOfCoreResult::kRows) return nullptr;
    return std::make_unique<ResultWriter>(device, shape.columns, spec.sizes.result_slots, spec.sizes.result_rows,
                                          stream);
}

std::unique_ptr<BloomFilter> make_filter(Device& device, const OutOfCoreSpec& spec, const JoinShape& shape) {
    if (spec.sizes.filter_words == 0 || shape.rules.keeps_unmatched_probe()) return nullptr;
    return std::make_unique<BloomFilter>(device, spec.sizes.filter_words);
}

void check(const OutOfCoreSpec& spec) {
    if (spec.sizes.radix_bits < 0 || spec.sizes.radix_bits > kRadixBitsMax) {
        throw Error(ErrorCode::kInvalid, "joins out of core have 0 to 12 radix bits in their first pass");
    }
    if (spec.sizes.chunk_rows == 0) throw Error(ErrorCode::kInvalid, "chunks have at least a row");
    if (spec.result != OutOfCoreResult::kSums) return;
    if (spec.output.size() > kSumColumnsMax) {
        throw Error(ErrorCode::kInvalid, "a join gives at most " + std::to_string(kSumColumnsMax) + " sums");
    }
    for (const JoinOutputColumn& column : spec.output) {
        if (column.side == OutputSide::kPresence) throw Error(ErrorCode::kInvalid, "presence bytes cannot be summed");
    }
}

}  // namespace

JoinShape JoinShape::make(const OutOfCoreSpec& spec) {
    check(spec);
    JoinShape shape;
    shape.partitions = 1ULL << spec.sizes.radix_bits;
    for (int side = 0; side < 2; ++side) {
        shape.rows[side] = RowLayout::make(spec.key_bytes, spec.widths[side]);
        shape.code[side] = CodeLayout::make(shape.rows[side], spec.sizes.radix_bits);
        shape.code[side].packed = spec.sizes.packed ? 1 : 0;
        const uint64_t words = packed_words_max(shape.code[side], spec.sizes.chunk_rows, shape.partitions);
        shape.run_words = std::max(shape.run_words, words);
        shape.slot_bytes =
            std::max({shape.slot_bytes, words * sizeof(uint32_t),
                      ChunkReader::slot_bytes(spec.key_bytes, spec.widths[side], spec.sizes.chunk_rows)});
    }
    shape.columns = ResultWindow::make(spec.output, shape.rows[0], shape.rows[1]);
    for (int32_t c = 0; spec.result == OutOfCoreResult::kSums && c < shape.columns.columns; ++c) {
        const uint16_t width = shape.columns.column[c].width;
        if (width != 4 && width != 8) throw Error(ErrorCode::kInvalid, "sums are of columns of 4 or 8 bytes");
    }
    shape.rules = KindRules::of(spec.kind);
    // As many tiles again for pieces that do not fill one: each partition of a chunk has such a piece.
    shape.batch_tiles = spec.sizes.chunk_rows / kTileRows + 2 * shape.partitions + 1024;
    // Two chunks, or two partitions of the mean size that fits: evicted rows leave a chunk at a time.
    const uint64_t capacity = spec.sizes.pages * spec.sizes.page_rows;
    shape.index_rows = std::min(capacity, 2 * std::max(spec.sizes.chunk_rows, capacity / shape.partitions));
    return shape;
}

uint64_t JoinShape::marked_rows(const OutOfCoreSizes& sizes) const {
    return rules.probe_marks() ? kMarkedChunks * sizes.chunk_rows : 0;
}

uint64_t JoinShape::device_bytes(const OutOfCoreSpec& spec) const {
    const OutOfCoreSizes& sizes = spec.sizes;
    const uint64_t row_bytes = std::max(rows[0].row_bytes(), rows[1].row_bytes());
    // Partitioned chunks: two, of which one may be in its second pass.
    const uint64_t passes = sizes.radix_bits > kPassBitsMax ? 2 : 1;
    const uint64_t chunk = (sizes.chunk_rows + partitions * kRegionAlignRows) * row_bytes + partitions * 256;
    uint64_t bytes = sizes.chunk_slots * slot_bytes + (1 + passes) * chunk;
    // Rows without a key are partitioned by themselves: two chunks of them, and which rows they are.
    if (rules.build_keyless || rules.probe_keyless) bytes += 2 * chunk + sizes.chunk_rows / 8;
    bytes += sizes.filter_words * sizeof(uint64_t) + sizes.chunk_rows / 8 + marked_rows(sizes);
    bytes += kRunBuffers * run_words * sizeof(uint32_t);
    const uint64_t page_rows = sizes.pages * sizes.page_rows;
    bytes += page_rows * rows[0].row_bytes() + (rules.build_marks ? page_rows : 0);
    bytes += RowIndex::scratch_rows(index_rows) * rows[0].row_bytes() +
             RowIndex::buckets_max(page_rows, partitions) * sizeof(uint32_t);
    bytes += partitions * sizeof(IndexedPartition) + sizes.pages * sizeof(uint32_t);
    if (spec.result == OutOfCoreResult::kRows) {
        bytes += sizes.result_slots * ResultWriter::slot_bytes(columns, sizes.result_rows);
        bytes += BatchJoiner::memory_bytes(batch_tiles);
    }
    // Counters of the index, of 2^8 regions per partition: five words each.
    bytes += 5 * sizeof(uint64_t) * (partitions << kPassBitsMax);
    // Lists on their way, scratch of prefix sums, extremes of fields, and what rounding up takes.
    const uint64_t lists = (partitions + sizes.chunk_rows / std::max<uint64_t>(sizes.page_rows, 1)) * 96;
    return bytes + kParcelSlots * lists + 2 * partitions * kCodeFieldsMax * sizeof(FieldExtremes) + index_rows / 8 +
           (16ULL << 20);
}

// Evicted rows leave, and come back, by the chunk.
const OutOfCoreSpec& checked(const OutOfCoreSpec& spec) {
    if (spec.sizes.pages * spec.sizes.page_rows < spec.sizes.chunk_rows + spec.sizes.page_rows) {
        throw Error(ErrorCode::kInvalid, "the pages of build rows hold less than one chunk");
    }
    return spec;
}

JoinState::JoinState(Device& opened, const OutOfCoreSpec& wanted, Device* peer, SpillDisk* disk)
    : device(opened),
      bytes_before(opened.memory().used_bytes()),
      spec(checked(wanted)),
      shape(JoinShape::make(wanted)),
      parcels(opened),
      ring(opened, wanted.sizes.chunk_slots, shape.slot_bytes),
      build(opened, parcels, shape.rows[0], shape.code[0], wanted.sizes, shape.index_rows, shape.rules.build_marks),
      filter(make_filter(opened, wanted, shape)),
      store(opened, peer, wanted.sizes.spill_block_bytes, wanted.sizes.spill_bytes,
            DiskTier::make(opened, disk, wanted.sizes.disk_block_bytes, wanted.sizes.disk_blocks)),
      spiller(opened, parcels, store, shape.code, shape.run_words),
      writer(make_writer(opened, wanted, shape, peer == nullptr ? store.stream() : nullptr)),
      joiner(opened, parcels, wanted.result, shape.columns, shape.batch_tiles, writer.get()) {
    if (const uint64_t rows = shape.marked_rows(spec.sizes); rows > 0) {
        probe_marks = device.memory().allocate(rows, "marks of probe rows");
    }
    take_working_memory(device, shape.device_bytes(spec), bytes_before);
}

void JoinState::wait_for_copies() noexcept {
    if (try_set_device(device.ordinal())) discard(cudaDeviceSynchronize());
}

}  // namespace spillway::cuda
