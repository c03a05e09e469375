// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>
#include <vector>

#include "device/device.hpp"
#include "device/launch.hpp"
#include "device/staging.hpp"
#include "gpu_test.hpp"
#include "support/error_of.hpp"

namespace spillway::cuda {

using gpu_test::error_of;
using gpu_test::test_device;

namespace {

constexpr uint64_t kChunk = 1 * kMiB;

__global__ void add_one_kernel(uint8_t* bytes, uint64_t count) {
    for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < count;
         i += uint64_t{gridDim.x} * blockDim.x) {
        bytes[i] += 1;
    }
}

std::vector<uint8_t> pattern(uint64_t bytes) {
    std::vector<uint8_t> values(bytes);
    for (uint64_t i = 0; i < bytes; ++i) values[i] = static_cast<uint8_t>((i * 2654435761u) >> 13);
    return values;
}

}  // namespace

GPU_TEST("staging: pageable bytes go there and back, whatever their number") {
    Device& device = test_device();
    Uploader uploader(device, kChunk);
    Downloader downloader(device, kChunk);
    for (const uint64_t bytes :
         {uint64_t{0}, uint64_t{1}, kChunk - 1, kChunk, kChunk + 1, 2 * kChunk, 5 * kChunk + 7}) {
        const std::vector<uint8_t> sent = pattern(bytes);
        std::vector<uint8_t> received(bytes, 0);
        const Allocation block = device.memory().allocate(bytes, "test");
        uploader.follow(device.stream());
        uploader.upload(block.as<void>(), sent.data(), bytes);
        downloader.follow(uploader.stream());
        downloader.download(received.data(), block.as<void>(), bytes);
        CHECK(received == sent);
    }
}

GPU_TEST("staging: copies and kernels follow each other") {
    Device& device = test_device();
    Uploader uploader(device, kChunk);
    Downloader downloader(device, kChunk);
    const uint64_t bytes = 20 * kMiB + 3;
    const std::vector<uint8_t> sent = pattern(bytes);
    for (int round = 0; round < 4; ++round) {
        const Allocation block = device.memory().allocate(bytes, "test");
        uploader.follow(device.stream());
        uploader.upload(block.as<void>(), sent.data(), bytes);
        uploader.precede(device.stream());
        launch(add_one_kernel, dim3(132), dim3(256), 0, device.stream(), block.as<uint8_t>(), bytes);
        downloader.follow(device.stream());
        std::vector<uint8_t> received(bytes);
        downloader.download(received.data(), block.as<void>(), bytes);
        uint64_t wrong = 0;
        for (uint64_t i = 0; i < bytes; ++i) wrong += received[i] != static_cast<uint8_t>(sent[i] + 1);
        CHECK(wrong == 0);
    }
}

GPU_TEST("staging: pinned bytes are copied directly, plain ones of the pool too") {
    const uint64_t bytes = 9 * kMiB;
    const std::vector<uint8_t> sent = pattern(bytes);
    CHECK(!is_pinned(sent.data(), bytes));
    for (const HostPlacement placement : {HostPlacement::kPinned, HostPlacement::kPlain}) {
        Device device(test_device().ordinal(), 64 * kMiB, 64 * kMiB, placement);
        CHECK(device.staging().placement() == placement);
        const PinnedBlock from = device.staging().allocate(bytes, "test");
        const PinnedBlock to = device.staging().allocate(bytes, "test");
        CHECK(is_pinned(from.as<void>(), bytes) == (placement == HostPlacement::kPinned));
        CHECK(device.staging().holds(to.as<void>(), bytes));
        CHECK(!device.staging().holds(sent.data(), bytes));
        CHECK(cudaPeekAtLastError() == cudaSuccess);
        std::memcpy(from.as<void>(), sent.data(), bytes);
        const Allocation block = device.memory().allocate(bytes, "test");
        const uint64_t before_bytes = device.staging().used_bytes();
        Uploader uploader(device);
        uploader.upload_pinned(block.as<void>(), from.as<void>(), bytes);
        Downloader downloader(device);
        downloader.follow(uploader.stream());
        downloader.download_pinned(to.as<void>(), block.as<void>(), bytes);
        downloader.wait();
        CHECK(std::memcmp(to.as<void>(), sent.data(), bytes) == 0);
        CHECK(device.staging().used_bytes() == before_bytes);  // no slots were needed
    }
}

GPU_TEST("staging: the caller's copy is used for every chunk") {
    Device& device = test_device();
    uint64_t copied_bytes = 0;
    int calls = 0;
    const HostCopy copy = [&](void* to, const void* from, uint64_t bytes) {
        std::memcpy(to, from, bytes);
        copied_bytes += bytes;
        ++calls;
    };
    const uint64_t bytes = 3 * kChunk + 1;
    const std::vector<uint8_t> sent = pattern(bytes);
    const Allocation block = device.memory().allocate(bytes, "test");
    Uploader uploader(device, kChunk, copy);
    uploader.upload(block.as<void>(), sent.data(), bytes);
    uploader.wait();
    CHECK(copied_bytes == bytes);
    CHECK(calls == 4);
}

GPU_TEST("staging: a cancelled device copies no more") {
    Device& device = test_device();
    const uint64_t bytes = 4 * kChunk;
    const std::vector<uint8_t> sent = pattern(bytes);
    const Allocation block = device.memory().allocate(bytes, "test");
    int calls = 0;
    Uploader uploader(device, kChunk, [&](void* to, const void* from, uint64_t count) {
        std::memcpy(to, from, count);
        if (++calls == 2) device.set_cancelled(true);
    });
    const Error error = error_of([&] { uploader.upload(block.as<void>(), sent.data(), bytes); });
    device.set_cancelled(false);
    CHECK(error.code() == ErrorCode::kCancelled);
    CHECK(calls == 2);
    uploader.wait();
    uploader.upload(block.as<void>(), sent.data(), bytes);
    uploader.wait();
}

GPU_TEST("staging: the pool has a hard limit and keeps its blocks") {
    StagingPool pool(test_device().ordinal(), 8 * kMiB);
    PinnedBlock block = pool.allocate(6 * kMiB, "test");
    void* const address = block.as<void>();
    const Error error = error_of([&] { pool.allocate(3 * kMiB, "staging of copies"); });
    CHECK(error.code() == ErrorCode::kOutOfMemory);
    CHECK(error.tier == Tier::kHost);
    CHECK(error.limit_reached);
    CHECK(error.free_bytes == 2 * kMiB);
    block.reset();
    block = pool.allocate(6 * kMiB, "test");
    CHECK(block.as<void>() == address);
    CHECK(reinterpret_cast<uint64_t>(address) % 4096 == 0);
    block.reset();
    pool.trim();
    CHECK(pool.reserved_bytes() == 0);
}

}  // namespace spillway::cuda
