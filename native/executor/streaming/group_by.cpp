// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/group_by.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bitmap.hpp"
#include "base/error.hpp"
#include "base/nearest_mean.hpp"
#include "cuda/memory_model/stream_memory.hpp"
#include "executor/arrow_buffers.hpp"
#include "executor/streaming/chunk_feeder.hpp"
#include "executor/streaming/phase.hpp"
#include "executor/streaming/result_blocks.hpp"
#include "executor/streaming/spill_disk.hpp"
#include "memory/memory_budget.hpp"
#include "model/output_batch.hpp"

namespace spillway {

namespace {

// Where the groups of a batch begin in each output column of the GPU.
struct GroupOutputs {
    const std::vector<uint32_t>& widths;
    const std::vector<const uint8_t*>& data;
    int32_t null_byte = -1;  // of the key: the bits of keys that are NULL
};

class GroupValues {
  public:
    GroupValues(const GroupResultColumn& column, const GroupOutputs& outputs, const std::string& name)
        : column_(column), outputs_(outputs), name_(name), width_(chunk_width(*column.type)) {}

    OutputColumn make(uint64_t rows, MemoryBudget& budget) const {
        OutputColumn made;
        made.type = column_.type;
        made.length = static_cast<int64_t>(rows);
        make_validity(made, rows, budget);
        const bool bits = column_.type->layout == Layout::kBool;
        made.data = padded_buffer(budget, bits ? (rows + 7) / 8 : rows * width_);
        if (bits) std::memset(made.data.data(), 0, made.data.size());
        for (uint64_t row = 0; row < rows; ++row) {
            if (is_null(row)) {
                if (!bits) std::memset(made.data.data() + row * width_, 0, width_);
            } else if (bits) {
                if (*at(column_.value, row) != 0) set_bit(made.data.data(), static_cast<int64_t>(row));
            } else {
                write_value(row, made.data.data() + row * width_);
            }
        }
        return made;
    }

  private:
    const uint8_t* at(int32_t output, uint64_t row) const {
        const auto index = static_cast<size_t>(output);
        const uint32_t offset = output == column_.value ? column_.offset : 0;
        return outputs_.data[index] + row * outputs_.widths[index] + offset;
    }
    uint64_t word(int32_t output, uint64_t row) const {
        uint64_t value = 0;
        std::memcpy(&value, at(output, row), sizeof value);
        return value;
    }

    bool may_be_null() const { return column_.present >= 0 || (column_.key >= 0 && outputs_.null_byte >= 0); }
    bool is_null(uint64_t row) const {
        if (column_.key >= 0 && outputs_.null_byte >= 0) {
            const uint64_t key = row * outputs_.widths[0] + static_cast<uint64_t>(outputs_.null_byte);
            if ((outputs_.data[0][key] >> column_.key & 1) != 0) return true;
        }
        if (column_.present < 0) return false;
        const auto index = static_cast<size_t>(column_.present);
        const uint32_t width = outputs_.widths[index];
        const uint8_t* const first = outputs_.data[index] + row * width;
        return std::all_of(first, first + width, [](uint8_t byte) { return byte == 0; });
    }

    void make_validity(OutputColumn& made, uint64_t rows, MemoryBudget& budget) const {
        if (!may_be_null()) return;
        made.validity = padded_buffer(budget, (rows + 7) / 8);
        std::memset(made.validity.data(), 0, made.validity.size());
        uint64_t valid_count = 0;
        for (uint64_t row = 0; row < rows; ++row) {
            if (is_null(row)) continue;
            set_bit(made.validity.data(), static_cast<int64_t>(row));
            ++valid_count;
        }
        made.null_count = static_cast<int64_t>(rows - valid_count);
        if (made.null_count == 0) made.validity = Buffer();
    }

