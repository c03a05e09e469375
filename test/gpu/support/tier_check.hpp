// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "device/device.hpp"
#include "gpu_test.hpp"
#include "tier/interleaved_range.hpp"

// What tests of tiered memory ask the machine for.
namespace spillway::gpu_test {

// A second GPU that the tests' device reaches, opened with these limits; nullptr, and a line that says so: there is
// none.
inline std::unique_ptr<cuda::Device> open_peer(uint64_t memory_bytes, const char* test) {
    const int own = test_device().ordinal();
    int count = 0;
    CHECK_CUDA(cudaGetDeviceCount(&count));
    for (int other = 0; other < count; ++other) {
        int yes = 0;
        if (other == own) continue;
        CHECK_CUDA(cudaDeviceCanAccessPeer(&yes, own, other));
        if (yes != 0) return std::make_unique<cuda::Device>(other, memory_bytes);
    }
    std::printf("%s: not run on a peer, as this machine has no second GPU that the first one reaches\n", test);
    return nullptr;
}

// False, and a line that says so: the driver maps no host memory beside that of the GPU.
inline bool has_host_stripes(cuda::InterleavedMemory& memory, const char* test) {
    const std::string obstacle = memory.obstacle({0, 0, 1});
    if (obstacle.empty()) return true;
    std::printf("%s: not run, as %s\n", test, obstacle.c_str());
    return false;
}

}  // namespace spillway::gpu_test
