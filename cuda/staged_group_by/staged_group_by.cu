// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "staged_group_by/group_state.hpp"
#include "staged_group_by/staged_group_by.hpp"

namespace spillway::cuda { inline namespace staged_group_by {

namespace {

// Chunks that are on their way to the pages when it is decided whether the next one needs what spilling takes: the one
// before it, and itself.
constexpr uint64_t kChunksAhead = 2;

}  // namespace

StagedGroupBy::StagedGroupBy(Device& device, const StagedGroupBySpec& spec, Device* peer, SpillDisk* disk)
    : StreamOperator(device) {
    device.make_current();
    state_ = std::make_unique<GroupByState>(device, spec, peer, disk);
}
StagedGroupBy::~StagedGroupBy() = default;

uint64_t StagedGroupBy::device_bytes(const StagedGroupBySpec& spec) {
    return GroupShape::make(spec).memory.device_bytes;
}

void StagedGroupBy::begin_input(int, ChunkOwner& owner, ResultSink* sink) {
    GroupByState& state = *state_;
    state.writer.set_sink(sink);
    clock_ = {};
    state.chunks.set_clustered(owner.is_on_device());
    ChunkReader::Wants wants;
    wants.extremes = [&state] { return !state.pages.has_room_for_chunks(kChunksAhead); };
    wants.transform = [this, &state](const DeviceRelation& chunk) {
        device_.check_cancelled();
        if (state.spec.null_group && chunk.key_valid != nullptr) state.keyless.add(chunk);
        ++report_.chunks;
        return state.chunks.partials(chunk);
    };
    wants.rest = [&state] { return state.chunks.rest(); };
    const auto use = [this, &state](const PartitionedChunk& chunk) {
        for (const RowPiece& piece : chunk.batch.pieces) report_.partial_rows += piece.rows;
        state.pages.add(chunk, state.spiller);
    };
    state.reader = std::make_unique<ChunkReader>(device_, state.ring, state.shape.code, state.spec.key_bytes,
                                                 state.spec.widths, state.spec.sizes, std::move(wants), use, owner);
}

void StagedGroupBy::read(const Chunk& chunk) {
    state_->reader->push(chunk);
}

std::optional<std::vector<SummedColumn>> StagedGroupBy::sums_for_rows() const {
    if (state_->spec.sizes.pre_aggregation == PreAggregation::kNever) return std::nullopt;
    std::vector<SummedColumn> columns;
    for (const PartialColumn& partial : state_->shape.partials) {
        if (partial.kind == GroupAggregateKind::kCountRows) continue;
        if (partial.kind != GroupAggregateKind::kSum || partial.value_kind == ValueKind::kFloat) return std::nullopt;
        columns.push_back({partial.column, partial.value_kind == ValueKind::kSigned});
    }
    return columns;
}

void StagedGroupBy::add_sums(uint64_t rows, const std::vector<ExactSum>& sums) {
    summed_rows_ += rows;
    if (rows > 0) state_->chunks.add_group(rows, sums);
}

void StagedGroupBy::end_input() {
    report_.rows[0] = state_->reader->finish() + std::exchange(summed_rows_, 0);
    state_->reader.reset();
    state_->spiller.flush();
    const std::vector<uint64_t> resident = state_->pages.resident();
    report_.resident_partitions = resident.size();
    report_.input_ms[0] = clock_.passed_ms();
    const HostClock giving;
    state_->keyless.give(state_->writer);
    give_groups(*state_, resident, report_);
    state_->writer.finish();
    device_.synchronize();
    report_.spilled_ms = giving.passed_ms() - report_.resident_ms;
    finish();
}

void StagedGroupBy::finish() {
    report_.result_rows = state_->writer.groups();
    report_.grouped_chunks = state_->chunks.grouped_chunks();
    report_.compacted_rows = state_->pages.compacted_rows();
    state_->store.tell(report_);
    report_.h2d_bytes = state_->ring.copied_bytes();
    report_.saved_bytes = state_->ring.saved_bytes();
    report_.d2h_bytes = report_.spilled_bytes[GroupPages::kSide] + state_->writer.copied_bytes();
}

}}  // namespace spillway::cuda::staged_group_by
