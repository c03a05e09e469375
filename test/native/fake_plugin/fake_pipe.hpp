// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "fake_gpu.hpp"

namespace fake {

// Result rows of an operator, which another one takes.
class PipedRows {
  public:
    explicit PipedRows(std::vector<uint32_t> widths) : widths_(std::move(widths)), columns_(widths_.size()) {}
    PipedRows(const PipedRows&) = delete;

    SinkCalls sink() { return {this, open, close}; }
    uint64_t rows() const { return rows_; }
    // The value's bytes; nullptr where it is NULL. presence: column with the presence byte, or -1.
    const uint8_t* find(const PipeValue& value, int32_t presence, uint64_t row) const;
    // All that the pipe reads lies in these rows.
    void check(const PipeSpec& pipe) const;

  private:
    struct Window {
        uint64_t rows;
        std::vector<std::vector<uint8_t>> columns;
    };
    static int32_t open(void* context, uint64_t rows, void** columns, PackedBlock** blocks);
    static void close(void* context);
    const uint8_t* at(int32_t column, uint64_t row) const;
    void check(const PipeValue& value) const;

    const std::vector<uint32_t> widths_;
    std::vector<std::vector<uint8_t>> columns_;
    uint64_t rows_ = 0;
    std::deque<Window> open_;
};

// Chunks that these rows become.
class PipeSource {
  public:
    PipeSource(const PipedRows& rows, const PipeSpec& pipe, uint64_t chunk_rows)
        : rows_(rows), pipe_(pipe), chunk_rows_(chunk_rows) {}
    PipeSource(const PipeSource&) = delete;

    SourceCalls source() { return {this, next, release}; }

  private:
    struct Memory {
        std::vector<uint8_t> key;
        std::vector<uint32_t> key_valid;
        std::vector<std::vector<uint8_t>> columns;
    };
    static int32_t next(void* context, Chunk* chunk);
    static void release(void* context);
    // False: the row has no key.
    bool write_key(uint64_t row, uint64_t (&words)[kPipeKeyWordsMax]) const;
    void write_column(const PipeColumn& column, uint64_t row, uint8_t* to) const;

    const PipedRows& rows_;
    const PipeSpec pipe_;
    const uint64_t chunk_rows_;
    uint64_t done_ = 0;
    std::deque<Memory> given_;
};

}  // namespace fake
