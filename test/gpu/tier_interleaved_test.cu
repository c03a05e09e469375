// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "device/launch.hpp"
#include "gpu_test.hpp"
#include "support/error_of.hpp"
#include "support/tier_check.hpp"
#include "tier/interleaved_range.hpp"

namespace spillway::cuda {

using gpu_test::error_of;
using gpu_test::has_host_stripes;
using gpu_test::need_host_stripes;
using gpu_test::open_peer;
using gpu_test::small_or_full;
using gpu_test::test_device;

namespace {

constexpr uint64_t kTestStripe = 2 * kMiB;

__host__ __device__ uint64_t word_at(uint64_t index, uint64_t round) {
    return (index + 1) * 0x9E3779B97F4A7C15u + round;
}

// Every step-th word.
__global__ void write_words_kernel(uint64_t* words, uint64_t count, uint64_t step, uint64_t round) {
    const uint64_t threads = uint64_t{gridDim.x} * blockDim.x;
    for (uint64_t i = (blockIdx.x * uint64_t{blockDim.x} + threadIdx.x) * step; i < count; i += threads * step) {
        words[i] = word_at(i, round);
    }
}

__global__ void count_wrong_words_kernel(const uint64_t* words, uint64_t count, uint64_t step, uint64_t round,
                                         unsigned long long* wrong) {
    const uint64_t threads = uint64_t{gridDim.x} * blockDim.x;
    for (uint64_t i = (blockIdx.x * uint64_t{blockDim.x} + threadIdx.x) * step; i < count; i += threads * step) {
        if (words[i] != word_at(i, round)) atomicAdd(wrong, 1ull);
    }
}

uint64_t words_of(const InterleavedRange& range) {
    return range.bytes() / sizeof(uint64_t);
}
// A prime number of words: the words looked at lie at all places of a sector.
uint64_t word_step() {
    return small_or_full(1021, 1);
}

void write_on(Device& device, const InterleavedRange& range, uint64_t round) {
    launch(write_words_kernel, dim3(64), dim3(256), 0, device.stream(), range.as<uint64_t>(), words_of(range),
           word_step(), round);
    device.synchronize();
}

uint64_t wrong_on(Device& device, const InterleavedRange& range, uint64_t round) {
    const Allocation wrong = device.memory().allocate(sizeof(uint64_t), "test");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(wrong.as<void>(), 0, wrong.bytes(), device.stream()));
    launch(count_wrong_words_kernel, dim3(64), dim3(256), 0, device.stream(), range.as<const uint64_t>(),
           words_of(range), word_step(), round, wrong.as<unsigned long long>());
    uint64_t count = 0;
    SPILLWAY_CUDA_CHECK(
        cudaMemcpyAsync(&count, wrong.as<void>(), sizeof count, cudaMemcpyDeviceToHost, device.stream()));
    device.synchronize();
    return count;
}

// What the host sees of its stripes after a kernel has written `round`, and writes there for the next one.
uint64_t wrong_on_host(const InterleavedRange& range, uint64_t round) {
    uint64_t wrong = 0;
    const uint64_t stripe_words = range.stripe_bytes() / sizeof(uint64_t);
    const uint64_t step = word_step();
    for (const StripeRun& run : range.runs()) {
        if (run.tier != PageTier::kHost) continue;
        const uint64_t end = (run.first + run.stripes) * stripe_words;
        for (uint64_t i = (run.first * stripe_words + step - 1) / step * step; i < end; i += step) {
            wrong += range.as<uint64_t>()[i] != word_at(i, round);
            range.as<uint64_t>()[i] = word_at(i, round + 1);
        }
    }
    return wrong;
}

void check_range(Device& device, InterleavedMemory& memory, const StripeShares& shares, uint64_t bytes) {
    const InterleavedRange range(memory, shares, bytes);
    const uint64_t stripes = (bytes + kTestStripe - 1) / kTestStripe;
    CHECK_EQ(range.bytes(), stripes * kTestStripe);
    CHECK_EQ(
        range.stripes_of(PageTier::kDevice) + range.stripes_of(PageTier::kPeer) + range.stripes_of(PageTier::kHost),
        stripes);
    if (stripes == 0) return;
    CHECK_EQ(reinterpret_cast<uint64_t>(range.as<void>()) % kTestStripe, 0);
    write_on(device, range, 1);
    CHECK_EQ(wrong_on(device, range, 1), 0);
    CHECK_EQ(wrong_on_host(range, 1), 0);
    if (shares.device == 0 && shares.peer == 0) CHECK_EQ(wrong_on(device, range, 2), 0);  // what the host has written
    write_on(device, range, 3);
    CHECK_EQ(wrong_on(device, range, 3), 0);
}

void check_peer(Device& device, Device& peer) {
    InterleavedMemory memory(device, kTestStripe, &peer);
    const bool host = has_host_stripes(memory);
    for (const StripeShares shares : {StripeShares{1, 1, 0}, {0, 1, 0}, {1, 1, 2}, {2, 1, 5}}) {
        if (shares.host > 0 && !host) continue;
        check_range(device, memory, shares, 13 * kTestStripe);
        // The peer reads what the device wrote: its accesses are allowed too.
        const InterleavedRange range(memory, shares, 5 * kTestStripe);
        write_on(device, range, 9);
        CHECK_EQ(wrong_on(peer, range, 9), 0);
    }
    CHECK_EQ(peer.memory().used_bytes(), 13 * kTestStripe);
    memory.trim();
    CHECK_EQ(peer.memory().used_bytes(), 0);
}

}  // namespace

