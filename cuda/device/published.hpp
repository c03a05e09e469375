// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>

#include "device/device.hpp"

namespace spillway::cuda { inline namespace device {

struct WordRange {
    const void* data = nullptr;  // device memory
    uint64_t words = 0;          // of 8 bytes
};

// Small arrays on their way from kernels to the host: a kernel writes them into pinned memory, for a copy would wait in
// the copy engine's queue behind whatever leaves the device then, such as results and spilled rows, for milliseconds.
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

// A number, or some, that kernels on the device's stream leave at `data`, whole words of 8 bytes. Waits for them.
template <class T>
T read_published(Device& device, const void* data) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 8 == 0);
    Published published(device, sizeof(T) / 8);
    published.publish({{data, sizeof(T) / 8}});
    T value;
    std::memcpy(static_cast<void*>(&value), published.wait(), sizeof(T));
    return value;
}

}}  // namespace spillway::cuda::device
