// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "device/plain_host_memory.hpp"
#include "json_object.hpp"
#include "tier/interleaved_range.hpp"
#include "tier_bench.hpp"

namespace spillway::gpu_bench {

namespace {

using cuda::kGiB;
using cuda::kMiB;

constexpr uint64_t kHostAllocBytesMax = kGiB;  // at 3.6 GB/s

double milliseconds_of(const std::function<void()>& body) {
    const auto start = std::chrono::steady_clock::now();
    body();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// Times of the parts of getting some memory and giving it back, by their names in the order of their coming.
class TierCosts {
  public:
    explicit TierCosts(uint64_t bytes) : bytes_(bytes) {}
    void time(const char* kind, const std::function<void()>& body) {
        const double ms = milliseconds_of(body);
        for (auto& [name, samples] : kinds_) {
            if (name == kind) return samples.push_back(ms);
        }
        kinds_.push_back({kind, {ms}});
    }
    void print() const {
        for (const auto& [name, samples] : kinds_) {
            Object fields;
            fields.add("measure", gpu_test::json_text("allocation")).add("kind", gpu_test::json_text(name));
            print_tier_times(fields.close(), bytes_, samples);
        }
    }

  private:
    const uint64_t bytes_;
    std::vector<std::pair<std::string, std::vector<double>>> kinds_;
};

void time_host_alloc(TierCosts& costs, uint64_t bytes) {
    void* data = nullptr;
    costs.time("cuda_host_alloc",
               [&] { SPILLWAY_CUDA_CHECK(cudaHostAlloc(&data, bytes, cudaHostAllocPortable | cudaHostAllocMapped)); });
    costs.time("cuda_free_host", [&] { SPILLWAY_CUDA_CHECK(cudaFreeHost(data)); });
}

// The steps of the pinned pool one by one.
void time_registering(TierCosts& costs, uint64_t bytes) {
    cuda::PlainHostMemory memory;
    costs.time("map_and_touch", [&] { memory = cuda::PlainHostMemory(bytes, 0); });
    if (!memory) throw cuda::Error(cuda::ErrorCode::kOutOfMemory, "the system has no host memory for the benchmark");
    costs.time("cuda_host_register", [&] {
        SPILLWAY_CUDA_CHECK(cudaHostRegister(memory.data(), bytes, cudaHostRegisterPortable | cudaHostRegisterMapped));
    });
    costs.time("cuda_host_unregister", [&] { SPILLWAY_CUDA_CHECK(cudaHostUnregister(memory.data())); });
    costs.time("unmap", [&] { memory = cuda::PlainHostMemory(); });
}

void time_pools(cuda::Device& device, TierCosts& costs, uint64_t bytes) {
    cuda::PinnedBlock pinned;
    costs.time("pinned_pool", [&] { pinned = device.staging().allocate(bytes, "benchmark"); });
    pinned.reset();
    costs.time("pinned_pool_cached", [&] { pinned = device.staging().allocate(bytes, "benchmark"); });
    pinned.reset();
    costs.time("pinned_pool_trim", [&] { device.staging().trim(); });
    cuda::Allocation block;
    costs.time("device_pool", [&] { block = device.memory().allocate(bytes, "benchmark"); });
    block.reset();
    costs.time("device_pool_trim", [&] { device.memory().trim(); });
}

void time_stripes(cuda::Device& device, TierCosts& costs, uint64_t bytes, uint64_t stripe_mib) {
    const std::string suffix = "_stripes_" + std::to_string(stripe_mib) + "_mib";
    cuda::InterleavedMemory memory(device, stripe_mib * kMiB);
    const auto time_tier = [&](const std::string& tier, const cuda::StripeShares& shares) {
        if (!memory.obstacle(shares).empty()) return;
        cuda::InterleavedRange range;
        costs.time((tier + suffix).c_str(), [&] { range = cuda::InterleavedRange(memory, shares, bytes); });
        costs.time((tier + suffix + "_unmap").c_str(), [&] { range = cuda::InterleavedRange(); });
        costs.time((tier + suffix + "_cached").c_str(), [&] { range = cuda::InterleavedRange(memory, shares, bytes); });
        range = cuda::InterleavedRange();
        costs.time((tier + suffix + "_trim").c_str(), [&] { memory.trim(); });
    };
    time_tier("device", {1, 0, 0});
    time_tier("host", {0, 0, 1});
    time_tier("interleaved", {1, 0, 1});
}

}  // namespace

void measure_tier_allocations(cuda::Device& device, const TierBenchOptions& options) {
    // Where cudaHostAlloc stops being cheaper than registering.
    for (uint64_t bytes = kMiB; bytes <= 64 * kMiB && bytes <= options.bytes; bytes *= 2) {
        TierCosts costs(bytes);
        for (uint64_t i = 0; i < options.samples; ++i) {
            time_host_alloc(costs, bytes);
            time_registering(costs, bytes);
        }
        costs.print();
    }
    const uint64_t host_alloc_bytes = std::min(options.bytes, kHostAllocBytesMax);
    TierCosts host_alloc(host_alloc_bytes);
    time_host_alloc(host_alloc, host_alloc_bytes);
    host_alloc.print();
    TierCosts costs(options.bytes);
    for (uint64_t i = 0; i < options.samples; ++i) {
        time_registering(costs, options.bytes);
        time_pools(device, costs, options.bytes);
    }
    for (const uint64_t stripe_mib : options.stripes_mib) time_stripes(device, costs, options.bytes, stripe_mib);
    costs.print();
}

}  // namespace spillway::gpu_bench
