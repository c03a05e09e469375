// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>

#include "baseline_join/baseline_join.hpp"
#include "baseline_join/baseline_join_policy.hpp"
#include "baseline_join/chunk_matcher.hpp"
#include "baseline_join/whole_relation.hpp"
#include "device/host_clock.hpp"
#include "device/launch.hpp"
#include "device/published.hpp"
#include "memory_model/baseline_memory.hpp"
#include "row_index/total.cuh"
#include "staged_join/join_state.hpp"
#include "stream/chunk_reader.hpp"
#include "stream/result_writer.hpp"

namespace spillway::cuda { inline namespace baseline_join {

namespace {

// *total += the values of a column, each read once.
template <class Value>
__global__ void __launch_bounds__(kTableThreads) sum_column(const Value* values, uint64_t rows, uint64_t* total) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    uint64_t sum = 0;
    for (uint64_t row = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; row < rows; row += step) {
        sum += values[row];
    }
    add_total(sum, total);
}

void launch_sum(Device& device, const Allocation& column, uint32_t width, uint64_t rows, uint64_t* total) {
    const dim3 grid = grid_over(device, rows, kTableThreads, kTableBlocksPerMultiprocessor);
    if (width == 4) {
        launch(sum_column<uint32_t>, grid, dim3(kTableThreads), 0, device.stream(), column.as<const uint32_t>(), rows,
               total);
    } else {
        launch(sum_column<uint64_t>, grid, dim3(kTableThreads), 0, device.stream(), column.as<const uint64_t>(), rows,
               total);
    }
}

class StreamProbeJoin final : public StreamOperator {
  public:
    StreamProbeJoin(Device& device, const BaselineSpec& spec)
        : StreamOperator(device),
          bytes_before_(device.memory().used_bytes()),
          spec_(unpartitioned(spec.join)),
          stream_probe_(spec.stream_probe),
          overlap_(spec.overlap),
          shape_(JoinShape::make(spec_)),
          output_(spec_.output.begin(), spec_.output.end()),
          ring_(device, kStreamedChunks, std::max(shape_.memory.chunk_bytes[0], shape_.memory.chunk_bytes[1])),
          published_(device, kSumColumnsMax) {
        if (spec_.result == JoinResultKind::kRows) {
            writer_ = std::make_unique<ResultWriter>(device, shape_.columns, spec_.sizes.result_slots,
                                                     spec_.sizes.result_rows);
        }
        sums_ = device.memory().allocate(kSumColumnsMax * sizeof(uint64_t), "sums of a join");
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(sums_.as(), 0, sums_.bytes(), device.stream()));
        build_.emplace(device, spec_.key_bytes, spec_.widths[kBuildSide], spec.build_rows);
        const uint64_t bytes = resident_join_bytes(spec_, spec.build_rows, stream_probe_);
        take_working_memory(device, bytes, bytes_before_);
    }

  private:
    void begin_input(int input, ChunkOwner& owner, ResultSink* sink) override {
        if (input == kProbeSide) check_sink(spec_.result, sink);
        if (writer_ != nullptr) writer_->set_sink(sink);
        input_ = input;
        clock_ = {};
        ChunkReader::Wants wants;
        wants.extremes = [] { return false; };
        // Nothing is left for the reader to partition.
        wants.transform = [this](const DeviceRelation& chunk) {
            input_ == kBuildSide ? build_->append(chunk) : join(chunk);
            return DeviceRelation{};
        };
        reader_ = std::make_unique<ChunkReader>(
            device_, ring_, shape_.code[input], spec_.key_bytes, spec_.widths[input], spec_.sizes, std::move(wants),
            [](const PartitionedChunk&) {}, owner);
    }
    void read(const Chunk& chunk) override {
        reader_->push(chunk);
        if (overlap_) return;
        reader_->finish();
        settle();
    }
    void end_input() override {
        report_.rows[input_] = reader_->finish();
        reader_.reset();
        input_ == kBuildSide ? end_build() : end_probe();
        report_.input_ms[input_] = clock_.passed_ms();
    }

    // Nothing is under way any more.
    void settle() {
        if (writer_ != nullptr) writer_->finish();
        device_.synchronize();
    }

    // The host does not wait: the first chunk passes the link meanwhile.
    void end_build() {
        if (build_->relation().rows > 0) {
            const auto match = stream_probe_ == StreamProbe::kSorted ? match_sorted : match_partitioned;
            matcher_ = match(device_, std::move(*build_), output_);
        }
        build_.reset();
        if (!overlap_) device_.synchronize();
    }

    void join(const DeviceRelation& chunk) {
        if (matcher_ == nullptr) return;
        if (spec_.result == JoinResultKind::kCount) {
            report_.result_rows += matcher_->count(chunk);
            return;
        }
        const uint64_t rows_max = std::max(spec_.sizes.result_rows, kPieceRows);
        matcher_->join(chunk, rows_max, [this](const JoinResult& piece) {
            report_.result_rows += piece.rows;
            writer_ != nullptr ? write(piece) : sum(piece);
        });
    }

    // From where they have been joined to the buffers that they leave from.
    void write(const JoinResult& piece) {
        writer_->write(piece.rows, [&](const ResultWindow& window) {
            for (int32_t c = 0; c < window.columns; ++c) {
                const ResultColumn& column = window.column[c];
                const uint8_t* const from = piece.columns[static_cast<size_t>(c)].as<const uint8_t>();
                SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(column.data, from + window.first * column.width,
                                                    window.rows * column.width, cudaMemcpyDeviceToDevice,
                                                    device_.stream()));
            }
        });
    }
    void sum(const JoinResult& piece) {
        for (int32_t c = 0; c < shape_.columns.columns; ++c) {
            launch_sum(device_, piece.columns[static_cast<size_t>(c)], shape_.columns.column[c].width, piece.rows,
                       sums_.as<uint64_t>() + c);
        }
    }

    void end_probe() {
        settle();
        if (spec_.result == JoinResultKind::kSums) {
            published_.publish({{sums_.as(), kSumColumnsMax}});
            const uint64_t* const sums = published_.wait();
            report_.sums.assign(sums, sums + shape_.columns.columns);
        }
        report_.h2d_bytes = ring_.copied_bytes();
        report_.saved_bytes = ring_.saved_bytes();
        report_.d2h_bytes = writer_ == nullptr ? 0 : writer_->copied_bytes();
    }

    const uint64_t bytes_before_;  // of the device's pool
    const StagedJoinSpec spec_;
    const StreamProbe stream_probe_;
    const bool overlap_;
    const JoinShape shape_;
    const std::vector<JoinOutputColumn> output_;
    CopyRing ring_;
    Published published_;
    std::unique_ptr<ResultWriter> writer_;
    Allocation sums_;
    std::optional<WholeRelation> build_;     // until all of it has come
    std::unique_ptr<ChunkMatcher> matcher_;  // from then on; nullptr: it has no rows
    std::unique_ptr<ChunkReader> reader_;
    int input_ = 0;
    HostClock clock_;
};

}  // namespace

std::unique_ptr<StreamOperator> open_stream_probe(Device& device, const BaselineSpec& spec) {
    if (spec.stream_probe == StreamProbe::kTable) return open_table_probe(device, spec);
    return std::make_unique<StreamProbeJoin>(device, spec);
}

}}  // namespace spillway::cuda::baseline_join
