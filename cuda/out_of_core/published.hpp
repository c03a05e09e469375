// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>

#include "device/device.hpp"

namespace spillway::cuda {

struct WordRange {
    const void* data = nullptr;  // device memory
    uint64_t words = 0;          // of 8 bytes
};

// Small arrays on their way from kernels to the host: a kernel writes them into pinned memory, for a copy would wait in
// the copy engine's queue behind spilled rows.
class Published {
  public:
    Published(Device& device, uint64_t words_max);
    // Waits until nothing writes the memory any more.
    ~Published();
    Published(const Published&) = delete;
    Published& operator=(const Published&) = delete;

    // Enqueues; the ranges follow each other.
    void publish(std::initializer_list<WordRange> ranges);
    // Waits for what was published last.
    const uint64_t* wait() const;

  private:
    Device& device_;
    const uint64_t words_max_;
    PinnedBlock words_;
    Event written_;
};

}  // namespace spillway::cuda
