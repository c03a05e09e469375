// SPDX-License-Identifier: Apache-2.0
#include "device/host_clock.hpp"
#include "out_of_core_group_by/group_state.hpp"
#include "out_of_core_group_by/spilled_groups.hpp"

namespace spillway::cuda {

namespace {

// Chunks that are on their way to the pages when it is decided whether the next one needs what spilling takes: the one
// before it, and itself.
constexpr uint64_t kChunksAhead = 2;

}  // namespace

class OutOfCoreGroupBy::Work {
  public:
    Work(Device& device, const OutOfCoreGroupBySpec& spec, SpillDisk* disk) : state_(device, spec, disk) {}

    const OutOfCoreGroupByReport& run(ChunkSource& source, ResultSink* sink) {
        OutOfCoreGroupByReport& report = state_.report;
        state_.writer.set_sink(sink);
        const HostClock reading;
        read(source);
        const std::vector<uint64_t> resident = state_.pages.resident();
        report.resident_partitions = static_cast<uint32_t>(resident.size());
        report.read_ms = reading.passed_ms();
        const HostClock giving;
        state_.keyless.give(state_.writer);
        give_groups(state_, resident);
        state_.writer.finish();
        state_.device.synchronize();
        report.spilled_ms = giving.passed_ms() - report.resident_ms;
        finish();
        return report;
    }

    // Of copies from and to memory of others; after an error.
    void wait_for_copies() noexcept {
        if (try_set_device(state_.device.ordinal())) discard(cudaDeviceSynchronize());
    }

  private:
    void read(ChunkSource& source) {
        ChunkReader reader(state_.device, state_.ring, state_.shape.code, state_.spec.key_bytes, state_.spec.widths,
                           state_.spec.sizes.chunk_rows);
        ChunkReader::Wants wants;
        wants.extremes = [&] { return !state_.pages.has_room_for_chunks(kChunksAhead); };
        wants.transform = [&](const DeviceRelation& chunk) {
            state_.device.check_cancelled();
            if (state_.spec.null_group && chunk.key_valid != nullptr) state_.keyless.add(chunk);
            ++state_.report.chunks;
            return state_.chunks.partials(chunk);
        };
        state_.report.rows = reader.read(source, wants, [&](const PartitionedChunk& chunk) {
            for (const RowPiece& piece : chunk.batch.pieces) state_.report.partial_rows += piece.rows;
            state_.pages.add(chunk, state_.spiller);
        });
        state_.spiller.flush();
    }

    void finish() {
        OutOfCoreGroupByReport& report = state_.report;
        report.groups = state_.writer.groups();
        report.grouped_chunks = state_.chunks.grouped_chunks();
        report.compacted_rows = state_.pages.compacted_rows();
        report.spilled_rows = state_.store.rows(GroupPages::kSide);
        report.spilled_bytes = state_.store.bytes(GroupPages::kSide);
        report.disk_written_bytes = state_.store.disk_written_bytes();
        report.disk_read_bytes = state_.store.disk_read_bytes();
        report.h2d_bytes = state_.ring.copied_bytes();
        report.d2h_bytes = report.spilled_bytes + state_.writer.copied_bytes();
    }

    GroupByState state_;
};

OutOfCoreGroupBy::OutOfCoreGroupBy(Device& device, const OutOfCoreGroupBySpec& spec, SpillDisk* disk) {
    device.make_current();
    work_ = std::make_unique<Work>(device, spec, disk);
}
OutOfCoreGroupBy::~OutOfCoreGroupBy() = default;

const OutOfCoreGroupByReport& OutOfCoreGroupBy::run(ChunkSource& source, ResultSink* sink) {
    try {
        return work_->run(source, sink);
    } catch (...) {
        work_->wait_for_copies();
        throw;
    }
}

uint64_t OutOfCoreGroupBy::device_bytes(const OutOfCoreGroupBySpec& spec) {
    return GroupShape::make(spec).device_bytes(spec);
}

std::vector<uint32_t> OutOfCoreGroupBy::result_widths(const OutOfCoreGroupBySpec& spec) {
    const ResultWindow window = GroupWriter::columns_of(GroupShape::make(spec), spec.null_group);
    std::vector<uint32_t> widths;
    for (int32_t c = 0; c < window.columns; ++c) widths.push_back(window.column[c].width);
    return widths;
}

}  // namespace spillway::cuda
