// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "memory/memory_budget.hpp"
#include "transfer/file_table.hpp"

namespace spillway {

// Reads small pieces of files that mostly lie one behind the other: a system call for each takes 1 us, and as long
// again to ask whether the file was written to. What was read last is read from memory; a file that changes meanwhile
// shows at the next read.
class FileWindow {
  public:
    // window_bytes: how much is read at a time where that is allowed. More than 64 KiB count in the budget.
    FileWindow(const FileTable& files, MemoryBudget& budget, int64_t window_bytes)
        : files_(files), budget_(budget), window_bytes_(window_bytes) {}

    // Bytes [offset, offset + bytes) of a file, which must lie inside of it; valid until the next call. ahead: what
    // may be read from `offset` on, because it will be asked for next.
    const uint8_t* read(int32_t file, int64_t offset, int64_t bytes, int64_t ahead);
    // Are they in memory?
    bool holds(int32_t file, int64_t offset, int64_t bytes) const {
        return file == file_ && offset >= offset_ && bytes <= bytes_ && offset - offset_ <= bytes_ - bytes;
    }

  private:
    const FileTable& files_;
    MemoryBudget& budget_;
    const int64_t window_bytes_;
    Reservation reservation_;
    std::unique_ptr<uint8_t[]> data_;
    int64_t capacity_ = 0;
    int32_t file_ = -1;
    int64_t offset_ = 0;
    int64_t bytes_ = 0;
};

}  // namespace spillway
