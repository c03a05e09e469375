// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fake_gpu.hpp"

namespace fake {

// Rows of a join or group-by on the caller's disk, in blocks that other threads write and read, as those of the real
// plugin do.
class FakeDisk {
  public:
    FakeDisk(const DiskCalls* disk, uint64_t block_bytes, uint32_t blocks);
    bool usable() const { return disk_.write != nullptr; }

    void append(int side, const std::string& bytes);
    // All that was appended for the side.
    std::string read(int side);

    uint64_t written_bytes() const { return written_bytes_; }
    uint64_t read_bytes() const { return read_bytes_; }

  private:
    struct Written {
        uint64_t at;
        uint64_t bytes;
    };
    void write(int side);

    DiskCalls disk_{};
    uint64_t block_bytes_;
    std::string pending_[2];
    std::vector<Written> written_[2];
    uint64_t written_bytes_ = 0;
    uint64_t read_bytes_ = 0;
};

}  // namespace fake
