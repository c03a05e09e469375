// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "device/device.hpp"
#include "gpu_test.hpp"
#include "support/far_memory.hpp"
#include "tier/interleaved_range.hpp"

// What tests of tiered memory ask the machine for.
namespace spillway::gpu_test {

// A second GPU that the tests' device reaches, opened with these limits; a test is left out where there is none.
inline std::unique_ptr<cuda::Device> open_peer(uint64_t memory_bytes) {
    const int own = test_device().ordinal();
    int count = 0;
    CHECK_CUDA(cudaGetDeviceCount(&count));
    for (int other = 0; other < count; ++other) {
        int yes = 0;
        if (other == own) continue;
        CHECK_CUDA(cudaDeviceCanAccessPeer(&yes, own, other));
        if (yes != 0) return std::make_unique<cuda::Device>(other, memory_bytes);
    }
    leave_test_out(kNoPeer);
}

// False: the driver maps no host memory beside that of the GPU, and what takes it is left out.
inline bool has_host_stripes(cuda::InterleavedMemory& memory) {
    const std::string obstacle = memory.obstacle({0, 0, 1});
    if (!obstacle.empty()) leave_out(obstacle);
    return obstacle.empty();
}

// A test that does nothing else.
inline void need_host_stripes(cuda::InterleavedMemory& memory) {
    const std::string obstacle = memory.obstacle({0, 0, 1});
    if (!obstacle.empty()) leave_test_out(obstacle);
}

}  // namespace spillway::gpu_test
