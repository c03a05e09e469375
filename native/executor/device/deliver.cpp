// SPDX-License-Identifier: Apache-2.0
#include "executor/device/deliver.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "base/bit_range.hpp"
#include "base/checked_size.hpp"
#include "base/error.hpp"
#include "base/job_control.hpp"
#include "base/parallel.hpp"
#include "device/gpu_lane.hpp"
#include "device/gpu_table.hpp"
#include "device/value_packing.hpp"
#include "executor/device/staging.hpp"
#include "memory/batch_memory.hpp"
#include "memory/buffer.hpp"

namespace spillway {

namespace {

constexpr const char* kPurpose = "result batches";
// Batches that are read together: what a few rows take of memory is the batch, not its bytes.
constexpr size_t kBatchesTogether = 64;
// Batches of so many bytes leave the cache before they are read.
constexpr uint64_t kPastCachesBytesMin = 1ULL << 20;

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

// Bytes of a part of a column and where they go.
struct Read {
    size_t column = 0;
    cuda::ColumnPart part = cuda::ColumnPart::kValues;
    uint64_t offset_bytes = 0;
    uint64_t bytes = 0;
    uint8_t* to = nullptr;
    uint32_t packed_width = 0;  // of values that cross the link packed; 0: bytes as they are
    bool as_bits = false;       // a bit for each byte
};

// One worker's way to read a table: whatever it wants, half of its pinned memory at a time, while the half before is
// copied to where it goes.
class TableReader {
  public:
    TableReader(const GpuTable& table, StagingMemory& memory, const JobControl& control, uint64_t half_bytes)
        : table_(table),
          control_(control),
          lane_(device_call(control, [&] { return GpuLane::open(memory.device()); })),
          staging_(memory, lane_, 0, half_bytes) {}

    void read(const std::vector<Read>& wanted) {
        size_t next = 0;
        uint64_t done = 0;  // of the next one
        for (;;) {
            std::vector<Portion>& portions = portions_[half_];
            take_portions(wanted, next, done, portions);
            if (!portions.empty()) fetch(portions);
            turn();
            if (portions.empty() && next == wanted.size()) break;
        }
    }
    uint64_t sent_bytes() const { return sent_bytes_; }
    void write_past_caches(bool past) { past_caches_ = past; }

  private:
    struct Portion {
        Read read;
        uint8_t* host = nullptr;
        cuda::PackedBlock* blocks = nullptr;
    };

    // As much as the half has room for.
    void take_portions(const std::vector<Read>& wanted, size_t& next, uint64_t& done, std::vector<Portion>& portions) {
        portions.clear();
        while (next < wanted.size()) {
            const Read& all = wanted[next];
            if (done == all.bytes) {
                ++next;
                done = 0;
                continue;
            }
            Portion portion;
            portion.read = all;
            portion.read.offset_bytes += done;
            portion.read.to += all.as_bits ? done / 8 : done;
            portion.read.bytes = all.bytes - done;
            if (!place(portion)) return;
            done += portion.read.bytes;
            portions.push_back(portion);
        }
    }

    // Room for the portion, or for the first part of it; false: there is none.
    bool place(Portion& portion) {
        Read& read = portion.read;
        if (read.packed_width > 0 && staging_.is_pinned()) return place_packed(portion);
        read.packed_width = 0;
        if (staging_.left() < 2 * LaneStaging::kAlignBytes) return false;
        // Whole bytes of bits, and whole words of what follows.
        uint64_t most = staging_.left() - LaneStaging::kAlignBytes;
        if (read.bytes > most) read.bytes = most / LaneStaging::kAlignBytes * LaneStaging::kAlignBytes;
        portion.host = staging_.take(read.bytes, read.offset_bytes);
        SPILLWAY_CHECK(portion.host != nullptr);
        return true;
    }

    bool place_packed(Portion& portion) {
        Read& read = portion.read;
        const uint64_t block_bytes = uint64_t{cuda::kPackedValues} * read.packed_width;
        const uint64_t header_bytes = cuda::packed_planes(read.packed_width) * sizeof(cuda::PackedBlock);
        const uint64_t gaps = 2 * LaneStaging::kAlignBytes;
        if (staging_.left() < gaps) return false;
        const uint64_t fitting = (staging_.left() - gaps) / (block_bytes + header_bytes);
        if (fitting == 0) return false;
        const uint64_t blocks = std::min(fitting, (read.bytes + block_bytes - 1) / block_bytes);
        read.bytes = std::min(read.bytes, blocks * block_bytes);
        portion.host = staging_.take(blocks * block_bytes, 0);
        uint8_t* const headers = staging_.take(blocks * header_bytes, 0);
        SPILLWAY_CHECK(portion.host != nullptr && headers != nullptr);
        portion.blocks = reinterpret_cast<cuda::PackedBlock*>(headers);
        return true;
    }

