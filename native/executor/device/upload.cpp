// SPDX-License-Identifier: Apache-2.0
#include "executor/device/upload.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "base/bitmap.hpp"
#include "base/checked_size.hpp"
#include "base/error.hpp"
#include "base/parallel.hpp"
#include "cuda/memory_model/stream_memory.hpp"
#include "executor/device/staging.hpp"
#include "executor/device/upload_column.hpp"
#include "executor/source_pieces.hpp"

namespace spillway {

namespace {

constexpr int64_t kRowsUnit = 64;                // chunks begin at whole words of bitmaps
constexpr uint64_t kPieceBytesMax = 4ULL << 20;  // one worker reads no more at once, unless a single row is larger
constexpr uint64_t kPieceBytesMin = 256ULL << 10;

class Upload {
  public:
    Upload(Source& source, const UploadSpec& spec, KeptPinned& pinned, JobControl& control)
        : source_(source), pinned_(pinned), budget_(pinned.budget()), control_(control) {
        uint64_t row_bytes = 0;
        for (const UploadColumn& column : spec.columns) {
            columns_.push_back(column.column);
            plans_.push_back(upload_plan(*source.columns()[static_cast<size_t>(column.column)], column.decode));
            row_bytes += plans_.back().row_bytes() + 1;
        }
        workers_ = std::max(spec.workers, 1);
        const auto workers = static_cast<uint64_t>(workers_);
        // Each worker has memory in two halves for rows, and as much for the bytes of strings.
        const uint64_t wanted_bytes = spec.staging_bytes / workers / 4;
        half_bytes_ = std::max(half_bytes_of(wanted_bytes), row_bytes * static_cast<uint64_t>(kRowsUnit));
        // In a small budget reads are smaller than that.
        piece_bytes_ = std::clamp(2 * half_bytes_, kPieceBytesMin, kPieceBytesMax);
        const auto fitting = static_cast<int64_t>(half_bytes_ / row_bytes);
        const int64_t share = source.rows() / workers_ + 1;
        chunk_rows_ = std::max(std::min(fitting, share) / kRowsUnit * kRowsUnit, kRowsUnit);
        // One without rows, too: strings have an offset more than rows.
        chunks_ = std::max<int64_t>((source.rows() + chunk_rows_ - 1) / chunk_rows_, 1);
        workers_ = static_cast<int>(std::min<int64_t>(workers_, chunks_));
    }

    GpuTable run() {
        find_places();
        std::vector<cuda::ColumnSpec> columns;
        for (size_t i = 0; i < plans_.size(); ++i) {
            columns.push_back(plans_[i].column);
            columns.back().bytes = places_[i].empty() ? 0 : places_[i].back();
        }
        table_ = device_call(control_, [&] {
            return GpuTable::create(pinned_.device(), static_cast<uint64_t>(source_.rows()), columns);
        });
        StagingMemory memory(pinned_, multiply_or_max(2 * stagings(), half_bytes_));
        in_parallel([&](int) { send_chunks(memory); });
        return std::move(table_);
    }

  private:
    int64_t chunk_end(int64_t chunk) const { return std::min(source_.rows(), (chunk + 1) * chunk_rows_); }

    void in_parallel(const std::function<void(int)>& body) {
        next_.store(0);
        parallel_run(workers_, body, [this] { control_.cancelled.store(true, std::memory_order_relaxed); });
    }

    // places_[column][chunk]: where the bytes of the chunk's strings begin; one more for the end.
    void find_places() {
        places_.resize(plans_.size());
        bool any = false;
        for (size_t i = 0; i < plans_.size(); ++i) {
            if (!plans_[i].is_bytes()) continue;
            places_[i].assign(static_cast<size_t>(chunks_) + 1, 0);
            any = true;
        }
        if (!any) return;
        in_parallel([this](int) { measure_chunks(); });
        for (std::vector<uint64_t>& places : places_) {
            for (size_t chunk = 1; chunk < places.size(); ++chunk) {
                places[chunk] = add_or_max(places[chunk], places[chunk - 1]);
            }
        }
    }

