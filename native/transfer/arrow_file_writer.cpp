// SPDX-License-Identifier: Apache-2.0
#include "transfer/arrow_file_writer.hpp"

#include <array>
#include <cstring>
#include <exception>
#include <limits>
#include <set>
#include <utility>

#include "base/bitmap.hpp"
#include "transfer/ipc_message.hpp"

namespace spillway {

namespace {

constexpr std::array<uint8_t, 8> kFileHead = {'A', 'R', 'R', 'O', 'W', '1', 0, 0};
constexpr std::array<uint8_t, 8> kEndOfStream = {0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0};
constexpr std::array<uint8_t, kIpcAlignment> kZeros{};

iovec piece(const void* bytes, int64_t length) {
    return {const_cast<void*>(bytes), static_cast<size_t>(length)};
}

int64_t read_offset(const Buffer& offsets, int32_t width, int64_t index) {
    const uint8_t* at = offsets.data() + index * width;
    if (width == 8) {
        int64_t value;
        std::memcpy(&value, at, 8);
        return value;
    }
    int32_t value;
    std::memcpy(&value, at, 4);
    return value;
}

// What one batch adds to the file: its metadata, and pieces that point into the column buffers. Nothing is copied.
class BodyPlan {
  public:
    explicit BodyPlan(const OutputBatch& batch) {
        pieces_.emplace_back();  // the message goes here
        batch_.rows = batch.rows;
        for (const auto& column : batch.columns) {
            SPILLWAY_CHECK(column.length == batch.rows);
            add(column);
        }
    }
    const IpcRecordBatch& metadata() const { return batch_; }
    std::vector<iovec>& pieces_behind(const std::vector<uint8_t>& message) {
        pieces_.front() = piece(message.data(), static_cast<int64_t>(message.size()));
        return pieces_;
    }

  private:
    void add(const OutputColumn& column);
    void add_validity(const OutputColumn& column);
    void add_offsets(const OutputColumn& column, int64_t count, int32_t width);
    void add_bytes(const Buffer& buffer, int64_t bytes);
    void add_raw(const void* data, int64_t bytes);

    IpcRecordBatch batch_;
    std::vector<iovec> pieces_;
};

void BodyPlan::add(const OutputColumn& column) {
    const Layout layout = column.type->layout;
    const bool is_union = layout == Layout::kUnionSparse || layout == Layout::kUnionDense;
    const int64_t nulls = layout == Layout::kNull ? column.length : (is_union ? 0 : column.null_count);
    batch_.nodes.push_back({column.length, nulls});
    if (layout != Layout::kNull && !is_union) add_validity(column);
    switch (layout) {
        case Layout::kNull:
        case Layout::kFixedList:
        case Layout::kStruct:
            break;
        case Layout::kBool:
            add_bytes(column.data, bitmap_bytes(column.length));
            break;
        case Layout::kFixed:
            add_bytes(column.data, column.length * column.type->byte_width);
            break;
        case Layout::kDictionary:
            add_bytes(column.data, column.length * int64_t{sizeof(int32_t)});
            return;
        case Layout::kBinary:
        case Layout::kView: {  // views come out as kBinary with 4-byte offsets
            const int32_t width = layout == Layout::kView ? 4 : column.type->byte_width;
            add_offsets(column, column.length + 1, width);
            add_bytes(column.data, column.length == 0 ? 0 : read_offset(column.offsets, width, column.length));
            break;
        }
        case Layout::kList:
            add_offsets(column, column.length + 1, column.type->byte_width);
            break;
        case Layout::kUnionSparse:
            add_bytes(column.data, column.length);
            break;
        case Layout::kUnionDense:
            add_bytes(column.data, column.length);
            add_bytes(column.offsets, column.length * int64_t{sizeof(int32_t)});
            break;
    }
    for (const auto& child : column.children) add(child);
}

void BodyPlan::add_validity(const OutputColumn& column) {
    if (column.null_count == 0) {
        add_raw(nullptr, 0);
    } else {
        add_bytes(column.validity, bitmap_bytes(column.length));
    }
}

void BodyPlan::add_offsets(const OutputColumn& column, int64_t count, int32_t width) {
    // The format wants one offset even for no rows.
    if (column.length == 0 && column.offsets.size() < static_cast<uint64_t>(width)) {
        add_raw(kZeros.data(), width);
    } else {
        add_bytes(column.offsets, count * width);
    }
}

void BodyPlan::add_bytes(const Buffer& buffer, int64_t bytes) {
    SPILLWAY_CHECK(bytes >= 0 && buffer.size() >= static_cast<uint64_t>(bytes));
    add_raw(buffer.data(), bytes);
}

void BodyPlan::add_raw(const void* data, int64_t bytes) {
    batch_.buffers.push_back({batch_.body_bytes, bytes});
    if (bytes == 0) return;
    pieces_.push_back(piece(data, bytes));
    const int64_t padding = ipc_padded(bytes) - bytes;
    if (padding > 0) pieces_.push_back(piece(kZeros.data(), padding));
    batch_.body_bytes += bytes + padding;
}

}  // namespace

struct ArrowFileWriter::State {
    State(const std::string& path, bool overwrite, JobControl& job, std::function<bool()> make_room)
        : file(path, overwrite, PartialFile::Naming::kUnnamedIfPossible, std::move(make_room)), control(job) {}
    State(const PartialFile::Nameless& where, JobControl& job, std::function<bool()> make_room)
        : file(where, std::move(make_room)), control(job) {}

