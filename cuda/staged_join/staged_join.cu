// SPDX-License-Identifier: Apache-2.0
#include "staged_join/join_state.hpp"
#include "staged_join/staged_join.hpp"

namespace spillway::cuda { inline namespace staged_join {

namespace {

std::unique_ptr<ChunkReader> reader_of(JoinState& state, int side, ChunkReader::Wants wants, ChunkReader::Use use,
                                       ChunkOwner& owner) {
    return std::make_unique<ChunkReader>(state.device, state.ring, state.shape.code[side], state.spec.key_bytes,
                                         state.spec.widths[side], state.spec.sizes, std::move(wants), std::move(use),
                                         owner);
}

void give_keyless(JoinState& state, const PartitionedChunk& chunk, bool build_side) {
    LonePass pass;
    pass.rows = chunk.keyless.rows;
    pass.row_words = chunk.keyless.row_words;
    pass.build_side = build_side;
    pass.has_key = false;
    if (chunk.keyless.pieces.empty()) return;
    if (state.writer != nullptr && !state.writer->has_sink()) {
        throw Error(ErrorCode::kInvalid, "build rows without a key go to the sink as they come");
    }
    state.joiner.lone(pass, chunk.keyless.pieces);
}

// Rows of resident build partitions that the result has by their marks; their pages are free afterwards.
void give_resident_rows(JoinState& state) {
    for (const uint64_t partition : state.build.resident()) {
        if (state.build.marks() != nullptr) {
            LonePass pass;
            pass.rows = state.build.pages().data();
            pass.row_words = state.shape.code[kBuildSide].row_words;
            pass.marks = state.build.marks();
            pass.marked = state.shape.rules.build_marked;
            pass.build_side = true;
            state.joiner.lone(pass, state.build.pages().pieces(partition));
        }
        state.build.pages().release(partition);
    }
}

}  // namespace

StagedJoin::StagedJoin(Device& device, const StagedJoinSpec& spec, Device* peer, SpillDisk* disk)
    : StreamOperator(device) {
    device.make_current();
    state_ = std::make_unique<JoinState>(device, spec, peer, disk);
}
StagedJoin::~StagedJoin() = default;

uint64_t StagedJoin::device_bytes(const StagedJoinSpec& spec) {
    return JoinShape::make(spec).memory.device_bytes;
}

const std::vector<uint64_t>& StagedJoin::partition_rows() const {
    return state_->build.rows();
}

void StagedJoin::begin_input(int input, ChunkOwner& owner, ResultSink* sink) {
    const bool gives_rows = state_->writer != nullptr;
    if (input == kProbeSide) check_sink(state_->spec.result, sink);
    if (gives_rows) state_->writer->set_sink(sink);
    if (gives_rows && input == kProbeSide && state_->spec.kind.inner()) {
        const std::vector<SumPart>* const parts = sink->sum_parts();
        if (parts != nullptr && state_->joiner.sum(*parts)) summed_ = sink;
    }
    input_ = input;
    clock_ = {};
    input == kBuildSide ? begin_build(owner) : begin_probe(owner);
}

void StagedJoin::read(const Chunk& chunk) {
    state_->reader->push(chunk);
}

void StagedJoin::end_input() {
    input_ == kBuildSide ? end_build() : end_probe();
}

void StagedJoin::begin_build(ChunkOwner& owner) {
    JoinState& state = *state_;
    ChunkReader::Wants wants;
    wants.extremes = [] { return true; };  // a partition may have to leave at any time
    wants.keyless = state.shape.rules.build_keyless;
    wants.add_to = state.filter.get();
    const auto use = [&state](const PartitionedChunk& chunk) {
        state.build.add(chunk, state.spiller);
        give_keyless(state, chunk, true);
    };
    state.reader = reader_of(state, kBuildSide, std::move(wants), use, owner);
}

void StagedJoin::end_build() {
    report_.rows[kBuildSide] = state_->reader->finish();
    state_->reader.reset();
    state_->build.finish(state_->spiller);
    report_.resident_partitions = state_->build.resident().size();
    report_.input_ms[kBuildSide] = clock_.passed_ms();
}

void StagedJoin::begin_probe(ChunkOwner& owner) {
    JoinState& state = *state_;
    const bool all_resident = report_.resident_partitions == state.shape.partitions;
    ChunkReader::Wants wants;
    wants.extremes = [all_resident] { return !all_resident; };
    wants.keyless = state.shape.rules.probe_keyless;
    wants.passing = state.filter.get();
    const IndexView index = state.build.index().view();
    const auto use = [this, &state, index](const PartitionedChunk& chunk) {
        for (const RowPiece& piece : chunk.batch.pieces) kept_rows_ += piece.rows;
        const BuildSide::Split pieces = state.build.split(chunk.batch.pieces);
        state.joiner.probe(chunk.batch, pieces.resident, index, state.shape.rules.probe, state.build.marks(), nullptr);
        state.spiller.spill(kProbeSide, chunk.batch.rows, pieces.spilled, chunk.extremes);
        give_keyless(state, chunk, false);
    };
    state.reader = reader_of(state, kProbeSide, std::move(wants), use, owner);
}

void StagedJoin::end_probe() {
    report_.rows[kProbeSide] = state_->reader->finish();
    state_->reader.reset();
    if (state_->filter != nullptr) report_.dropped_rows = report_.rows[kProbeSide] - kept_rows_;
    give_resident_rows(*state_);
    report_.input_ms[kProbeSide] = clock_.passed_ms();
    const HostClock joining;
    join_spilled(*state_);
    finish();
    report_.spilled_ms = joining.passed_ms();
}

void StagedJoin::finish() {
    if (summed_ != nullptr) {
        std::vector<ExactSum> sums;
        report_.result_rows = state_->joiner.total(sums);
        summed_->take_sums(report_.result_rows, sums);
    } else {
        report_.result_rows = state_->joiner.total(report_.sums);
    }
    if (state_->writer != nullptr) state_->writer->finish();
    device_.synchronize();
    state_->store.tell(report_);
    report_.h2d_bytes = state_->ring.copied_bytes();
    report_.saved_bytes = state_->ring.saved_bytes();
    report_.d2h_bytes = report_.spilled_bytes[kBuildSide] + report_.spilled_bytes[kProbeSide] +
                        (state_->writer == nullptr ? 0 : state_->writer->copied_bytes());
}

}}  // namespace spillway::cuda::staged_join