    double float_sum(uint64_t row) const {
        double sum = 0;
        std::memcpy(&sum, at(column_.value, row), sizeof sum);
        return sum;
    }
    // A sum in two parts is that of at most 2^63 rows. Without a second part the GPU has seen to it that the sum fits
    // 64 bits.
    __int128 integer_sum(uint64_t row) const {
        const bool is_signed = column_.number == cuda::ValueKind::kSigned;
        const auto extended = [&](uint64_t value) {
            return is_signed ? static_cast<__int128>(static_cast<int64_t>(value)) : static_cast<__int128>(value);
        };
        const uint64_t low = word(column_.value, row);
        if (column_.high < 0) return extended(low);
        return extended(word(column_.high, row)) * (__int128{1} << 32) + static_cast<__int128>(low);
    }

    double mean_of(uint64_t row, uint64_t count) const {
        if (column_.number == cuda::ValueKind::kFloat) return float_sum(row) / static_cast<double>(count);
        return nearest_mean(integer_sum(row), count, column_.decimal_scale);
    }

    void write_value(uint64_t row, uint8_t* out) const {
        switch (column_.kind) {
            case GroupResultKind::kCopy:
                std::memcpy(out, at(column_.value, row), width_);
                return;
            case GroupResultKind::kSum:
                if (column_.number != cuda::ValueKind::kFloat) return write_sum(integer_sum(row), out);
                std::memcpy(out, at(column_.value, row), sizeof(double));
                return;
            case GroupResultKind::kMean: {
                const double mean = mean_of(row, word(column_.count, row));
                std::memcpy(out, &mean, sizeof mean);
                return;
            }
        }
    }

    void write_sum(__int128 sum, uint8_t* out) const {
        if (width_ == sizeof sum) {
            std::memcpy(out, &sum, sizeof sum);
            return;
        }
        const bool is_unsigned = column_.type->order == Order::kUnsigned;
        const __int128 low = is_unsigned ? 0 : std::numeric_limits<int64_t>::min();
        const __int128 high = is_unsigned ? static_cast<__int128>(std::numeric_limits<uint64_t>::max())
                                          : static_cast<__int128>(std::numeric_limits<int64_t>::max());
        if (sum < low || sum > high) {
            throw Error(ErrorCode::kIntegerOverflow,
                        "the sum of column '" + name_ + "' does not fit " + (is_unsigned ? "uint64" : "int64") +
                            " for one group; cast the column to float64 or to a wider decimal before grouping",
                        {{"column", name_}});
        }
        const auto bits = static_cast<uint64_t>(sum);
        std::memcpy(out, &bits, sizeof bits);
    }

    const GroupResultColumn& column_;
    const GroupOutputs& outputs_;
    const std::string& name_;
    const uint32_t width_;
};

// Makes a column of a result batch as native/cpu/group_by would. name: of the aggregated column. Throws
// kIntegerOverflow for a sum that does not fit its type.
OutputColumn group_result_column(const GroupResultColumn& column, const GroupOutputs& outputs, uint64_t rows,
                                 const std::string& name, MemoryBudget& budget) {
    return GroupValues(column, outputs, name).make(rows, budget);
}

std::vector<uint32_t> widths_of(const cuda::StagedGroupBySpec& group) {
    const auto widths = group.output_widths();
    return {widths.begin(), widths.end()};
}

class OutOfCoreGroup {
  public:
    OutOfCoreGroup(Source& source, const OutOfCoreGroupStage& stage, KeptPinned& pinned, const DevicePause& pause,
                   BatchSink* sink, JobControl& control, const std::shared_ptr<SpillSpace>& space)
        : source_(source),
          stage_(stage),
          budget_(pinned.budget()),
          control_(control),
          sink_(sink),
          widths_(widths_of(stage.group)),
          columns_(source, stage.side, {stage.group.key_bytes}, stage.group.sizes.chunk_rows),
          spill_(pinned.reserve(pinned_spill_bytes(stage.group.sizes), "groups that the GPU spills")),
          ring_(pinned, ring_slots(), columns_.chunk_bytes()) {
        if (sink != nullptr) blocks_.emplace(pinned, form(), *sink, control, pause);
        if (space != nullptr && stage.group.sizes.disk_blocks > 0) disk_.emplace(space, control);
        group_by_ = GpuStream::begin(pinned.device(), stage.group, disk_ ? &*disk_ : nullptr);
    }

