// SPDX-License-Identifier: Apache-2.0
#include "executor/device/deliver.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "base/bit_range.hpp"
#include "base/checked_size.hpp"
#include "base/error.hpp"
#include "base/job_control.hpp"
#include "base/parallel.hpp"
#include "device/gpu_table.hpp"
#include "executor/arrow_buffers.hpp"
#include "executor/device/staging.hpp"
#include "memory/buffer.hpp"

namespace spillway {

namespace {

constexpr const char* kPurpose = "result batches";

// Views are planned but come out as offsets and bytes.
TypePtr delivered_type(const TypePtr& planned) {
    if (planned->layout != Layout::kView) return planned;
    ColumnType type = *planned;
    type.layout = Layout::kBinary;
    type.byte_width = sizeof(int32_t);
    return std::make_shared<const ColumnType>(std::move(type));
}

uint32_t gpu_width(const ColumnType& type) {
    if (type.layout == Layout::kBool || type.layout == Layout::kNull) return 1;
    if (type.layout == Layout::kDictionary) return sizeof(int32_t);
    return static_cast<uint32_t>(type.byte_width);
}

// One worker's way to read a table.
class TableReader {
  public:
    TableReader(const GpuTable& table, StagingMemory& memory, const JobControl& control, uint64_t half_bytes)
        : table_(table), control_(control), budget_(memory.budget()), staging_(memory, half_bytes) {}

    // Copies a range to host memory, where later reads inside it find it: for many small ones.
    void hold(size_t column, cuda::ColumnPart part, uint64_t offset_bytes, uint64_t bytes) {
        Held& held = held_[{column, part}];
        held.bytes = 0;
        if (held.memory.capacity() < bytes) held.memory = Buffer::allocate(budget_, bytes, "rows of result batches");
        copy(column, part, offset_bytes, bytes, held.memory.data());
        held.offset_bytes = offset_bytes;
        held.bytes = bytes;
    }

    // Calls use(bytes, count) for consecutive pieces of the range, each while the next one is being copied.
    template <class Use>
    void read(size_t column, cuda::ColumnPart part, uint64_t offset_bytes, uint64_t bytes, Use use) {
        if (const uint8_t* const held = find_held(column, part, offset_bytes, bytes)) return use(held, bytes);
        size_t half = 0;
        uint64_t sent = 0;
        GpuTransfer transfer = begin(column, part, offset_bytes, bytes, sent, half);
        for (uint64_t done = 0; done < bytes;) {
            const uint64_t count = sent - done;
            const uint8_t* const piece = staging_.half(half);
            half = 1 - half;
            GpuTransfer next = begin(column, part, offset_bytes, bytes, sent, half);
            transfer.wait();
            use(piece, count);
            done += count;
            transfer = std::move(next);
        }
    }

    void copy(size_t column, cuda::ColumnPart part, uint64_t offset_bytes, uint64_t bytes, uint8_t* to) {
        read(column, part, offset_bytes, bytes, [&to](const uint8_t* from, uint64_t count) {
            std::memcpy(to, from, count);
            to += count;
        });
    }

  private:
    struct Held {
        uint64_t offset_bytes = 0;
        uint64_t bytes = 0;
        Buffer memory;
    };
    const uint8_t* find_held(size_t column, cuda::ColumnPart part, uint64_t offset_bytes, uint64_t bytes) const {
        if (bytes == 0) return nullptr;
        const auto found = held_.find({column, part});
        if (found == held_.end()) return nullptr;
        const Held& held = found->second;
        if (offset_bytes < held.offset_bytes) return nullptr;
        const uint64_t at = offset_bytes - held.offset_bytes;
        return at <= held.bytes && bytes <= held.bytes - at ? held.memory.data() + at : nullptr;
    }
    GpuTransfer begin(size_t column, cuda::ColumnPart part, uint64_t offset_bytes, uint64_t bytes, uint64_t& sent,
                      size_t half) {
        const uint64_t count = std::min(staging_.half_bytes(), bytes - sent);
        if (count == 0) return {};
        const uint64_t from = offset_bytes + sent;
        sent += count;
        return device_call(control_, [&] { return table_.read(staging_.half(half), column, part, from, count); });
    }

