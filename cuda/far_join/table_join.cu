// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/published.hpp"
#include "far_join/far_join_policy.hpp"
#include "far_join/join_end.hpp"
#include "far_join/slot_table.hpp"
#include "far_join/table_join.hpp"
#include "far_join/table_kernels.hpp"
#include "out_of_core/chunk_reader.hpp"
#include "out_of_core/join_state.hpp"
#include "out_of_core/result_writer.hpp"
#include "primitive/prefix_sum.hpp"

namespace spillway::cuda {

namespace {

constexpr int kBuild = 0;
constexpr int kProbe = 1;
constexpr uint64_t kTotals = 1 + kSumColumnsMax;  // rows, sums

// Chunks as they come, in one partition.
OutOfCoreSpec unpartitioned(const OutOfCoreSpec& spec) {
    check_inner(spec);
    OutOfCoreSpec whole = spec;
    whole.sizes.radix_bits = 0;
    return whole;
}

uint64_t chunk_bytes(const OutOfCoreSpec& spec) {
    return std::max(ChunkReader::slot_bytes(spec.key_bytes, spec.widths[kBuild], spec.sizes.chunk_rows),
                    ChunkReader::slot_bytes(spec.key_bytes, spec.widths[kProbe], spec.sizes.chunk_rows));
}

class TableJoin final : public FarJoin {
  public:
    TableJoin(Device& device, const FarJoinSpec& spec, SlotTable::Hashing hashing, SlotTable::Place place)
        : device_(device),
          spec_(unpartitioned(spec.join)),
          shape_(JoinShape::make(spec_)),
          build_rows_max_(spec.build_rows),
          ring_(device, kStreamedChunks, chunk_bytes(spec_)),
          published_(device, kTotals + 1) {
        // Refusals stand behind the totals.
        totals_ = device.memory().allocate((kTotals + 1) * sizeof(uint64_t), "sums of a join");
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(totals_.as(), 0, totals_.bytes(), device.stream()));
        if (spec_.result == OutOfCoreResult::kRows) {
            const uint64_t groups = spec_.sizes.chunk_rows / kGroupRows + 2;
            group_rows_ = device.memory().allocate(groups * sizeof(uint64_t), "places of result rows");
            writer_ = std::make_unique<ResultWriter>(device, shape_.columns, spec_.sizes.result_slots,
                                                     spec_.sizes.result_rows);
        }
        // At last, when it is known what is left of device memory.
        table_ = std::make_unique<SlotTable>(device, spec, hashing, place);
    }

    void build(ChunkSource& source) override {
        wait_after_errors(device_, [&] { build_table(source); });
    }
    const OutOfCoreReport& probe(ChunkSource& source, ResultSink* sink) override {
        check_sink(spec_, sink);
        wait_after_errors(device_, [&] {
            if (writer_ != nullptr) writer_->set_sink(sink);
            probe_table(source);
        });
        return report_;
    }

  private:
    // use(pass) for all rows with a key; returns the number of rows with or without.
    template <class Use>
    uint64_t read(ChunkSource& source, int side, const Use& use) {
        ChunkReader reader(device_, ring_, shape_.code[side], spec_.key_bytes, spec_.widths[side],
                           spec_.sizes.chunk_rows);
        ChunkReader::Wants wants;
        wants.extremes = [] { return false; };
        return reader.read(source, wants, [&](const PartitionedChunk& chunk) {
            for (const RowPiece& piece : chunk.batch.pieces) {
                TablePass pass;
                pass.table = table_->view();
                pass.rows = chunk.batch.rows + piece.begin * chunk.batch.row_words;
                pass.row_count = piece.rows;
                pass.row_words = chunk.batch.row_words;
                pass.key_words = shape_.code[side].key_words;
                use(pass);
            }
        });
    }

    void build_table(ChunkSource& source) {
        const HostClock clock;
        uint64_t keyed_rows = 0;
        report_.build_rows = read(source, kBuild, [&](const TablePass& pass) {
            keyed_rows += pass.row_count;
            // Beyond that the table might have no empty slot, at which walks end.
            if (keyed_rows > build_rows_max_) {
                throw Error(ErrorCode::kInvalid, "the build side has more rows than the table was made for");
            }
            insert_rows(device_, pass, totals_.as<uint64_t>() + kTotals);
        });
        published_.publish({{totals_.as<uint64_t>() + kTotals, 1}});
        throw_refusal(published_.wait()[0]);
        report_.build_ms = clock.passed_ms();
    }

    void probe_table(ChunkSource& source) {
        const HostClock clock;
        ResultWindow columns = shape_.columns;
        if (spec_.result != OutOfCoreResult::kSums) columns.columns = 0;
        uint64_t written_rows = 0;
        report_.probe_rows = read(source, kProbe, [&](const TablePass& pass) {
            if (writer_ != nullptr) {
                written_rows += give_rows(pass);
            } else {
                sum_rows(device_, pass, columns, totals_.as<uint64_t>());
            }
        });
        published_.publish({{totals_.as(), kTotals}});
        const uint64_t* const totals = published_.wait();
        report_.result_rows = written_rows + totals[0];
        if (spec_.result == OutOfCoreResult::kSums) {
            report_.sums.assign(totals + 1, totals + 1 + columns.columns);
        }
        if (writer_ != nullptr) writer_->finish();
        device_.synchronize();
        report_.h2d_bytes = ring_.copied_bytes();
        report_.d2h_bytes = writer_ == nullptr ? 0 : writer_->copied_bytes();
        report_.probe_ms = clock.passed_ms();
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

    Device& device_;
    const OutOfCoreSpec spec_;
    const JoinShape shape_;
    const uint64_t build_rows_max_;
    CopyRing ring_;
    Allocation totals_;
    Published published_;
    Allocation group_rows_;
    std::unique_ptr<ResultWriter> writer_;
    std::unique_ptr<SlotTable> table_;
    OutOfCoreReport report_;
};

}  // namespace

std::unique_ptr<FarJoin> open_stream_probe(Device& device, const FarJoinSpec& spec) {
    return std::make_unique<TableJoin>(device, spec, SlotTable::Hashing::kLinearProbing, SlotTable::Place::kDevice);
}

std::unique_ptr<FarJoin> open_npj_far(Device& device, const FarJoinSpec& spec) {
    return std::make_unique<TableJoin>(device, spec, SlotTable::Hashing::kLinearProbing, SlotTable::Place::kSpread);
}

std::unique_ptr<FarJoin> open_npj_far_perfect(Device& device, const FarJoinSpec& spec) {
    return std::make_unique<TableJoin>(device, spec, SlotTable::Hashing::kPerfect, SlotTable::Place::kSpread);
}

}  // namespace spillway::cuda