GPU_TEST("interleaved range: kernels reach all of it, the host its stripes") {
    Device& device = test_device();
    const uint64_t device_bytes = device.memory().used_bytes();
    const uint64_t host_bytes = device.staging().used_bytes();
    {
        InterleavedMemory memory(device, kTestStripe);
        need_host_stripes(memory);
        for (const StripeShares shares :
             {StripeShares{1, 0, 1}, {1, 0, 3}, {3, 0, 1}, {2, 0, 5}, {1, 0, 0}, {0, 0, 1}}) {
            for (const uint64_t bytes :
                 {uint64_t{0}, uint64_t{1}, kTestStripe, kTestStripe + 1, 13 * kTestStripe - 8}) {
                check_range(device, memory, shares, bytes);
            }
        }
        CHECK_EQ(memory.stripes().stripes_in_use(PageTier::kDevice), 0);
        CHECK_EQ(memory.stripes().stripes(PageTier::kHost), 13);
        CHECK_EQ(device.memory().used_bytes(), device_bytes + 13 * kTestStripe);
    }
    CHECK_EQ(device.memory().used_bytes(), device_bytes);
    CHECK_EQ(device.staging().used_bytes(), host_bytes);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
}

GPU_TEST("interleaved range: larger stripes") {
    Device& device = test_device();
    for (const uint64_t stripe_bytes : {kStripeBytes, kStripeBytesMax}) {
        InterleavedMemory memory(device, stripe_bytes);
        need_host_stripes(memory);
        const InterleavedRange range(memory, {1, 0, 1}, 2 * stripe_bytes + 1);
        CHECK_EQ(range.stripes(), 3);
        CHECK(range.tier_of(0) == PageTier::kHost);
        CHECK(range.tier_of(stripe_bytes) == PageTier::kDevice);
        write_on(device, range, 1);
        CHECK_EQ(wrong_on(device, range, 1), 0);
        CHECK_EQ(wrong_on_host(range, 1), 0);
    }
}

GPU_TEST("interleaved range: stripes of a peer") {
    check_peer(test_device(), *open_peer(64 * kMiB));
}

GPU_TEST("interleaved range: stripes of a peer that is the same GPU once more") {
    Device own(test_device().ordinal(), 64 * kMiB);
    check_peer(test_device(), own);
}

GPU_TEST("interleaved range: the limits of both tiers are hard") {
    // A GPU opened once more, with little.
    Device device(test_device().ordinal(), 8 * kMiB, 6 * kMiB);
    InterleavedMemory memory(device, kTestStripe);
    need_host_stripes(memory);
    InterleavedRange range(memory, {4, 0, 3}, 7 * kTestStripe);
    CHECK_EQ(device.memory().used_bytes(), 8 * kMiB);
    CHECK_EQ(device.staging().used_bytes(), 6 * kMiB);
    for (const StripeShares shares : {StripeShares{1, 0, 0}, {0, 0, 1}}) {
        const Error error = error_of([&] { InterleavedRange(memory, shares, 1); });
        CHECK_EQ(error.code(), ErrorCode::kOutOfMemory);
        CHECK(error.limit_reached);
        CHECK(error.tier == (shares.host > 0 ? Tier::kHost : Tier::kDevice));
        CHECK_EQ(error.wanted_bytes, kTestStripe);
    }
    CHECK_EQ(error_of([&] { device.memory().allocate(1, "test"); }).code(), ErrorCode::kOutOfMemory);
    range = InterleavedRange();
    CHECK_EQ(device.memory().used_bytes(), 8 * kMiB);  // kept for the next range
    const InterleavedRange next(memory, {1, 0, 0}, 4 * kTestStripe);
    memory.trim();
    CHECK_EQ(device.staging().used_bytes(), 0);
    CHECK_EQ(device.memory().used_bytes(), 8 * kMiB);
    const Error error = error_of([&] { InterleavedRange(memory, {1, 0, 1}, 8 * kTestStripe); });
    CHECK_EQ(error.code(), ErrorCode::kOutOfMemory);
    CHECK_EQ(memory.stripes().stripes_in_use(PageTier::kDevice), 4);
    CHECK_EQ(memory.stripes().stripes_in_use(PageTier::kHost), 0);
}

GPU_TEST("interleaved range: what cannot be") {
    Device& device = test_device();
    for (const uint64_t stripe_bytes : {uint64_t{0}, kMiB, 3 * kMiB, 128 * kMiB}) {
        CHECK_THROWS(InterleavedMemory(device, stripe_bytes), ErrorCode::kInvalid);
    }
    InterleavedMemory memory(device, kTestStripe);
    CHECK_THROWS(InterleavedRange(memory, {0, 0, 0}, kTestStripe), ErrorCode::kInvalid);
    CHECK_THROWS(InterleavedRange(memory, {1, 1, 0}, kTestStripe), ErrorCode::kInvalid);
    CHECK(!memory.obstacle({0, 1, 0}).empty());
    CHECK(memory.obstacle({1, 0, 0}).empty());
}

}  // namespace spillway::cuda
