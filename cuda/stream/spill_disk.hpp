// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace spillway::cuda { inline namespace stream {

// Storage beyond host memory, which the caller of a join or group-by brings. Several threads of the operation call it
// at once, until it has gone. What is thrown ends it.
class SpillDisk {
  public:
    virtual ~SpillDisk() = default;
    // Writes the bytes somewhere and returns where.
    virtual uint64_t write(const void* data, uint64_t bytes) = 0;
    // Reads what begins `offset` bytes into the bytes of the write() that returned `at`.
    virtual void read(uint64_t at, uint64_t offset, void* data, uint64_t bytes) = 0;
};

}}  // namespace spillway::cuda::stream
