// SPDX-License-Identifier: Apache-2.0
#include "staged_join/join_state.hpp"
#include "stream/stream_operator.hpp"

namespace spillway::cuda { inline namespace staged_join {

namespace {

// Result rows take turns with spilled ones where they share a link. On two streams the copy engine served the one that
// always had a copy ready: spilled rows waited for three windows of results, and then all kernels for the buffers of
// spilled rows, 1 ms of each 5.7.
std::unique_ptr<ResultWriter> make_writer(Device& device, const StagedJoinSpec& spec, const JoinShape& shape,
                                          cudaStream_t stream) {
    if (spec.result != JoinResultKind::kRows) return nullptr;
    return std::make_unique<ResultWriter>(device, shape.columns, spec.sizes.result_slots, spec.sizes.result_rows,
                                          stream);
}

std::unique_ptr<BloomFilter> make_filter(Device& device, const StagedJoinSpec& spec) {
    if (spec.sizes.filter_words == 0 || spec.kind.keeps_unmatched_probe()) return nullptr;
    return std::make_unique<BloomFilter>(device, spec.sizes.filter_words);
}

}  // namespace

JoinShape JoinShape::make(const StagedJoinSpec& spec) {
    check_sizes(spec.sizes);
    JoinShape shape;
    shape.partitions = 1ULL << spec.sizes.radix_bits;
    for (int side = 0; side < 2; ++side) {
        shape.rows[side] =
            RowLayout::make(spec.key_bytes, spec.widths[side], kJoinWordsMax).with_key_columns(spec.key_columns);
        shape.code[side] = CodeLayout::make(shape.rows[side], spec.sizes.radix_bits);
        shape.code[side].packed = spec.sizes.packed ? 1 : 0;
    }
    shape.columns = ResultWindow::make(spec, shape.rows[0], shape.rows[1]);
    shape.rules = KindRules::of(spec.kind);
    shape.memory = staged_join_memory(spec);
    return shape;
}

// Evicted rows leave, and come back, by the chunk.
const StagedJoinSpec& checked(const StagedJoinSpec& spec) {
    if (spec.sizes.pages * spec.sizes.page_rows < spec.sizes.chunk_rows + spec.sizes.page_rows) {
        throw Error(ErrorCode::kInvalid, "the pages of build rows hold less than one chunk");
    }
    return spec;
}

JoinState::JoinState(Device& opened, const StagedJoinSpec& wanted, Device* peer, SpillDisk* disk)
    : device(opened),
      bytes_before(opened.memory().used_bytes()),
      spec(checked(wanted)),
      shape(JoinShape::make(wanted)),
      parcels(opened),
      ring(opened, wanted.sizes.chunk_slots, shape.memory.slot_bytes),
      build(opened, parcels, shape.rows[0], shape.code[0], wanted.sizes, shape.memory.index_rows,
            shape.rules.build_marks),
      filter(make_filter(opened, wanted)),
      store(opened, peer, disk, wanted.sizes),
      spiller(opened, parcels, store, shape.code, shape.memory.run_words),
      writer(make_writer(opened, wanted, shape, peer == nullptr ? store.stream() : nullptr)),
      joiner(opened, parcels, wanted.result, shape.columns, shape.rows[1], shape.memory.probe_tiles, writer.get()) {
    if (const uint64_t rows = shape.memory.marked_rows; rows > 0) {
        probe_marks = device.memory().allocate(rows, "marks of probe rows");
    }
    take_working_memory(device, shape.memory.device_bytes, bytes_before);
}

}}  // namespace spillway::cuda::staged_join
