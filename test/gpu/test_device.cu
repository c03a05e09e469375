// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "device/device.hpp"
#include "gpu_test.hpp"
#include "options.hpp"

namespace spillway::gpu_test {

namespace {

std::unique_ptr<cuda::Device> opened;

}  // namespace

cuda::Device& test_device() {
    if (opened == nullptr) {
        size_t free_bytes = 0;
        size_t total_bytes = 0;
        // A limit of what is free now would be too small for good where other parts run their large tests just now.
        CHECK_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
        opened = std::make_unique<cuda::Device>(options().device, total_bytes / 4 * 3);
    }
    return *opened;
}

void trim_test_device() {
    constexpr uint64_t kKeptBytes = 1ULL << 30;
    if (opened == nullptr) return;
    if (opened->memory().reserved_bytes() > kKeptBytes) opened->memory().trim();
}

void close_test_device() {
    opened.reset();
}

}  // namespace spillway::gpu_test
