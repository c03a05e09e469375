// SPDX-License-Identifier: Apache-2.0
#include "memory_model/stream_memory.hpp"
#include "stream/chunk_pipe.hpp"

namespace spillway::cuda { inline namespace stream {

ChunkPipe::ChunkPipe(Device& device, const std::vector<uint32_t>& widths, size_t key, uint64_t rows_max,
                     uint32_t buffers)
    : key_(key), rows_max_(rows_max), buffers_(buffers) {
    if (key >= widths.size()) throw Error(ErrorCode::kInvalid, "a pipe's key is a column that does not come");
    uint64_t bytes = 0;
    for (const uint32_t width : widths) {
        offsets_.push_back(bytes);
        bytes += column_bytes(width, rows_max);
    }
    for (Buffer& buffer : buffers_) buffer.memory = device.memory().allocate(bytes, "rows between two operators");
}

void ChunkPipe::begin(StreamOperator& to, int input, ResultSink* sink) {
    to.begin(input, *this, sink);
    to_ = &to;
}

void ChunkPipe::end() {
    to_->end();
    to_ = nullptr;
}

// The operator behind the pipe keeps fewer chunks than it has slots when push() returns, so that a buffer is free
// unless the pipe was made with too few.
std::vector<void*> ChunkPipe::open(uint64_t rows) {
    if (to_ == nullptr) throw Error(ErrorCode::kInternal, "rows come into a pipe that leads nowhere");
    if (rows > rows_max_ || opened_ - released_ == buffers_.size()) {
        throw Error(ErrorCode::kInvalid, "a pipe has too few buffers, or too small ones");
    }
    Buffer& buffer = buffers_[opened_++ % buffers_.size()];
    buffer.rows = rows;
    std::vector<void*> columns;
    for (const uint64_t offset : offsets_) columns.push_back(buffer.memory.as<uint8_t>() + offset);
    return columns;
}

void ChunkPipe::close() {
    const Buffer& buffer = buffers_[closed_++ % buffers_.size()];
    Chunk chunk;
    chunk.rows = buffer.rows;
    for (size_t c = 0; c < offsets_.size(); ++c) {
        const uint8_t* const column = buffer.memory.as<const uint8_t>() + offsets_[c];
        if (c == key_) {
            chunk.key = column;
        } else {
            chunk.columns.push_back(column);
        }
    }
    rows_ += buffer.rows;
    to_->push(chunk);
}

void ChunkPipe::release() {
    ++released_;
}

}}  // namespace spillway::cuda::stream