    void fetch(const std::vector<Portion>& portions) {
        std::vector<cuda::TableCopy> copies;
        for (const Portion& portion : portions) {
            cuda::TableCopy copy;
            copy.column = static_cast<uint32_t>(portion.read.column);
            copy.part = portion.read.part;
            copy.packed = portion.blocks != nullptr;
            copy.offset_bytes = portion.read.offset_bytes;
            copy.bytes = portion.read.bytes;
            copy.host = portion.host;
            copy.blocks = portion.blocks;
            copies.push_back(copy);
        }
        device_call(control_, [&] { lane_.fetch(staging_.slot(), table_, copies); });
    }

    // To the other half, whose portions have come.
    void turn() {
        half_ = 1 - half_;
        staging_.turn();
        for (const Portion& portion : portions_[half_]) use(portion);
        portions_[half_].clear();
    }

    void use(const Portion& portion) {
        const Read& read = portion.read;
        if (portion.blocks != nullptr) {
            const uint64_t values = read.bytes / read.packed_width;
            unpack_column(portion.blocks, portion.host, read.packed_width, values, read.to, past_caches_);
            const uint64_t blocks = (values + cuda::kPackedValues - 1) / cuda::kPackedValues;
            for (uint64_t i = 0; i < blocks * cuda::packed_planes(read.packed_width); ++i) {
                sent_bytes_ += cuda::packed_bytes(portion.blocks[i].bits) + sizeof(cuda::PackedBlock);
            }
            return;
        }
        sent_bytes_ += read.bytes;
        if (!read.as_bits) {
            std::memcpy(read.to, portion.host, read.bytes);
            return;
        }
        for (uint64_t i = 0; i < read.bytes; ++i) {
            if (portion.host[i] != 0) set_bit(read.to, static_cast<int64_t>(i));
        }
    }

    const GpuTable& table_;
    const JobControl& control_;
    GpuLane lane_;
    LaneStaging staging_;
    std::array<std::vector<Portion>, 2> portions_;
    size_t half_ = 0;
    bool past_caches_ = false;
    uint64_t sent_bytes_ = 0;
};

class Delivery {
  public:
    Delivery(const GpuTable& table, const DeliverSpec& spec, KeptPinned& pinned, BatchSink& sink, JobControl& control)
        : table_(table),
          pinned_(pinned),
          sink_(sink),
          budget_(pinned.budget()),
          control_(control),
          packed_(spec.packed) {
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
        const uint64_t batches = table.rows() / batch_rows_ + 1;
        workers_ = static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(std::max(spec.workers, 1)), batches));
        half_bytes_ = half_bytes_of(spec.staging_bytes / static_cast<uint64_t>(workers_) / 2);
        // Small batches are read together, as long as there is a share for each worker.
        const uint64_t together = half_bytes_ / std::max<uint64_t>(row_bytes_, 1) / batch_rows_;
        const uint64_t share = batches / static_cast<uint64_t>(workers_);
        turn_rows_ = batch_rows_ * std::max<uint64_t>(std::min(together, share), 1);
    }

    Delivered run() {
        StagingMemory memory(pinned_, multiply_or_max(2 * static_cast<uint64_t>(workers_), half_bytes_));
        parallel_run(
            workers_, [&](int worker) { send_turns(worker, memory); },
            [this] { control_.cancelled.store(true, std::memory_order_relaxed); });
        return {table_.rows(), sent_bytes_.load()};
    }