    // A place in the file and in the footer; the bytes are written after the lock, next to those of other workers.
    int64_t take_range(std::vector<FileBlock>& blocks, int64_t metadata_bytes, int64_t body_bytes) {
        const int64_t offset = cursor;
        blocks.push_back({offset, static_cast<int32_t>(metadata_bytes), body_bytes});
        cursor += metadata_bytes + body_bytes;
        ++writes_running;
        return offset;
    }
    void write_range(int64_t offset, std::vector<iovec>& pieces) {
        try {
            file.write(offset, pieces, control);
        } catch (...) {
            std::lock_guard<std::mutex> lock(mutex);
            if (!failure) failure = std::current_exception();
            --writes_running;
            throw;
        }
        std::lock_guard<std::mutex> lock(mutex);
        --writes_running;
    }
    void check_open() const {
        if (finished) throw Error(ErrorCode::kClosed, "the output file is finished and takes no more rows");
        // The reason itself: the worker that finds out second may be the one whose error the user sees.
        if (failure) std::rethrow_exception(failure);
    }

    PartialFile file;
    JobControl& control;
    mutable std::mutex mutex;
    int64_t cursor = 0;
    int64_t writes_running = 0;
    std::exception_ptr failure;
    bool finished = false;
    std::vector<FileBlock> dictionary_blocks;
    std::vector<FileBlock> record_blocks;
    std::set<int64_t> dictionary_ids;
};

ArrowFileWriter::ArrowFileWriter(std::string path, std::vector<uint8_t> schema_message, bool overwrite,
                                 JobControl& control, std::function<bool()> make_room)
    : state_(std::make_unique<State>(path, overwrite, control, std::move(make_room))) {
    begin(std::move(schema_message));
}

ArrowFileWriter::ArrowFileWriter(const PartialFile::Nameless& where, std::vector<uint8_t> schema_message,
                                 JobControl& control, std::function<bool()> make_room)
    : state_(std::make_unique<State>(where, control, std::move(make_room))) {
    begin(std::move(schema_message));
}

void ArrowFileWriter::begin(std::vector<uint8_t>&& schema_message) {
    const auto head_bytes = static_cast<int64_t>(kFileHead.size());
    align_message_end(schema_message, head_bytes);
    state_->cursor = head_bytes + static_cast<int64_t>(schema_message.size());
    std::vector<iovec> pieces = {piece(kFileHead.data(), head_bytes),
                                 piece(schema_message.data(), static_cast<int64_t>(schema_message.size()))};
    state_->file.write(0, pieces, state_->control);
}

ArrowFileWriter::~ArrowFileWriter() = default;

void ArrowFileWriter::write_dictionary(int64_t dictionary_id, const OutputBatch& values) {
    BodyPlan plan(values);
    const int64_t body_bytes = plan.metadata().body_bytes;
    std::vector<uint8_t> message;
    int64_t offset;
    {
        std::lock_guard<std::mutex> lock(state_->mutex);
        state_->check_open();
        const bool is_delta = !state_->dictionary_ids.insert(dictionary_id).second;
        message = encode_dictionary_message(dictionary_id, is_delta, plan.metadata());
        offset = state_->take_range(state_->dictionary_blocks, static_cast<int64_t>(message.size()), body_bytes);
    }
    state_->write_range(offset, plan.pieces_behind(message));
}

void ArrowFileWriter::write(const OutputBatch& batch) {
    BodyPlan plan(batch);
    const std::vector<uint8_t> message = encode_record_batch_message(plan.metadata());
    int64_t offset;
    {
        std::lock_guard<std::mutex> lock(state_->mutex);
        state_->check_open();
        offset =
            state_->take_range(state_->record_blocks, static_cast<int64_t>(message.size()), plan.metadata().body_bytes);
    }
    state_->write_range(offset, plan.pieces_behind(message));
}

std::vector<FileBlock> ArrowFileWriter::dictionary_blocks() const {
    std::lock_guard<std::mutex> lock(state_->mutex);
    return state_->dictionary_blocks;
}

std::vector<FileBlock> ArrowFileWriter::record_blocks() const {
    std::lock_guard<std::mutex> lock(state_->mutex);
    return state_->record_blocks;
}

uint64_t ArrowFileWriter::bytes_written() const {
    std::lock_guard<std::mutex> lock(state_->mutex);
    return static_cast<uint64_t>(state_->cursor);
}

void ArrowFileWriter::finish(const std::vector<uint8_t>& footer) {
    SPILLWAY_CHECK(footer.size() <= static_cast<size_t>(std::numeric_limits<int32_t>::max()));
    const auto footer_bytes = static_cast<int32_t>(footer.size());
    std::vector<uint8_t> tail(kEndOfStream.begin(), kEndOfStream.end());
    tail.insert(tail.end(), footer.begin(), footer.end());
    tail.resize(tail.size() + sizeof footer_bytes);
    std::memcpy(tail.data() + tail.size() - sizeof footer_bytes, &footer_bytes, sizeof footer_bytes);
    tail.insert(tail.end(), kFileHead.begin(), kFileHead.begin() + 6);  // "ARROW1"

    int64_t offset;
    {
        std::lock_guard<std::mutex> lock(state_->mutex);
        state_->check_open();
        SPILLWAY_CHECK(state_->writes_running == 0);
        offset = state_->cursor;
        state_->cursor += static_cast<int64_t>(tail.size());
        state_->finished = true;
    }
    std::vector<iovec> pieces = {piece(tail.data(), static_cast<int64_t>(tail.size()))};
    state_->file.write(offset, pieces, state_->control);
    state_->control.check();  // the last moment at which an abort still leaves the target untouched
    state_->file.publish();
}

std::string ArrowFileWriter::way() const {
    return state_->file.way();
}

int ArrowFileWriter::take_replaced() {
    return state_->file.take_replaced();
}

}  // namespace spillway
