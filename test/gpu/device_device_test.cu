// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <thread>

#include "device/device.hpp"
#include "gpu_test.hpp"

namespace spillway::cuda {

using gpu_test::test_device;

GPU_TEST("device: properties") {
    const DeviceProperties& properties = test_device().properties();
    CHECK(properties.multiprocessors > 0);
    CHECK(properties.warp_threads == 32);
    CHECK(properties.threads_per_block_max >= 1024);
    CHECK(properties.shared_bytes_per_block >= 48 * 1024);
    CHECK(properties.shared_bytes_per_block_optin >= properties.shared_bytes_per_block);
    CHECK(properties.shared_bytes_per_multiprocessor >= properties.shared_bytes_per_block_optin);
    CHECK(properties.l2_bytes > 0);
    CHECK(properties.memory_bytes > kGiB);
    CHECK(!properties.name.empty());
}

GPU_TEST("device: without a limit it takes what is free, less a reserve") {
    Device device(test_device().ordinal(), 0);
    CHECK(device.memory().limit_bytes() > 0);
    CHECK(device.memory().limit_bytes() + kDriverReserveBytes < device.properties().memory_bytes);
    Device larger(test_device().ordinal(), device.properties().memory_bytes * 2);
    CHECK(larger.memory().limit_bytes() == device.properties().memory_bytes);
    Device smaller(test_device().ordinal(), 100 * kMiB);
    CHECK(smaller.memory().limit_bytes() == 100 * kMiB);
}

GPU_TEST("device: calls from another host thread") {
    Device& device = test_device();
    bool worked = false;
    std::thread([&] {
        const Allocation block = device.memory().allocate(4 * kMiB, "test");
        worked = cudaMemsetAsync(block.as<void>(), 1, block.bytes(), device.stream()) == cudaSuccess;
        device.synchronize();
    }).join();
    CHECK(worked);
    CHECK(device.usable());
}

GPU_TEST("device: one that is not there") {
    bool thrown = false;
    try {
        Device device(63, 0);
    } catch (const Error& error) {
        thrown = error.code() == ErrorCode::kInvalid;
    }
    CHECK(thrown);
    CHECK(test_device().usable());
}

GPU_TEST("device: errors that a context survives") {
    CHECK(!is_sticky(cudaSuccess));
    CHECK(!is_sticky(cudaErrorMemoryAllocation));
    CHECK(!is_sticky(cudaErrorInvalidValue));
    CHECK(!is_sticky(cudaErrorInvalidConfiguration));
    CHECK(is_sticky(cudaErrorIllegalAddress));
    CHECK(is_sticky(cudaErrorLaunchFailure));
    CHECK(is_sticky(cudaErrorECCUncorrectable));
}

}  // namespace spillway::cuda