    const GpuTable& table_;
    const JobControl& control_;
    MemoryBudget& budget_;
    DeviceStaging staging_;
    std::map<std::pair<size_t, cuda::ColumnPart>, Held> held_;
};

class Delivery {
  public:
    Delivery(const GpuTable& table, const DeliverSpec& spec, KeptPinned& pinned, BatchSink& sink, JobControl& control)
        : table_(table), pinned_(pinned), sink_(sink), budget_(pinned.budget()), control_(control) {
        for (const DeliverColumn& column : spec.columns) {
            columns_.push_back({delivered_type(column.type), column.column});
            const cuda::ColumnSpec& on_gpu = gpu_column(columns_.back());
            row_bytes_ += on_gpu.kind == cuda::ColumnKind::kBytes
                              ? static_cast<uint64_t>(columns_.back().type->byte_width)
                              : on_gpu.width;
        }
        const BatchSize size = sink.batch_size();
        batch_bytes_ = std::max<uint64_t>(size.bytes, 1);
        const uint64_t fitting = std::max<uint64_t>(batch_bytes_ / std::max<uint64_t>(row_bytes_, 1), 1);
        batch_rows_ = std::max<uint64_t>(std::min(static_cast<uint64_t>(size.rows), fitting), 1);
        const uint64_t turns = table.rows() / batch_rows_ + 1;
        workers_ = static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(std::max(spec.workers, 1)), turns));
        half_bytes_ = half_bytes_of(spec.staging_bytes / static_cast<uint64_t>(workers_) / 2);
        // Small batches are cut from rows that are copied together, as long as there is a share for each worker.
        const uint64_t together = half_bytes_ / std::max<uint64_t>(row_bytes_, 1) / batch_rows_;
        const uint64_t share = turns / static_cast<uint64_t>(workers_);
        holds_ = std::min(together, share) > 1;
        turn_rows_ = batch_rows_ * std::max<uint64_t>(std::min(together, share), 1);
    }

    void run() {
        StagingMemory memory(pinned_, multiply_or_max(2 * static_cast<uint64_t>(workers_), half_bytes_));
        parallel_run(
            workers_, [&](int worker) { send_turns(worker, memory); },
            [this] { control_.cancelled.store(true, std::memory_order_relaxed); });
    }

  private:
    struct Column {
        TypePtr type;
        int32_t column;
    };
    // Memory of one worker: offsets of a turn's strings (empty for other columns), and a batch's NULL bits.
    struct Scratch {
        explicit Scratch(size_t columns) : offsets(columns) {}
        std::vector<Buffer> offsets;
        Buffer bits;
        const uint64_t* offsets_of(size_t column) const {
            return offsets[column].empty() ? nullptr : reinterpret_cast<const uint64_t*>(offsets[column].data());
        }
    };

    const cuda::ColumnSpec& gpu_column(const Column& column) const {
        return table_.columns()[static_cast<size_t>(column.column)];
    }
    bool is_bytes(size_t index) const { return gpu_column(columns_[index]).kind == cuda::ColumnKind::kBytes; }

    void send_turns(int worker, StagingMemory& memory) {
        TableReader reader(table_, memory, control_, half_bytes_);
        Scratch scratch(columns_.size());
        for (uint64_t turn = next_++; turn * turn_rows_ < table_.rows(); turn = next_++) {
            control_.check();
            const uint64_t begin = turn * turn_rows_;
            const uint64_t rows = std::min(turn_rows_, table_.rows() - begin);
            for (size_t i = 0; i < columns_.size(); ++i) {
                if (!is_bytes(i)) continue;
                const uint64_t bytes = (rows + 1) * sizeof(uint64_t);
                reader.copy(static_cast<size_t>(columns_[i].column), cuda::ColumnPart::kOffsets,
                            begin * sizeof(uint64_t), bytes, room(scratch.offsets[i], bytes));
            }
            if (holds_) hold(reader, scratch, begin, rows);
            for (uint64_t done = 0; done < rows;) {
                const uint64_t part = rows_that_fit(scratch, done, std::min(rows - done, batch_rows_));
                sink_.push(worker, batch_of(reader, scratch, begin, done, part));
                done += part;
            }
        }
    }

    void hold(TableReader& reader, const Scratch& scratch, uint64_t begin, uint64_t rows) {
        for (size_t i = 0; i < columns_.size(); ++i) {
            const auto from = static_cast<size_t>(columns_[i].column);
            const cuda::ColumnSpec& column = gpu_column(columns_[i]);
            const uint64_t* const offsets = scratch.offsets_of(i);
            const uint64_t bytes = is_bytes(i) ? offsets[rows] - offsets[0] : rows * column.width;
            // Long strings are as well read batch by batch.
            if (bytes <= half_bytes_) {
                reader.hold(from, cuda::ColumnPart::kValues, is_bytes(i) ? offsets[0] : begin * column.width, bytes);
            }
            if (!column.nullable) continue;
            reader.hold(from, cuda::ColumnPart::kValidity, begin / 8, (begin + rows + 7) / 8 - begin / 8);
        }
    }

    uint8_t* room(Buffer& buffer, uint64_t bytes) {
        buffer.renew(budget_, bytes, kPurpose);
        return buffer.data();
    }

    // How many rows of the turn from `row` on make a batch: one at least.
    uint64_t rows_that_fit(const Scratch& scratch, uint64_t row, uint64_t rows) const {
        const auto fits = [&](uint64_t count) {
            uint64_t bytes = count * row_bytes_;
            for (size_t i = 0; i < columns_.size(); ++i) {
                const uint64_t* const offsets = scratch.offsets_of(i);
                if (offsets == nullptr) continue;
                const uint64_t values = offsets[row + count] - offsets[row];
                const bool narrow = columns_[i].type->byte_width == sizeof(int32_t);
                if (narrow && values > static_cast<uint64_t>(std::numeric_limits<int32_t>::max())) return false;
                bytes += values;
            }
            return bytes <= batch_bytes_;
        };
        if (fits(rows)) return rows;
        uint64_t most = 1;
        for (uint64_t exceeds = rows; exceeds - most > 1;) {
            const uint64_t middle = most + (exceeds - most) / 2;
            (fits(middle) ? most : exceeds) = middle;
        }
        return most;
    }

