// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "primitive/bulk_copy.cuh"

// Atomic operations with the order that a lock or a publication needs and no more. In PTX: what the header of the
// toolkit offers for it costs seconds of compile time per file.
namespace spillway::cuda { inline namespace far_partitioning {

// Shared memory, between the threads of a block.
__device__ inline uint32_t load_relaxed(const uint32_t* shared) {
    uint32_t value;
    asm volatile("ld.relaxed.cta.shared.u32 %0, [%1];" : "=r"(value) : "r"(shared_address(shared)) : "memory");
    return value;
}
__device__ inline uint32_t load_acquire(const uint32_t* shared) {
    uint32_t value;
    asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(value) : "r"(shared_address(shared)) : "memory");
    return value;
}
__device__ inline void store_relaxed(uint32_t* shared, uint32_t value) {
    asm volatile("st.relaxed.cta.shared.u32 [%0], %1;" ::"r"(shared_address(shared)), "r"(value) : "memory");
}
__device__ inline uint32_t add_acquire(uint32_t* shared, uint32_t value) {
    uint32_t before;
    asm volatile("atom.acquire.cta.shared.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "r"(shared_address(shared)), "r"(value)
                 : "memory");
    return before;
}
__device__ inline void add_release(uint32_t* shared, uint32_t value) {
    asm volatile("red.release.cta.shared.add.u32 [%0], %1;" ::"r"(shared_address(shared)), "r"(value) : "memory");
}
// A plain store would not do: it may not be seen in order with the atomic additions of others.
__device__ inline uint32_t exchange_release(uint32_t* shared, uint32_t value) {
    uint32_t before;
    asm volatile("atom.release.cta.shared.exch.b32 %0, [%1], %2;"
                 : "=r"(before)
                 : "r"(shared_address(shared)), "r"(value)
                 : "memory");
    return before;
}

// Device memory, between the blocks of a grid. Past the first-level cache, and no more: what is read so is complete in
// one word, and to acquire would empty that cache each time.
__device__ inline uint64_t load_relaxed_global(const uint64_t* global) {
    uint64_t value;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(global) : "memory");
    return value;
}
__device__ inline uint32_t load_relaxed_global(const uint32_t* global) {
    uint32_t value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(global) : "memory");
    return value;
}

}}  // namespace spillway::cuda::far_partitioning
