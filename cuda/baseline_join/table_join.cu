// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "baseline_join/baseline_join.hpp"
#include "baseline_join/baseline_join_policy.hpp"
#include "baseline_join/slot_table.hpp"
#include "device/host_clock.hpp"
#include "device/published.hpp"
#include "primitive/prefix_sum.hpp"
#include "staged_join/join_state.hpp"
#include "stream/chunk_reader.hpp"
#include "stream/result_writer.hpp"

namespace spillway::cuda { inline namespace baseline_join {

namespace {

constexpr uint64_t kTotals = 1 + kSumColumnsMax;  // rows, sums

class TableJoin final : public StreamOperator {
  public:
    TableJoin(Device& device, const BaselineSpec& spec, SlotTable::Hashing hashing, SlotTable::Place place)
        : StreamOperator(device),
          spec_(unpartitioned(spec.join)),
          shape_(JoinShape::make(spec_)),
          overlap_(spec.overlap),
          build_rows_max_(spec.build_rows),
          ring_(device, kStreamedChunks, std::max(shape_.memory.chunk_bytes[0], shape_.memory.chunk_bytes[1])),
          published_(device, kTotals + 1) {
        // Refusals stand behind the totals.
        totals_ = device.memory().allocate((kTotals + 1) * sizeof(uint64_t), "sums of a join");
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(totals_.as(), 0, totals_.bytes(), device.stream()));
        if (spec_.result == JoinResultKind::kRows) {
            const uint64_t groups = spec_.sizes.chunk_rows / kGroupRows + 2;
            group_rows_ = device.memory().allocate(groups * sizeof(uint64_t), "places of result rows");
            writer_ = std::make_unique<ResultWriter>(device, shape_.columns, spec_.sizes.result_slots,
                                                     spec_.sizes.result_rows);
        }
        // At last, when it is known what is left of device memory.
        table_ = std::make_unique<SlotTable>(device, spec, hashing, place);
    }

  private:
    void begin_input(int input, ChunkOwner& owner, ResultSink* sink) override {
        if (input == kProbeSide) check_sink(spec_.result, sink);
        if (writer_ != nullptr) writer_->set_sink(sink);
        input_ = input;
        clock_ = {};
        keyed_rows_ = 0;
        ChunkReader::Wants wants;
        wants.extremes = [] { return false; };
        reader_ = std::make_unique<ChunkReader>(
            device_, ring_, shape_.code[input], spec_.key_bytes, spec_.widths[input], spec_.sizes, std::move(wants),
            [this](const PartitionedChunk& chunk) { use(chunk); }, owner);
    }
    void read(const Chunk& chunk) override {
        reader_->push(chunk);
        if (overlap_) return;
        reader_->finish();
        if (writer_ != nullptr) writer_->finish();
        device_.synchronize();
    }
    void end_input() override {
        report_.rows[input_] = reader_->finish();
        reader_.reset();
        input_ == kBuildSide ? end_build() : end_probe();
        report_.input_ms[input_] = clock_.passed_ms();
    }

    // Rows that have a key.
    void use(const PartitionedChunk& chunk) {
        for (const RowPiece& piece : chunk.batch.pieces) {
            TablePass pass;
            pass.table = table_->view();
            pass.rows = chunk.batch.rows + piece.begin * chunk.batch.row_words;
            pass.row_count = piece.rows;
            pass.row_words = chunk.batch.row_words;
            pass.key_words = shape_.code[input_].key_words;
            input_ == kBuildSide ? insert(pass) : look_up(pass);
        }
    }

    void insert(const TablePass& pass) {
        keyed_rows_ += pass.row_count;
        // Beyond that the table might have no empty slot, at which walks end.
        if (keyed_rows_ > build_rows_max_) {
            throw Error(ErrorCode::kInvalid, "the build side has more rows than the table was made for");
        }
        insert_rows(device_, pass, totals_.as<uint64_t>() + kTotals);
    }

    void look_up(const TablePass& pass) {
        if (writer_ != nullptr) {
            report_.result_rows += give_rows(pass);
        } else {
            sum_rows(device_, pass, summed_columns(), totals_.as<uint64_t>());
        }
    }

    void end_build() {
        published_.publish({{totals_.as<uint64_t>() + kTotals, 1}});
        throw_refusal(published_.wait()[0]);
    }

    void end_probe() {
        published_.publish({{totals_.as(), kTotals}});
        const uint64_t* const totals = published_.wait();
        report_.result_rows += totals[0];
        report_.sums.assign(totals + 1, totals + 1 + summed_columns().columns);
        if (writer_ != nullptr) writer_->finish();
        device_.synchronize();
        report_.h2d_bytes = ring_.copied_bytes();
        report_.d2h_bytes = writer_ == nullptr ? 0 : writer_->copied_bytes();
    }

    ResultWindow summed_columns() const {
        ResultWindow columns = shape_.columns;
        if (spec_.result != JoinResultKind::kSums) columns.columns = 0;
        return columns;
    }

    uint64_t give_rows(const TablePass& pass) {
        const uint64_t groups = (pass.row_count + kGroupRows - 1) / kGroupRows;
        uint64_t* const group_rows = group_rows_.as<uint64_t>();
        count_rows_of_groups(device_, pass, group_rows);
        exclusive_sum(device_, group_rows, groups + 1);
        published_.publish({{group_rows + groups, 1}});
        const uint64_t rows = published_.wait()[0];
        writer_->write(rows, [&](const ResultWindow& window) { write_rows(device_, pass, group_rows, window); });
        return rows;
    }

    const StagedJoinSpec spec_;
    const JoinShape shape_;
    const bool overlap_;
    const uint64_t build_rows_max_;
    CopyRing ring_;
    Allocation totals_;
    Published published_;
    Allocation group_rows_;
    std::unique_ptr<ResultWriter> writer_;
    std::unique_ptr<SlotTable> table_;
    std::unique_ptr<ChunkReader> reader_;
    int input_ = 0;
    uint64_t keyed_rows_ = 0;
    HostClock clock_;
};

}  // namespace

std::unique_ptr<StreamOperator> open_table_probe(Device& device, const BaselineSpec& spec) {
    return std::make_unique<TableJoin>(device, spec, SlotTable::Hashing::kLinearProbing, SlotTable::Place::kDevice);
}

std::unique_ptr<StreamOperator> open_npj_far(Device& device, const BaselineSpec& spec) {
    return std::make_unique<TableJoin>(device, spec, SlotTable::Hashing::kLinearProbing, SlotTable::Place::kSpread);
}

std::unique_ptr<StreamOperator> open_npj_far_perfect(Device& device, const BaselineSpec& spec) {
    return std::make_unique<TableJoin>(device, spec, SlotTable::Hashing::kPerfect, SlotTable::Place::kSpread);
}

}}  // namespace spillway::cuda::baseline_join