    // places_[column][chunk + 1] = bytes of the chunk.
    void measure_chunks() {
        SourceReader reader(source_, columns_, budget_, control_);
        for (int64_t chunk = next_++; chunk < chunks_; chunk = next_++) {
            control_.check();
            for_pieces(source_, chunk * chunk_rows_, chunk_end(chunk), [&](const Piece& piece) {
                for (size_t i = 0; i < plans_.size(); ++i) {
                    if (!plans_[i].is_bytes()) continue;
                    uint64_t& bytes = places_[i][static_cast<size_t>(chunk) + 1];
                    bytes = add_or_max(bytes, bytes_of(reader, i, piece));
                }
            });
        }
    }

    uint64_t bytes_of(SourceReader& reader, size_t column, const Piece& piece) {
        if (plans_[column].form != UploadForm::kDecodedBytes) {
            return reader.value_bytes(column, piece.batch, piece.row, piece.rows);
        }
        SourceReader codes(source_, {columns_[column]}, budget_, control_);
        uint64_t bytes = 0;
        for (int64_t done = 0; done < piece.rows;) {
            const int64_t rows = codes.rows_within(piece.batch, piece.row + done, piece.rows - done, piece_bytes_);
            bytes = add_or_max(bytes, decoded_bytes(codes.read(piece.batch, piece.row + done, rows)[0], rows));
            done += rows;
        }
        return bytes;
    }

    bool any_bytes() const {
        return std::any_of(plans_.begin(), plans_.end(), [](const UploadPlan& plan) { return plan.is_bytes(); });
    }
    // All workers together have so many: each has one for rows, and one for the bytes of strings where there are any.
    uint64_t stagings() const { return static_cast<uint64_t>(workers_) * (any_bytes() ? 2 : 1); }

    // Memory of one worker.
    struct Worker {
        Worker(Upload& upload, StagingMemory& memory)
            : reader(upload.source_, upload.columns_, upload.budget_, upload.control_),
              rows(memory, upload.half_bytes_) {
            if (upload.any_bytes()) bytes = std::make_unique<DeviceStaging>(memory, upload.half_bytes_);
            for (size_t i = 0; i < upload.plans_.size(); ++i) {
                streams.push_back(upload.plans_[i].is_bytes()
                                      ? std::make_unique<ValueStream>(upload.table_, i, *bytes, upload.control_)
                                      : nullptr);
            }
            values.resize(streams.size());
            validity.resize(streams.size());
        }
        SourceReader reader;
        DeviceStaging rows;
        std::unique_ptr<DeviceStaging> bytes;
        std::vector<std::unique_ptr<ValueStream>> streams;
        std::vector<uint8_t*> values;  // of the chunk
        std::vector<uint8_t*> validity;
    };

    void send_chunks(StagingMemory& memory) {
        Worker worker(*this, memory);
        for (int64_t chunk = next_++; chunk < chunks_; chunk = next_++) {
            control_.check();
            stage_chunk(worker, chunk);
            send_chunk(worker, chunk);
        }
        worker.rows.wait_for_all();
        if (worker.bytes != nullptr) worker.bytes->wait_for_all();
    }

    void stage_chunk(Worker& worker, int64_t chunk) {
        worker.rows.turn();
        const int64_t begin = chunk * chunk_rows_;
        const int64_t rows = chunk_end(chunk) - begin;
        for (size_t i = 0; i < plans_.size(); ++i) {
            worker.values[i] = worker.rows.take(value_bytes(i, chunk));
            worker.validity[i] = worker.rows.take(validity_bytes(rows));
            std::memset(worker.validity[i], 0, validity_bytes(rows));
            if (worker.streams[i] != nullptr) worker.streams[i]->start(places_[i][static_cast<size_t>(chunk)]);
        }
        int64_t at = 0;
        for_pieces(source_, begin, begin + rows, [&](const Piece& piece) {
            for (int64_t done = 0; done < piece.rows;) {
                control_.check();
                const int64_t row = piece.row + done;
                const int64_t part = worker.reader.rows_within(piece.batch, row, piece.rows - done, piece_bytes_);
                const std::vector<ColumnView>& views = worker.reader.read(piece.batch, row, part);
                for (size_t i = 0; i < plans_.size(); ++i) {
                    stage_rows(plans_[i], views[i], part, worker.values[i], worker.validity[i], at,
                               worker.streams[i].get());
                }
                control_.rows_in.fetch_add(static_cast<uint64_t>(part), std::memory_order_relaxed);
                done += part;
                at += part;
            }
        });
    }

