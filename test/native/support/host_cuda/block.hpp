// SPDX-License-Identifier: Apache-2.0
#pragma once

// One block of a kernel on the host, a thread for each of its threads, so that ThreadSanitizer sees whether accesses to
// memory are ordered: racecheck knows barriers, and no order by acquire and release. Only what kernels of
// cuda/far_partition use. Votes and shuffles order nothing, as on a GPU; __syncwarp() and __syncthreads() do.
#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#define __device__
#define __host__
#define __global__
#define __shared__
#define __grid_constant__
#define __launch_bounds__(...)

struct uint2 {
    uint32_t x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
inline uint2 make_uint2(uint32_t x, uint32_t y) {
    return {x, y};
}
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
    return {x, y, z, w};
}

namespace spillway::host_cuda {

constexpr uint32_t kLanes = 4;

struct Index {
    uint32_t x = 0;
};

// All of `count` threads meet, again and again.
class Meeting {
  public:
    explicit Meeting(uint32_t count) : count_(count) {}
    void wait(uint64_t turn, std::memory_order raise, std::memory_order look) {
        arrived_.fetch_add(1, raise);
        while (arrived_.load(look) < (turn + 1) * count_) std::this_thread::yield();
    }

  private:
    const uint64_t count_;
    std::atomic<uint64_t> arrived_{0};
};

struct Warp {
    Meeting votes{kLanes};
    Meeting syncs{kLanes};
    std::array<std::array<std::atomic<uint64_t>, kLanes>, 2> values{};
};

struct Thread {
    Warp* warp = nullptr;
    Meeting* block = nullptr;
    uint64_t votes = 0;
    uint64_t syncs = 0;
    uint64_t barriers = 0;
};

inline thread_local Thread self;

inline std::array<uint64_t, kLanes> vote(uint64_t value, uint32_t lane) {
    auto& values = self.warp->values[self.votes % 2];
    values[lane].store(value, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    self.warp->votes.wait(self.votes++, std::memory_order_relaxed, std::memory_order_relaxed);
    std::array<uint64_t, kLanes> all;
    for (uint32_t i = 0; i < kLanes; ++i) all[i] = values[i].load(std::memory_order_relaxed);
    return all;
}

}  // namespace spillway::host_cuda

inline thread_local spillway::host_cuda::Index threadIdx, blockIdx, blockDim, gridDim;

inline void __syncthreads() {
    auto& self = spillway::host_cuda::self;
    self.block->wait(self.barriers++, std::memory_order_acq_rel, std::memory_order_acquire);
}
inline void __syncwarp() {
    auto& self = spillway::host_cuda::self;
    self.warp->syncs.wait(self.syncs++, std::memory_order_acq_rel, std::memory_order_acquire);
}
template <class T>
T __shfl_sync(uint32_t, T value, int lane) {
    const auto all = spillway::host_cuda::vote(value, threadIdx.x % spillway::host_cuda::kLanes);
    return static_cast<T>(all[static_cast<size_t>(lane)]);
}
inline uint32_t __ballot_sync(uint32_t, bool is_set) {
    const auto all = spillway::host_cuda::vote(is_set ? 1 : 0, threadIdx.x % spillway::host_cuda::kLanes);
    uint32_t bits = 0;
    for (uint32_t i = 0; i < all.size(); ++i) bits |= static_cast<uint32_t>(all[i]) << i;
    return bits;
}
inline bool __any_sync(uint32_t mask, bool is_set) {
    return __ballot_sync(mask, is_set) != 0;
}
inline int __ffs(int bits) {
    return __builtin_ffs(bits);
}
inline int __popc(uint32_t bits) {
    return __builtin_popcount(bits);
}
inline void __nanosleep(uint32_t) {
    std::this_thread::yield();
}
template <class T>
T __ldcs(const T* from) {
    return *from;
}
template <class T>
T __ldcg(const T* from) {
    return *from;
}
template <class T>
void __stcs(T* to, const T& value) {
    *to = value;
}
template <class T>
void __stcg(T* to, const T& value) {
    *to = value;
}
template <class T, class Value>
T atomicAdd(T* to, Value value) {
    return std::atomic_ref<T>(*to).fetch_add(static_cast<T>(value), std::memory_order_relaxed);
}
inline uint32_t atomicOr(uint32_t* to, uint32_t bits) {
    return std::atomic_ref<uint32_t>(*to).fetch_or(bits, std::memory_order_relaxed);
}
template <class T>
T atomicCAS(T* to, T expected, T value) {
    std::atomic_ref<T>(*to).compare_exchange_strong(expected, value, std::memory_order_relaxed);
    return expected;
}
inline size_t __cvta_generic_to_shared(const void*) {
    return 0;  // addresses for PTX, of which there is none here
}

namespace spillway::host_cuda {

// kernel() by all threads of the only block.
template <class Kernel>
void run_block(uint32_t warps, Kernel kernel) {
    std::vector<Warp> shared(warps);
    Meeting block(warps * kLanes);
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < warps * kLanes; ++i) {
        threads.emplace_back([&, i] {
            self = {&shared[i / kLanes], &block};
            threadIdx.x = i;
            blockDim.x = warps * kLanes;
            gridDim.x = 1;
            kernel();
        });
    }
    for (std::thread& thread : threads) thread.join();
}

}  // namespace spillway::host_cuda
