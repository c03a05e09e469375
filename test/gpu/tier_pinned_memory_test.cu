// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>
#include <vector>

#include "device/device.hpp"
#include "device/launch.hpp"
#include "device/staging.hpp"
#include "gpu_test.hpp"
#include "support/error_of.hpp"

// Pinned host memory in segments large enough to be mapped and registered.
namespace spillway::cuda {

using gpu_test::error_of;
using gpu_test::small_or_full;
using gpu_test::test_device;

namespace {

__global__ void add_word_kernel(uint64_t* words, uint64_t count, uint64_t addend) {
    for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < count;
         i += uint64_t{gridDim.x} * blockDim.x) {
        words[i] += addend;
    }
}

// Both ways: the host writes, a kernel adds at the same addresses, the host reads.
uint64_t words_wrong_after_kernel(Device& device, const PinnedBlock& block) {
    auto* const words = block.as<uint64_t>();
    const uint64_t count = block.bytes() / sizeof *words;
    for (uint64_t i = 0; i < count; ++i) words[i] = i * 3;
    launch(add_word_kernel, dim3(32), dim3(256), 0, device.stream(), words, count, uint64_t{7});
    device.synchronize();
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; ++i) wrong += words[i] != i * 3 + 7;
    return wrong;
}

}  // namespace

GPU_TEST("pinned memory: kernels reach segments of every size at the host's address") {
    Device& device = test_device();
    StagingPool pool(device.ordinal(), kGiB, HostPlacement::kPinned);
    for (const uint64_t bytes : {uint64_t{4096}, kMiB, kRegisteredBytesMin - 4096, kRegisteredBytesMin,
                                 kRegisteredBytesMin + 4096, small_or_full(17 * kMiB, 300 * kMiB)}) {
        PinnedBlock block = pool.allocate(bytes, "test");
        CHECK(is_pinned(block.as<void>(), bytes));
        cudaPointerAttributes attributes{};
        CHECK_CUDA(cudaPointerGetAttributes(&attributes, block.as<void>()));
        CHECK(attributes.devicePointer == block.as<void>());
        CHECK_EQ(words_wrong_after_kernel(device, block), 0);
        block.reset();
        pool.trim();  // the next size gets a segment of its own
        CHECK_EQ(pool.reserved_bytes(), 0);
    }
    CHECK(cudaPeekAtLastError() == cudaSuccess);
}

GPU_TEST("pinned memory: large segments are pinned no longer than they are held") {
    StagingPool pool(test_device().ordinal(), 64 * kMiB, HostPlacement::kPinned);
    PinnedBlock block = pool.allocate(40 * kMiB, "test");
    void* const address = block.as<void>();
    CHECK_EQ(reinterpret_cast<uint64_t>(address) % (2 * kMiB), 0);
    CHECK(is_pinned(address, 40 * kMiB));
    CHECK_EQ(pool.reserved_bytes(), 40 * kMiB);
    block.reset();
    CHECK(is_pinned(address, 40 * kMiB));  // cached
    pool.trim();
    CHECK(!is_pinned(address, 40 * kMiB));
    CHECK_EQ(pool.reserved_bytes(), 0);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
}

GPU_TEST("pinned memory: the limit is exact for large segments") {
    StagingPool pool(test_device().ordinal(), 48 * kMiB, HostPlacement::kPinned);
    const PinnedBlock first = pool.allocate(32 * kMiB, "test");
    const PinnedBlock second = pool.allocate(16 * kMiB, "test");
    CHECK_EQ(pool.used_bytes(), 48 * kMiB);
    CHECK(pool.reserved_bytes() <= 48 * kMiB);
    const Error error = error_of([&] { pool.allocate(1, "pages of the host"); });
    CHECK_EQ(error.code(), ErrorCode::kOutOfMemory);
    CHECK(error.tier == Tier::kHost);
    CHECK(error.limit_reached);
}

GPU_TEST("pinned memory: more than the system has is refused") {
    Device& device = test_device();
    StagingPool pool(device.ordinal(), uint64_t{1} << 50, HostPlacement::kPinned);
    const Error error = error_of([&] { pool.allocate(uint64_t{1} << 49, "too much"); });
    CHECK_EQ(error.code(), ErrorCode::kOutOfMemory);
    CHECK(error.tier == Tier::kHost);
    CHECK(!error.limit_reached);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    CHECK(device.usable());
    CHECK_EQ(pool.used_bytes(), 0);
    CHECK_EQ(words_wrong_after_kernel(device, pool.allocate(9 * kMiB, "test")), 0);
}

}  // namespace spillway::cuda