  private:
    struct Column {
        TypePtr type;
        int32_t column;
    };
    // Of the turn of one worker: offsets of strings and NULL bits (empty for other columns), and batches that are made.
    struct Turn {
        explicit Turn(size_t columns) : offsets(columns), bits(columns) {}
        uint64_t begin = 0;
        uint64_t rows = 0;
        std::vector<Buffer> offsets;
        std::vector<Buffer> bits;
        std::vector<OutputBatch> batches;
        std::vector<Read> reads;  // of their values
        uint64_t bytes = 0;       // that these have
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
        reader.write_past_caches(batch_bytes_ >= kPastCachesBytesMin);
        Turn turn(columns_.size());
        for (uint64_t next = next_++; next * turn_rows_ < table_.rows(); next = next_++) {
            control_.check();
            turn.begin = next * turn_rows_;
            turn.rows = std::min(turn_rows_, table_.rows() - turn.begin);
            read_structure(reader, turn);
            for (uint64_t done = 0; done < turn.rows;) {
                const uint64_t part = rows_that_fit(turn, done, std::min(turn.rows - done, batch_rows_));
                begin_batch(turn, done, part);
                done += part;
                // Long strings make more batches of a turn than there is memory for.
                const bool full = turn.bytes >= std::max(half_bytes_, batch_bytes_);
                if (full || turn.batches.size() == kBatchesTogether || done == turn.rows) {
                    control_.check();
                    send_batches(worker, reader, turn);
                }
            }
        }
        sent_bytes_.fetch_add(reader.sent_bytes(), std::memory_order_relaxed);
    }

    void send_batches(int worker, TableReader& reader, Turn& turn) {
        reader.read(turn.reads);
        turn.reads.clear();
        turn.bytes = 0;
        for (OutputBatch& batch : turn.batches) sink_.push(worker, std::move(batch));
        turn.batches.clear();
    }

    // What tells where values are, and which are there.
    void read_structure(TableReader& reader, Turn& turn) {
        std::vector<Read> reads;
        for (size_t i = 0; i < columns_.size(); ++i) {
            Read read;
            read.column = static_cast<size_t>(columns_[i].column);
            if (is_bytes(i)) {
                read.part = cuda::ColumnPart::kOffsets;
                read.offset_bytes = turn.begin * sizeof(uint64_t);
                read.bytes = (turn.rows + 1) * sizeof(uint64_t);
                read.to = room(turn.offsets[i], read.bytes);
                reads.push_back(read);
            }
            if (!gpu_column(columns_[i]).nullable || columns_[i].type->layout == Layout::kNull) continue;
            read.part = cuda::ColumnPart::kValidity;
            read.offset_bytes = turn.begin / 8;
            read.bytes = (turn.begin + turn.rows + 7) / 8 - read.offset_bytes;
            read.to = room(turn.bits[i], read.bytes);
            reads.push_back(read);
        }
        if (!reads.empty()) reader.read(reads);
    }

    uint8_t* room(Buffer& buffer, uint64_t bytes) {
        buffer.renew(budget_, bytes, kPurpose);
        return buffer.data();
    }