    OutputBatch batch_of(TableReader& reader, Scratch& scratch, uint64_t turn, uint64_t row, uint64_t rows) {
        OutputBatch batch;
        batch.rows = static_cast<int64_t>(rows);
        for (size_t i = 0; i < columns_.size(); ++i) {
            control_.check();
            OutputColumn column;
            column.type = columns_[i].type;
            column.length = batch.rows;
            if (column.type->layout == Layout::kNull) {
                column.null_count = batch.rows;
            } else {
                read_validity(reader, scratch.bits, i, turn + row, rows, column);
                if (is_bytes(i)) {
                    read_bytes(reader, i, scratch.offsets_of(i) + row, rows, column);
                } else {
                    read_values(reader, i, turn + row, rows, column);
                }
            }
            batch.columns.push_back(std::move(column));
        }
        return batch;
    }

    void read_validity(TableReader& reader, Buffer& bits, size_t index, uint64_t row, uint64_t rows,
                       OutputColumn& column) {
        if (!gpu_column(columns_[index]).nullable || rows == 0) return;
        const uint64_t first = row / 8;
        const uint64_t bytes = (row + rows + 7) / 8 - first;
        uint8_t* const valid = room(bits, bytes);
        reader.copy(static_cast<size_t>(columns_[index].column), cuda::ColumnPart::kValidity, first, bytes, valid);
        const auto bit = static_cast<int64_t>(row % 8);
        column.null_count = column.length - count_set_bits(valid, bit, column.length);
        if (column.null_count == 0) return;
        column.validity = padded_buffer(budget_, (rows + 7) / 8);
        copy_bits_aligned(valid, bit, column.length, column.validity.data());
    }

    void read_values(TableReader& reader, size_t index, uint64_t row, uint64_t rows, OutputColumn& column) {
        const uint64_t width = gpu_column(columns_[index]).width;
        const auto from = static_cast<size_t>(columns_[index].column);
        if (column.type->layout != Layout::kBool) {
            column.data = padded_buffer(budget_, rows * width);
            return reader.copy(from, cuda::ColumnPart::kValues, row * width, rows * width, column.data.data());
        }
        column.data = padded_buffer(budget_, (rows + 7) / 8);
        std::memset(column.data.data(), 0, column.data.size());
        int64_t at = 0;
        reader.read(from, cuda::ColumnPart::kValues, row, rows, [&](const uint8_t* bytes, uint64_t count) {
            for (uint64_t i = 0; i < count; ++i, ++at) {
                if (bytes[i] != 0) set_bit(column.data.data(), at);
            }
        });
    }

    void read_bytes(TableReader& reader, size_t index, const uint64_t* offsets, uint64_t rows, OutputColumn& column) {
        const auto width = static_cast<uint64_t>(column.type->byte_width);
        column.offsets = padded_buffer(budget_, (rows + 1) * width);
        for (uint64_t i = 0; i <= rows; ++i) {
            const uint64_t offset = offsets[i] - offsets[0];  // little-endian: the low bytes come first
            std::memcpy(column.offsets.data() + i * width, &offset, width);
        }
        const uint64_t bytes = offsets[rows] - offsets[0];
        column.data = padded_buffer(budget_, bytes);
        reader.copy(static_cast<size_t>(columns_[index].column), cuda::ColumnPart::kValues, offsets[0], bytes,
                    column.data.data());
    }

    const GpuTable& table_;
    KeptPinned& pinned_;
    BatchSink& sink_;
    MemoryBudget& budget_;
    JobControl& control_;
    std::vector<Column> columns_;
    uint64_t row_bytes_ = 0;  // without the bytes of strings
    uint64_t batch_bytes_ = 0;
    uint64_t batch_rows_ = 1;
    uint64_t turn_rows_ = 1;  // copied by a worker before it takes others
    bool holds_ = false;
    uint64_t half_bytes_ = 0;
    int workers_ = 1;
    std::atomic<uint64_t> next_{0};
};

}  // namespace

bool can_deliver(const cuda::ColumnSpec& column, const ColumnType& type) {
    if (type.is_nested()) return false;
    if (type.is_bytes()) return column.kind == cuda::ColumnKind::kBytes;
    return column.kind == cuda::ColumnKind::kFixed && column.width == gpu_width(type);
}

uint64_t deliver_table(const GpuTable& table, const DeliverSpec& spec, KeptPinned& pinned, BatchSink& sink,
                       JobControl& control) {
    if (!sink.wants_columns()) {
        sink.add_rows(0, table.rows());
        return table.rows();
    }
    for (const DeliverColumn& column : spec.columns) {
        SPILLWAY_CHECK(static_cast<size_t>(column.column) < table.columns().size());
        SPILLWAY_CHECK(can_deliver(table.columns()[static_cast<size_t>(column.column)], *column.type));
    }
    Delivery(table, spec, pinned, sink, control).run();
    return table.rows();
}

}  // namespace spillway
