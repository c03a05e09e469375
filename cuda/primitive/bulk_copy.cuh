// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Bulk asynchronous copies between shared and global memory (compute capability 9.0: one thread issues a copy of up to
// a whole tile, no registers and no load or store instructions). Addresses and sizes are multiples of 16 bytes.
// Devices before 9.0 have none: kBulkCopies is false there and callers copy with all threads. So it is in a build with
// SPILLWAY_CUDA_PLAIN_COPIES, for tools that do not see what bulk copies write (compute-sanitizer's initcheck calls it
// uninitialized).
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && !defined(SPILLWAY_CUDA_PLAIN_COPIES)
#define SPILLWAY_BULK_COPIES 1
#else
#define SPILLWAY_BULK_COPIES 0
#endif

namespace spillway::cuda { inline namespace primitive {

#if SPILLWAY_BULK_COPIES
constexpr bool kBulkCopies = true;
#else
constexpr bool kBulkCopies = false;
#endif

__device__ inline uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Between ordinary accesses to shared memory and bulk copies of it: by each thread that made them, before the barrier
// that the issuing thread waits at.
__device__ inline void fence_shared_for_bulk() {
#if SPILLWAY_BULK_COPIES
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

__device__ inline void bulk_store(void* global, const void* shared, uint32_t bytes) {
#if SPILLWAY_BULK_COPIES
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
                 "r"(shared_address(shared)), "r"(bytes)
                 : "memory");
#endif
}
__device__ inline void bulk_commit() {
#if SPILLWAY_BULK_COPIES
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}
// Until the shared memory of this thread's stores has been read, and may be overwritten.
__device__ inline void bulk_wait_read() {
#if SPILLWAY_BULK_COPIES
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
}
// Until this thread's stores are done.
__device__ inline void bulk_wait() {
#if SPILLWAY_BULK_COPIES
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
}

// Brings a range into the L2 cache, in the background.
__device__ inline void prefetch_l2(const void* global, uint32_t bytes) {
#if SPILLWAY_BULK_COPIES
    if (bytes > 0) asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(global), "r"(bytes) : "memory");
#endif
}

// Counts the bytes of loads into shared memory; one load at a time. init() by one thread, then a barrier.
class BulkLoad {
  public:
    __device__ void init() {
#if SPILLWAY_BULK_COPIES
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier_)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
    }
    // By one thread, when no thread uses the destination any more (barrier, and fence_shared_for_bulk() before it).
    __device__ void start(void* shared, const void* global, uint32_t bytes) {
        expect(bytes);
        if (bytes > 0) bring(shared, global, bytes);
    }
    // The same in parts: first how many bytes they have together.
    __device__ void expect(uint32_t bytes) {
#if SPILLWAY_BULK_COPIES
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier_)),
                     "r"(bytes)
                     : "memory");
#endif
    }
    __device__ void bring(void* shared, const void* global, uint32_t bytes) {
#if SPILLWAY_BULK_COPIES
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         shared_address(shared)),
                     "l"(global), "r"(bytes), "r"(shared_address(&barrier_))
                     : "memory");
#endif
    }
    // By every thread that reads what the load brings. phase: 0 at the first load, flipped by each wait.
    __device__ void wait(uint32_t& phase) {
#if SPILLWAY_BULK_COPIES
        uint32_t done = 0;
        while (done == 0) {
            asm volatile(
                "{\n"
                ".reg .pred complete;\n"
                "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
                "selp.u32 %0, 1, 0, complete;\n"
                "}"
                : "=r"(done)
                : "r"(shared_address(&barrier_)), "r"(phase)
                : "memory");
        }
        phase ^= 1;
#endif
    }

  private:
    alignas(8) uint64_t barrier_;
};

}}  // namespace spillway::cuda::primitive