    // How many rows of the turn from `row` on make a batch: one at least.
    uint64_t rows_that_fit(const Turn& turn, uint64_t row, uint64_t rows) const {
        const auto fits = [&](uint64_t count) {
            uint64_t bytes = count * row_bytes_;
            for (size_t i = 0; i < columns_.size(); ++i) {
                const uint64_t* const offsets = turn.offsets_of(i);
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

    // A batch of these rows of the turn, complete but for values, which are still to be read.
    void begin_batch(Turn& turn, uint64_t row, uint64_t rows) {
        OutputBatch batch;
        batch.rows = static_cast<int64_t>(rows);
        uint64_t bytes = 0;
        for (size_t i = 0; i < columns_.size(); ++i) {
            OutputColumn column;
            column.type = columns_[i].type;
            column.length = batch.rows;
            count_nulls(turn, i, row, column);
            bytes = add_or_max(bytes, memory_bytes(turn, i, row, column));
            batch.columns.push_back(std::move(column));
        }
        BatchMemory memory(budget_, bytes);
        for (size_t i = 0; i < columns_.size(); ++i) {
            OutputColumn& column = batch.columns[i];
            if (column.type->layout == Layout::kNull) continue;
            add_validity(turn, i, row, column, memory);
            if (is_bytes(i)) {
                add_bytes(turn, i, turn.offsets_of(i) + row, column, memory);
            } else {
                add_values(turn, i, turn.begin + row, column, memory);
            }
        }
        batch.memory = memory.take_block();
        turn.batches.push_back(std::move(batch));
    }

    void count_nulls(const Turn& turn, size_t index, uint64_t row, OutputColumn& column) const {
        if (column.type->layout == Layout::kNull) {
            column.null_count = column.length;
        } else if (gpu_column(columns_[index]).nullable && column.length > 0) {
            const auto bit = static_cast<int64_t>(turn.begin % 8 + row);
            column.null_count = column.length - count_set_bits(turn.bits[index].data(), bit, column.length);
        }
    }

    // What a column takes of the memory of its batch: all that add_validity(), add_values() and add_bytes() make.
    uint64_t memory_bytes(const Turn& turn, size_t index, uint64_t row, const OutputColumn& column) const {
        if (column.type->layout == Layout::kNull) return 0;
        const auto rows = static_cast<uint64_t>(column.length);
        const uint64_t bits = BatchMemory::padded((rows + 7) / 8);
        uint64_t bytes = column.null_count > 0 ? bits : 0;
        if (is_bytes(index)) {
            const uint64_t* const offsets = turn.offsets_of(index) + row;
            bytes += BatchMemory::padded((rows + 1) * static_cast<uint64_t>(column.type->byte_width));
            return add_or_max(bytes, BatchMemory::padded(offsets[rows] - offsets[0]));
        }
        if (column.type->layout == Layout::kBool) return bytes + bits;
        return bytes + BatchMemory::padded(rows * gpu_column(columns_[index]).width);
    }

    void add_validity(const Turn& turn, size_t index, uint64_t row, OutputColumn& column, BatchMemory& memory) const {
        if (column.null_count == 0) return;
        const auto bit = static_cast<int64_t>(turn.begin % 8 + row);
        column.validity = memory.take_padded((static_cast<uint64_t>(column.length) + 7) / 8);
        copy_bits_aligned(turn.bits[index].data(), bit, column.length, column.validity.data());
    }

    void add_values(Turn& turn, size_t index, uint64_t row, OutputColumn& column, BatchMemory& memory) const {
        const auto rows = static_cast<uint64_t>(column.length);
        Read read;
        read.column = static_cast<size_t>(columns_[index].column);
        const uint64_t width = gpu_column(columns_[index]).width;
        read.offset_bytes = row * width;
        read.bytes = rows * width;
        if (column.type->layout == Layout::kBool) {
            read.as_bits = true;
            column.data = memory.take_padded((rows + 7) / 8);
            std::memset(column.data.data(), 0, column.data.size());
        } else {
            // A block takes the link as long as it has bits, however few values it has.
            const bool has_block = rows >= cuda::kPackedValues;
            if (packed_ && has_block && cuda::can_pack(static_cast<uint32_t>(width))) {
                read.packed_width = static_cast<uint32_t>(width);
            }
            column.data = memory.take_padded(read.bytes);
        }
        add(turn, read, column.data.data());
    }

    void add_bytes(Turn& turn, size_t index, const uint64_t* offsets, OutputColumn& column, BatchMemory& memory) const {
        const auto rows = static_cast<uint64_t>(column.length);
        const auto width = static_cast<uint64_t>(column.type->byte_width);
        column.offsets = memory.take_padded((rows + 1) * width);
        for (uint64_t i = 0; i <= rows; ++i) {
            const uint64_t offset = offsets[i] - offsets[0];  // little-endian: the low bytes come first
            std::memcpy(column.offsets.data() + i * width, &offset, width);
        }
        Read read;
        read.column = static_cast<size_t>(columns_[index].column);
        read.offset_bytes = offsets[0];
        read.bytes = offsets[rows] - offsets[0];
        column.data = memory.take_padded(read.bytes);
        add(turn, read, column.data.data());
    }

    static void add(Turn& turn, Read& read, uint8_t* to) {
        if (read.bytes == 0) return;
        read.to = to;
        turn.bytes += read.bytes;
        turn.reads.push_back(read);
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
    const bool packed_;
    uint64_t half_bytes_ = 0;
    int workers_ = 1;
    std::atomic<uint64_t> next_{0};
    std::atomic<uint64_t> sent_bytes_{0};
};

}  // namespace

bool can_deliver(const cuda::ColumnSpec& column, const ColumnType& type) {
    if (type.is_nested()) return false;
    if (type.is_bytes()) return column.kind == cuda::ColumnKind::kBytes;
    return column.kind == cuda::ColumnKind::kFixed && column.width == gpu_width(type);
}

Delivered deliver_table(const GpuTable& table, const DeliverSpec& spec, KeptPinned& pinned, BatchSink& sink,
                        JobControl& control) {
    if (!sink.wants_columns()) {
        sink.add_rows(0, table.rows());
        return {table.rows(), 0};
    }
    for (const DeliverColumn& column : spec.columns) {
        SPILLWAY_CHECK(static_cast<size_t>(column.column) < table.columns().size());
        SPILLWAY_CHECK(can_deliver(table.columns()[static_cast<size_t>(column.column)], *column.type));
    }
    return Delivery(table, spec, pinned, sink, control).run();
}

}  // namespace spillway