    void send_chunk(Worker& worker, int64_t chunk) {
        const int64_t begin = chunk * chunk_rows_;
        const int64_t rows = chunk_end(chunk) - begin;
        for (size_t i = 0; i < plans_.size(); ++i) {
            const UploadPlan& plan = plans_[i];
            if (plan.is_bytes() && worker.streams[i]->position() != places_[i][static_cast<size_t>(chunk) + 1]) {
                throw Error(ErrorCode::kFileChanged, "strings of column '" + name(i) +
                                                         "' changed their lengths while they were read; do not write "
                                                         "to inputs while a query runs");
            }
            const cuda::ColumnPart part = plan.is_bytes() ? cuda::ColumnPart::kOffsets : cuda::ColumnPart::kValues;
            const uint64_t bytes = value_bytes(i, chunk);
            if (plan.is_bytes() && chunk + 1 == chunks_) {
                std::memcpy(worker.values[i] + bytes - sizeof(uint64_t), &places_[i].back(), sizeof(uint64_t));
            }
            send(worker, i, part, static_cast<uint64_t>(begin) * plan.row_bytes(), worker.values[i], bytes);
            if (plan.column.nullable) {
                send(worker, i, cuda::ColumnPart::kValidity, static_cast<uint64_t>(begin) / 8, worker.validity[i],
                     validity_bytes(rows));
            }
        }
    }

    void send(Worker& worker, size_t column, cuda::ColumnPart part, uint64_t offset_bytes, const void* from,
              uint64_t bytes) {
        if (bytes == 0) return;
        worker.rows.sent(device_call(control_, [&] { return table_.write(column, part, offset_bytes, from, bytes); }));
    }

    // Counts the bytes of a chunk's values or offsets; behind the last chunk's offsets stands the end.
    uint64_t value_bytes(size_t column, int64_t chunk) const {
        const auto rows = static_cast<uint64_t>(chunk_end(chunk) - chunk * chunk_rows_);
        const bool end = plans_[column].is_bytes() && chunk + 1 == chunks_;
        return rows * plans_[column].row_bytes() + (end ? sizeof(uint64_t) : 0);
    }
    // Whole 32-bit words, as the GPU reads them.
    static uint64_t validity_bytes(int64_t rows) { return cuda::validity_bytes(static_cast<uint64_t>(rows)); }
    const std::string& name(size_t column) const {
        return source_.columns()[static_cast<size_t>(columns_[column])]->name;
    }

    Source& source_;
    KeptPinned& pinned_;
    MemoryBudget& budget_;
    JobControl& control_;
    std::vector<int32_t> columns_;
    std::vector<UploadPlan> plans_;
    std::vector<std::vector<uint64_t>> places_;
    GpuTable table_;
    int workers_ = 1;
    uint64_t half_bytes_ = 0;
    uint64_t piece_bytes_ = 0;
    int64_t chunk_rows_ = kRowsUnit;
    int64_t chunks_ = 0;
    std::atomic<int64_t> next_{0};
};

}  // namespace

bool can_upload(const ColumnType& type) {
    if (type.layout == Layout::kDictionary) return !type.children[0].is_nested();
    return !type.is_nested();
}

GpuTable upload_table(Source& source, const UploadSpec& spec, KeptPinned& pinned, JobControl& control) {
    SPILLWAY_CHECK(!spec.columns.empty());
    std::vector<int32_t> columns;
    for (const UploadColumn& column : spec.columns) {
        SPILLWAY_CHECK(can_upload(*source.columns()[static_cast<size_t>(column.column)]));
        columns.push_back(column.column);
    }
    source.load_dictionaries(columns, pinned.budget(), control);
    return Upload(source, spec, pinned, control).run();
}

}  // namespace spillway
