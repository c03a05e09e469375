// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "device/launch.hpp"
#include "gpu_test.hpp"
#include "support/error_of.hpp"

namespace spillway::cuda {

using gpu_test::error_of;
using gpu_test::test_device;

namespace {

__global__ void fill_kernel(uint32_t* values, uint64_t count, uint32_t value) {
    for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < count;
         i += uint64_t{gridDim.x} * blockDim.x) {
        values[i] = value;
    }
}

void fill(Device& device, const Allocation& block, uint32_t value) {
    launch(fill_kernel, dim3(64), dim3(256), 0, device.stream(), block.as<uint32_t>(), block.bytes() / 4, value);
}

}  // namespace

GPU_TEST("device memory: blocks are counted, cached and reused") {
    MemoryPool pool(test_device().ordinal(), 64 * kMiB);
    Allocation block = pool.allocate(10 * kMiB, "test");
    const void* const address = block.as<void>();
    CHECK(block.bytes() == 10 * kMiB);
    CHECK(pool.used_bytes() == 10 * kMiB);
    block.reset();
    CHECK(!block);
    CHECK(pool.used_bytes() == 0);
    CHECK(pool.peak_bytes() == 10 * kMiB);
    CHECK(pool.reserved_bytes() == 10 * kMiB);
    block = pool.allocate(10 * kMiB - 5, "test");
    CHECK(block.as<void>() == address);
    Allocation moved = std::move(block);
    CHECK(!block && moved);
    CHECK(pool.blocks() == 1);
    moved.reset();
    pool.reset_peak();
    CHECK(pool.peak_bytes() == 0);
    pool.trim();
    CHECK(pool.reserved_bytes() == 0);
    CHECK(!pool.allocate(0, "test"));
}

GPU_TEST("device memory: the limit is hard and the error tells it") {
    MemoryPool pool(test_device().ordinal(), 8 * kMiB);
    const Allocation block = pool.allocate(6 * kMiB, "test");
    const Error error = error_of([&] { pool.allocate(3 * kMiB, "hash table"); });
    CHECK(error.code() == ErrorCode::kOutOfMemory);
    CHECK(error.limit_reached);
    CHECK(error.tier == Tier::kDevice);
    CHECK(error.wanted_bytes == 3 * kMiB);
    CHECK(error.free_bytes == 2 * kMiB);
    CHECK(error.limit_bytes == 8 * kMiB);
    CHECK(std::string(error.what()).find("hash table") == 0);
    const Allocation rest = pool.allocate(2 * kMiB, "test");
    CHECK(rest.bytes() == 2 * kMiB);
}

GPU_TEST("device memory: a claim keeps what its operation gives back, from others") {
    MemoryPool pool(test_device().ordinal(), 16 * kMiB);
    PoolClaim claim = pool.claim(10 * kMiB, "claim");
    CHECK(pool.used_bytes() == 0);
    CHECK(pool.free_bytes() == 6 * kMiB);
    CHECK(error_of([&] { pool.claim(7 * kMiB, "claim"); }).limit_reached);
    CHECK(error_of([&] { pool.allocate(7 * kMiB, "test"); }).limit_reached);
    Allocation left;
    {
        const PoolClaim::User user(claim);
        left = pool.allocate(8 * kMiB, "test");
        CHECK(pool.free_bytes() == 8 * kMiB);
    }
    CHECK(pool.free_bytes() == 6 * kMiB);
    Allocation others = pool.allocate(6 * kMiB, "test");
    left.reset();
    CHECK(pool.free_bytes() == 0);
    CHECK(error_of([&] { pool.allocate(kMiB, "test"); }).limit_reached);
    {
        // More than it claims, of what others leave, and then all of that is claimed.
        const PoolClaim::User user(claim);
        left = pool.allocate(10 * kMiB, "test");
        CHECK(error_of([&] { pool.allocate(kMiB, "test"); }).limit_reached);
        others.reset();
        const Allocation more = pool.allocate(2 * kMiB, "test");
        claim.keep_peak();
    }
    CHECK(pool.free_bytes() == 4 * kMiB);
    // Its blocks may stay longer.
    claim.reset();
    CHECK(pool.free_bytes() == 6 * kMiB);
    left.reset();
    CHECK(pool.free_bytes() == 16 * kMiB);
}

GPU_TEST("device memory: what the driver refuses leaves no error behind") {
    Device& device = test_device();
    MemoryPool pool(device.ordinal(), device.properties().memory_bytes * 4);
    const Error error = error_of([&] { pool.allocate(device.properties().memory_bytes * 2, "too much"); });
    CHECK(error.code() == ErrorCode::kOutOfMemory);
    CHECK(!error.limit_reached);
    CHECK(error.free_bytes < error.wanted_bytes);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    CHECK(device.usable());
    CHECK(pool.allocate(kMiB, "test").bytes() == kMiB);
}

GPU_TEST("device memory: cached segments make room when the driver has no more") {
    Device& device = test_device();
    device.memory().trim();
    MemoryPool pool(device.ordinal(), device.properties().memory_bytes);
    const uint64_t free_bytes = pool.free_bytes();
    pool.allocate(free_bytes / 10 * 6, "first").reset();
    CHECK(pool.reserved_bytes() >= free_bytes / 10 * 6);
    const Allocation second = pool.allocate(free_bytes / 10 * 7, "second");
    CHECK(second.bytes() == free_bytes / 10 * 7);
    CHECK(pool.reserved_bytes() < free_bytes);
}

GPU_TEST("device memory: injected faults") {
    MemoryPool pool(test_device().ordinal(), 8 * kMiB);
    pool.fail_after(2);
    const Allocation first = pool.allocate(512, "test");
    const Error error = error_of([&] { pool.allocate(512, "test"); });
    CHECK(error.code() == ErrorCode::kOutOfMemory);
    CHECK(!error.limit_reached);
    const Allocation third = pool.allocate(512, "test");
    CHECK(first && third);
    CHECK(pool.used_bytes() == 1024);
}

GPU_TEST("device memory: a block is reused in the order of the stream") {
    Device& device = test_device();
    const uint64_t bytes = 256 * kMiB;
    std::vector<uint32_t> values(bytes / 4);
    for (uint32_t round = 1; round <= 8; ++round) {
        // The block of the round before comes back while its kernel may still be running.
        const Allocation block = device.memory().allocate(bytes, "test");
        fill(device, block, round);
        if (round < 8) continue;
        SPILLWAY_CUDA_CHECK(
            cudaMemcpyAsync(values.data(), block.as<void>(), bytes, cudaMemcpyDeviceToHost, device.stream()));
        device.synchronize();
    }
    uint64_t wrong = 0;
    for (const uint32_t value : values) wrong += value != 8;
    CHECK(wrong == 0);
}

}  // namespace spillway::cuda