    cuda::StreamReport run() {
        cuda::StreamReport report;
        ResultBlocks* const blocks = blocks_ ? &*blocks_ : nullptr;
        ChunkFeeder feeder(source_, columns_, ring_, stage_.group.sizes.chunk_rows, budget_, control_);
        run_phase(feeder, blocks, stage_.workers, control_, {}, [&] {
            report = group_by_.run(0, feeder, blocks);
            // The last groups may wait for a reader who needs the memory of both before he reads on.
            group_by_.reset();
            disk_.reset();
            spill_.release();
        });
        if (stage_.side.keys.empty() && report.result_rows == 0) give_empty_group(report);
        return report;
    }

    bool gave_rows() const { return blocks_ && blocks_->gave_rows(); }

  private:
    // Small relations have no use for all of them.
    uint64_t ring_slots() const {
        const uint64_t chunks = static_cast<uint64_t>(source_.rows()) / stage_.group.sizes.chunk_rows + 1;
        return std::min(stage_.group.sizes.chunk_slots + uint64_t{cuda::kHostSlots}, chunks);
    }

    std::vector<OutputColumn> columns(const std::vector<const uint8_t*>& outputs, uint64_t rows) const {
        std::vector<OutputColumn> made;
        const GroupOutputs groups{widths_, outputs, stage_.side.null_byte};
        for (const GroupResultColumn& column : stage_.columns) {
            const std::string name =
                column.column < 0 ? std::string() : source_.columns()[static_cast<size_t>(column.column)]->name;
            made.push_back(group_result_column(column, groups, rows, name, budget_));
        }
        return made;
    }

    ResultForm form() const {
        ResultForm form;
        form.block_rows = stage_.group.sizes.result_rows;
        form.slots = stage_.group.sizes.result_slots;
        form.widths = widths_;
        form.row_bytes = 0;
        for (const GroupResultColumn& column : stage_.columns) form.row_bytes += chunk_width(*column.type);
        form.columns = [this](const std::vector<const uint8_t*>& outputs, uint64_t rows) {
            return columns(outputs, rows);
        };
        return form;
    }

    // Without keys there is a group also without rows: its counts are 0, and all else is NULL.
    void give_empty_group(cuda::StreamReport& report) {
        report.result_rows = 1;
        if (sink_ == nullptr) return;
        const uint64_t zero[2] = {};
        OutputBatch batch;
        batch.rows = 1;
        batch.columns = columns(std::vector<const uint8_t*>(widths_.size(), reinterpret_cast<const uint8_t*>(zero)), 1);
        sink_->push(0, std::move(batch));
    }

    Source& source_;
    const OutOfCoreGroupStage& stage_;
    MemoryBudget& budget_;
    JobControl& control_;
    BatchSink* const sink_;
    const std::vector<uint32_t> widths_;  // of the GPU's result columns
    const ChunkColumns columns_;
    PinnedReservation spill_;
    ChunkRing ring_;
    std::optional<ResultBlocks> blocks_;
    std::optional<SpillDisk> disk_;
    // Last, so that copies have ended before their memory goes, and threads of the plugin before the disk.
    GpuStream group_by_;
};

}  // namespace

cuda::StreamReport group_out_of_core(Source& source, const OutOfCoreGroupStage& stage, KeptPinned& pinned,
                                     const DevicePause& pause, BatchSink* sink, JobControl& control,
                                     const std::shared_ptr<SpillSpace>& space) {
    const bool wants_rows = sink != nullptr && sink->wants_columns();
    std::optional<OutOfCoreGroup> group;
    cuda::StreamReport report;
    try {
        group.emplace(source, stage, pinned, pause, wants_rows ? sink : nullptr, control, space);
        report = group->run();
    } catch (const Error& error) {
        rethrow_undelivered(error, group && group->gave_rows());
    }
    if (sink == nullptr) control.rows_out.fetch_add(report.result_rows, std::memory_order_relaxed);
    if (sink != nullptr && !wants_rows) sink->add_rows(0, report.result_rows);
    return report;
}

}  // namespace spillway
