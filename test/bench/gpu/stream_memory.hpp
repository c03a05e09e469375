// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace spillway::gpu_bench {

// Memory behind a link that kernels and copy engines of a device reach: pinned host memory, or a peer's.
class FarMemory {
  public:
    FarMemory() = default;
    // Huge pages touched by all cores and then registered: cudaHostAlloc takes ten times as long.
    static FarMemory on_host(uint64_t bytes);
    // The memory belongs to device `peer`, and kernels and copies of device `ordinal` reach it.
    static FarMemory on_peer(uint64_t bytes, int ordinal, int peer);
    FarMemory(FarMemory&& other) noexcept { *this = static_cast<FarMemory&&>(other); }
    FarMemory& operator=(FarMemory&& other) noexcept;
    ~FarMemory() { reset(); }

    void* data() const { return data_; }
    void reset() noexcept;

  private:
    void* data_ = nullptr;
    void* mapping_ = nullptr;  // host memory: what data_ lies in
    uint64_t mapped_bytes_ = 0;
    bool registered_ = false;
    int ordinal_ = 0;
    int peer_ = -1;
};

}  // namespace spillway::gpu_bench
