// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <string>
#include <thread>

#include "busy_multiprocessors.hpp"
#include "device/launch.hpp"

namespace spillway::gpu_bench {

namespace {

// A sample takes less; what waits for the device goes on after that.
constexpr uint64_t kGiveUpNs = 20'000'000'000ULL;
constexpr uint32_t kLookNs = 20'000;
constexpr std::chrono::seconds kStartMax{5};

enum BusyState : uint32_t { kNotStarted, kWaiting, kGaveUp };

__device__ uint64_t now_ns() {
    uint64_t now = 0;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

// Reads a word of GPU memory every so often, since one of the host's would come over the link that is measured, and
// writes one or two of the host's. Its dynamic shared memory is what keeps others away.
__global__ void stay_busy(const volatile uint32_t* end, volatile uint32_t* states) {
    if (threadIdx.x != 0) return;
    volatile uint32_t* const state = states + blockIdx.x;
    const uint64_t start = now_ns();
    *state = kWaiting;
    while (*end == 0) {
        if (now_ns() - start > kGiveUpNs) {
            *state = kGaveUp;
            return;
        }
        __nanosleep(kLookNs);
    }
}

}  // namespace

BusyMultiprocessors::BusyMultiprocessors(cuda::Device& device, uint32_t multiprocessors) : blocks_(multiprocessors) {
    if (blocks_ == 0) return;
    if (blocks_ >= static_cast<uint32_t>(device.properties().multiprocessors)) {
        throw cuda::Error(cuda::ErrorCode::kInvalid, "at least one multiprocessor must be left to the join");
    }
    device.make_current();
    try {
        SPILLWAY_CUDA_CHECK(cudaMalloc(&end_, sizeof(uint32_t)));
        SPILLWAY_CUDA_CHECK(cudaHostAlloc(&states_, blocks_ * sizeof(uint32_t), cudaHostAllocPortable));
        for (uint32_t block = 0; block < blocks_; ++block) states_[block] = kNotStarted;
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(end_, 0, sizeof(uint32_t), stream_.get()));
        cuda::launch(stay_busy, dim3(blocks_), dim3(1), device.properties().shared_bytes_per_block_optin, stream_.get(),
                     static_cast<const volatile uint32_t*>(end_), static_cast<volatile uint32_t*>(states_));
        const auto start = std::chrono::steady_clock::now();
        for (uint32_t block = 0; block < blocks_;) {
            if (static_cast<volatile uint32_t*>(states_)[block] != kNotStarted) {
                ++block;
            } else if (std::chrono::steady_clock::now() - start > kStartMax) {
                throw cuda::Error(cuda::ErrorCode::kInternal, "multiprocessors that were to be busy are not");
            } else {
                std::this_thread::yield();
            }
        }
    } catch (...) {
        release();
        throw;
    }
}

BusyMultiprocessors::~BusyMultiprocessors() {
    release();
}

void BusyMultiprocessors::signal_end() noexcept {
    cuda::discard(cudaMemsetAsync(end_, 1, sizeof(uint32_t), other_.get()));
    cuda::discard(cudaStreamSynchronize(stream_.get()));
}

void BusyMultiprocessors::release() noexcept {
    if (end_ != nullptr) {
        signal_end();
        cuda::discard(cudaFree(end_));
    }
    if (states_ != nullptr) cuda::discard(cudaFreeHost(states_));
    end_ = nullptr;
    states_ = nullptr;
}

void BusyMultiprocessors::end() {
    if (states_ == nullptr) return;
    signal_end();
    stream_.synchronize();
    for (uint32_t block = 0; block < blocks_; ++block) {
        if (states_[block] == kGaveUp) {
            throw cuda::Error(cuda::ErrorCode::kInternal, "busy multiprocessors gave up before the join had ended");
        }
    }
}

}  // namespace spillway::gpu_bench
