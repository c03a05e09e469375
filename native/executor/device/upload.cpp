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
            UploadPlan& plan = plans_.back();
            plan.packed = column.packed && plan.form == UploadForm::kFixed && cuda::can_pack(plan.column.width);
            row_bytes += plan.row_bytes() + 1;
        }
        workers_ = std::max(spec.workers, 1);
        const auto workers = static_cast<uint64_t>(workers_);
        // Each worker has memory in two halves for rows, and as much for the bytes of strings.
        const uint64_t wanted_bytes = spec.staging_bytes / workers / 4;
        const uint64_t least_bytes = row_bytes * static_cast<uint64_t>(kRowsUnit) + gap_bytes();
        half_bytes_ = std::max(half_bytes_of(wanted_bytes), round_up_or_max(least_bytes, LaneStaging::kAlignBytes));
        // In a small budget reads are smaller than that.
        piece_bytes_ = std::clamp(2 * half_bytes_, kPieceBytesMin, kPieceBytesMax);
        const auto fitting = static_cast<int64_t>((half_bytes_ - gap_bytes()) / row_bytes);
        // Packed values come in whole blocks, for which small halves have no room.
        constexpr int64_t kBlockRows = cuda::kPackedValues;
        const bool packs = fitting >= kBlockRows;
        for (UploadPlan& plan : plans_) plan.packed = plan.packed && packs;
        const int64_t unit = packs ? kBlockRows : kRowsUnit;
        const int64_t share = source.rows() / workers_ + 1;
        chunk_rows_ = std::max(std::min(fitting, share) / unit * unit, unit);
        // One without rows, too: strings have an offset more than rows.
        chunks_ = std::max<int64_t>((source.rows() + chunk_rows_ - 1) / chunk_rows_, 1);
        workers_ = static_cast<int>(std::min<int64_t>(workers_, chunks_));
    }

    Uploaded run() {
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
        return {std::move(table_), sent_bytes_.load()};
    }

  private:
    // Areas of a chunk in a half begin with a line, and packed values have a header for each block: those of a column
    // have at most three gaps, and the header of a block that is not complete.
    uint64_t gap_bytes() const {
        return plans_.size() * (3 * LaneStaging::kAlignBytes + 2 * sizeof(cuda::PackedBlock));
    }
    static uint64_t header_bytes(uint32_t width, int64_t rows) {
        const uint64_t blocks = (static_cast<uint64_t>(rows) + cuda::kPackedValues - 1) / cuda::kPackedValues;
        return blocks * cuda::packed_planes(width) * sizeof(cuda::PackedBlock);
    }
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
              lane(device_call(upload.control_, [&] { return GpuLane::open(memory.device()); })),
              rows(memory, lane, 0, upload.half_bytes_) {
            if (upload.any_bytes()) text = std::make_unique<LaneStaging>(memory, lane, 2, upload.half_bytes_);
            for (size_t i = 0; i < upload.plans_.size(); ++i) {
                const UploadPlan& plan = upload.plans_[i];
                texts.push_back(plan.is_bytes()
                                    ? std::make_unique<TextStream>(upload.table_, i, lane, *text, upload.control_)
                                    : nullptr);
                // Pageable memory is nothing that a kernel could unpack.
                packers.push_back(plan.packed && rows.is_pinned() ? std::make_unique<ValuePacker>(plan.column.width)
                                                                  : nullptr);
            }
            places.resize(texts.size());
            blocks.resize(texts.size());
        }
        SourceReader reader;
        GpuLane lane;
        LaneStaging rows;
        std::unique_ptr<LaneStaging> text;
        std::vector<std::unique_ptr<TextStream>> texts;
        std::vector<std::unique_ptr<ValuePacker>> packers;
        std::vector<ChunkPlace> places;  // of the chunk
        std::vector<cuda::PackedBlock*> blocks;
        bool text_fits = false;  // that of the chunk
    };

    void send_chunks(StagingMemory& memory) {
        Worker worker(*this, memory);
        uint64_t sent = 0;
        for (int64_t chunk = next_++; chunk < chunks_; chunk = next_++) {
            control_.check();
            place_chunk(worker, chunk);
            stage_chunk(worker, chunk);
            sent += send_chunk(worker, chunk);
        }
        worker.rows.wait_for_all();
        if (worker.text != nullptr) worker.text->wait_for_all();
        sent_bytes_.fetch_add(sent, std::memory_order_relaxed);
    }

    // Areas for all columns of a chunk.
    void place_chunk(Worker& worker, int64_t chunk) {
        worker.rows.turn();
        const int64_t rows = chunk_end(chunk) - chunk * chunk_rows_;
        const auto begin = static_cast<uint64_t>(chunk * chunk_rows_);
        for (size_t i = 0; i < plans_.size(); ++i) {
            ChunkPlace& place = worker.places[i];
            place = {nullptr, nullptr, worker.texts[i].get(), worker.packers[i].get()};
            const uint64_t blocks = (static_cast<uint64_t>(rows) + cuda::kPackedValues - 1) / cuda::kPackedValues;
            const uint32_t width = plans_[i].column.width;
            const bool packed = place.packer != nullptr;
            place.values = worker.rows.take(packed ? blocks * cuda::kPackedValues * width : value_bytes(i, chunk), 0);
            SPILLWAY_CHECK(place.values != nullptr);
            if (packed) {
                auto* const told = worker.rows.take(header_bytes(width, rows), 0);
                SPILLWAY_CHECK(told != nullptr);
                worker.blocks[i] = reinterpret_cast<cuda::PackedBlock*>(told);
                place.packer->start(place.values, worker.blocks[i]);
            }
            if (!plans_[i].column.nullable) continue;
            place.validity = worker.rows.take(validity_bytes(rows), begin / 8);
            SPILLWAY_CHECK(place.validity != nullptr);
            std::memset(place.validity, 0, validity_bytes(rows));
        }
        place_text(worker, chunk);
    }

    // An area for each column, or none if they do not fit.
    void place_text(Worker& worker, int64_t chunk) {
        if (worker.text == nullptr) return;
        uint64_t bytes = 0;
        const auto at = static_cast<size_t>(chunk);
        for (size_t i = 0; i < plans_.size(); ++i) {
            if (plans_[i].is_bytes()) bytes = add_or_max(bytes, text_bytes(i, chunk) + LaneStaging::kAlignBytes);
        }
        worker.text->turn();
        worker.text_fits = bytes <= worker.text->left();
        for (size_t i = 0; i < plans_.size(); ++i) {
            if (!plans_[i].is_bytes()) continue;
            const uint64_t begin = places_[i][at];
            uint8_t* const area = worker.text_fits ? worker.text->take(text_bytes(i, chunk), begin) : nullptr;
            worker.texts[i]->start(begin, area, text_bytes(i, chunk));
        }
    }

    void stage_chunk(Worker& worker, int64_t chunk) {
        const int64_t begin = chunk * chunk_rows_;
        int64_t at = 0;
        for_pieces(source_, begin, chunk_end(chunk), [&](const Piece& piece) {
            for (int64_t done = 0; done < piece.rows;) {
                const int64_t row = piece.row + done;
                const int64_t part = worker.reader.rows_within(piece.batch, row, piece.rows - done, piece_bytes_);
                const std::vector<ColumnView>& views = worker.reader.read(piece.batch, row, part);
                for (size_t i = 0; i < plans_.size(); ++i) {
                    if (!stage_rows(plans_[i], views[i], part, worker.places[i], at)) fail_changed(i);
                }
                done += part;
                at += part;
            }
        });
        control_.rows_in.fetch_add(static_cast<uint64_t>(at), std::memory_order_relaxed);
    }

    // Returns how many bytes cross the link.
    uint64_t send_chunk(Worker& worker, int64_t chunk) {
        const int64_t begin = chunk * chunk_rows_;
        const int64_t rows = chunk_end(chunk) - begin;
        std::vector<cuda::TableCopy> copies;
        uint64_t sent = 0;
        for (size_t i = 0; i < plans_.size(); ++i) {
            const UploadPlan& plan = plans_[i];
            const ChunkPlace& place = worker.places[i];
            if (plan.is_bytes() && place.text->position() != places_[i][static_cast<size_t>(chunk) + 1]) {
                fail_changed(i);
            }
            cuda::TableCopy copy;
            copy.column = static_cast<uint32_t>(i);
            copy.part = plan.is_bytes() ? cuda::ColumnPart::kOffsets : cuda::ColumnPart::kValues;
            copy.offset_bytes = static_cast<uint64_t>(begin) * plan.row_bytes();
            copy.bytes = value_bytes(i, chunk);
            copy.host = place.values;
            if (plan.is_bytes() && chunk + 1 == chunks_) {
                std::memcpy(place.values + copy.bytes - sizeof(uint64_t), &places_[i].back(), sizeof(uint64_t));
            }
            if (place.packer != nullptr) {
                place.packer->finish();
                copy.packed = true;
                copy.blocks = worker.blocks[i];
                sent += place.packer->packed_bytes() + header_bytes(plan.column.width, rows);
            } else {
                sent += copy.bytes;
            }
            copies.push_back(copy);
            if (plan.is_bytes()) sent += text_bytes(i, chunk);
            if (!plan.column.nullable) continue;
            copy = {};
            copy.column = static_cast<uint32_t>(i);
            copy.part = cuda::ColumnPart::kValidity;
            copy.offset_bytes = static_cast<uint64_t>(begin) / 8;
            copy.bytes = validity_bytes(rows);
            copy.host = place.validity;
            sent += copy.bytes;
            copies.push_back(copy);
        }
        device_call(control_, [&] { worker.lane.send(worker.rows.slot(), table_, copies); });
        send_text(worker);
        return sent;
    }

    void send_text(Worker& worker) {
        if (!worker.text_fits) return;
        std::vector<cuda::TableCopy> copies;
        for (const auto& text : worker.texts) {
            if (text != nullptr) copies.push_back(text->copy());
        }
        device_call(control_, [&] { worker.lane.send(worker.text->slot(), table_, copies); });
    }

    [[noreturn]] void fail_changed(size_t column) const {
        throw Error(ErrorCode::kFileChanged, "strings of column '" + name(column) +
                                                 "' changed their lengths while they were read; do not write to "
                                                 "inputs while a query runs");
    }

    uint64_t text_bytes(size_t column, int64_t chunk) const {
        const auto at = static_cast<size_t>(chunk);
        return places_[column][at + 1] - places_[column][at];
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
    std::atomic<uint64_t> sent_bytes_{0};
};

}  // namespace

bool can_upload(const ColumnType& type) {
    if (type.layout == Layout::kDictionary) return !type.children[0].is_nested();
    return !type.is_nested();
}

Uploaded upload_table(Source& source, const UploadSpec& spec, KeptPinned& pinned, JobControl& control) {
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
