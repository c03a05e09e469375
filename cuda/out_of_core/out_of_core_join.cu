// SPDX-License-Identifier: Apache-2.0
#include "device/host_clock.hpp"
#include "out_of_core/join_state.hpp"
#include "out_of_core/spilled_join.hpp"

namespace spillway::cuda {

class OutOfCoreJoin::Work {
  public:
    Work(Device& device, const OutOfCoreSpec& spec, Device* peer, SpillDisk* disk) : state_(device, spec, peer, disk) {}

    void build(ChunkSource& source) {
        const HostClock clock;
        ChunkReader reader = reader_of(kBuild);
        ChunkReader::Wants wants;
        wants.extremes = [] { return true; };  // a partition may have to leave at any time
        wants.keyless = state_.shape.rules.build_keyless;
        wants.add_to = state_.filter.get();
        state_.report.build_rows = reader.read(source, wants, [&](const PartitionedChunk& chunk) {
            state_.build.add(chunk, state_.spiller);
            give_keyless(chunk, true);
        });
        state_.build.finish(state_.spiller);
        state_.report.resident_partitions = static_cast<uint32_t>(state_.build.resident().size());
        state_.report.build_ms = clock.passed_ms();
    }

    const std::vector<uint64_t>& partition_rows() const { return state_.build.rows(); }

    const OutOfCoreReport& probe(ChunkSource& source) {
        const HostClock probing;
        const KindRules& rules = state_.shape.rules;
        const IndexView index = state_.build.index().view();
        const bool all_resident = state_.report.resident_partitions == state_.shape.partitions;
        ChunkReader reader = reader_of(kProbe);
        ChunkReader::Wants wants;
        wants.extremes = [&] { return !all_resident; };
        wants.keyless = rules.probe_keyless;
        wants.passing = state_.filter.get();
        uint64_t kept = 0;
        state_.report.probe_rows = reader.read(source, wants, [&](const PartitionedChunk& chunk) {
            for (const RowPiece& piece : chunk.batch.pieces) kept += piece.rows;
            const BuildSide::Split pieces = state_.build.split(chunk.batch.pieces);
            state_.joiner.probe(chunk.batch, pieces.resident, index, rules.probe, state_.build.marks(), nullptr);
            state_.spiller.spill(kProbe, chunk.batch.rows, pieces.spilled, chunk.extremes);
            give_keyless(chunk, false);
        });
        if (state_.filter != nullptr) state_.report.dropped_rows = state_.report.probe_rows - kept;
        give_resident_rows();
        state_.report.probe_ms = probing.passed_ms();
        const HostClock joining;
        join_spilled(state_);
        finish();
        state_.report.spilled_ms = joining.passed_ms();
        return state_.report;
    }

    void set_sink(ResultSink* sink) {
        if (state_.writer != nullptr) state_.writer->set_sink(sink);
    }
    bool gives_rows() const { return state_.writer != nullptr; }
    bool gives_rows_early() const { return gives_rows() && state_.shape.rules.build_keyless; }
    void wait_for_copies() noexcept { state_.wait_for_copies(); }

  private:
    static constexpr int kBuild = 0;
    static constexpr int kProbe = 1;

    ChunkReader reader_of(int side) {
        return ChunkReader(state_.device, state_.ring, state_.shape.code[side], state_.spec.key_bytes,
                           state_.spec.widths[side], state_.spec.sizes.chunk_rows);
    }

    void give_keyless(const PartitionedChunk& chunk, bool build_side) {
        LonePass pass;
        pass.rows = chunk.keyless.rows;
        pass.row_words = chunk.keyless.row_words;
        pass.build_side = build_side;
        pass.has_key = false;
        if (!chunk.keyless.pieces.empty()) state_.joiner.lone(pass, chunk.keyless.pieces);
    }

    // Rows of resident build partitions that the result has by their marks; their pages are free afterwards.
    void give_resident_rows() {
        for (const uint64_t partition : state_.build.resident()) {
            if (state_.build.marks() != nullptr) {
                LonePass pass;
                pass.rows = state_.build.pages().data();
                pass.row_words = state_.shape.code[kBuild].row_words;
                pass.marks = state_.build.marks();
                pass.marked = state_.shape.rules.build_marked;
                pass.build_side = true;
                state_.joiner.lone(pass, state_.build.pieces(partition));
            }
            state_.build.pages().release(partition);
        }
    }

    void finish() {
        OutOfCoreReport& report = state_.report;
        report.result_rows = state_.joiner.total(report.sums);
        if (state_.writer != nullptr) state_.writer->finish();
        state_.device.synchronize();
        for (int side = 0; side < 2; ++side) {
            report.spilled_rows[side] = state_.store.rows(side);
            report.spilled_bytes[side] = state_.store.bytes(side);
        }
        report.disk_written_bytes = state_.store.disk_written_bytes();
        report.disk_read_bytes = state_.store.disk_read_bytes();
        report.h2d_bytes = state_.ring.copied_bytes();
        report.d2h_bytes = report.spilled_bytes[0] + report.spilled_bytes[1] +
                           (state_.writer == nullptr ? 0 : state_.writer->copied_bytes());
    }

    JoinState state_;
};

OutOfCoreJoin::OutOfCoreJoin(Device& device, const OutOfCoreSpec& spec, Device* peer, SpillDisk* disk) {
    device.make_current();
    work_ = std::make_unique<Work>(device, spec, peer, disk);
}
OutOfCoreJoin::~OutOfCoreJoin() = default;

void OutOfCoreJoin::build(ChunkSource& source, ResultSink* sink) {
    if (sink == nullptr && work_->gives_rows_early()) {
        throw Error(ErrorCode::kInvalid, "build rows without a key go to the sink as they come");
    }
    try {
        work_->set_sink(sink);
        work_->build(source);
    } catch (...) {
        work_->wait_for_copies();
        throw;
    }
}

const std::vector<uint64_t>& OutOfCoreJoin::partition_rows() const {
    return work_->partition_rows();
}

const OutOfCoreReport& OutOfCoreJoin::probe(ChunkSource& source, ResultSink* sink) {
    if ((sink != nullptr) != work_->gives_rows()) {
        throw Error(ErrorCode::kInvalid, "a sink is for joins that give rows");
    }
    try {
        work_->set_sink(sink);
        return work_->probe(source);
    } catch (...) {
        work_->wait_for_copies();
        throw;
    }
}

uint64_t OutOfCoreJoin::device_bytes(const OutOfCoreSpec& spec) {
    return JoinShape::make(spec).device_bytes(spec);
}

}  // namespace spillway::cuda
