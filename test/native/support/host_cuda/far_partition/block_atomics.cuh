// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "block.hpp"
#include "primitive/bulk_copy.cuh"

// The operations of cuda/far_partition/block_atomics.cuh with the same order, for the host.
namespace spillway::cuda {

inline uint32_t load_of(const uint32_t* shared, std::memory_order order) {
    return std::atomic_ref<uint32_t>(const_cast<uint32_t&>(*shared)).load(order);
}
inline uint32_t load_relaxed(const uint32_t* shared) {
    return load_of(shared, std::memory_order_relaxed);
}
inline uint32_t load_acquire(const uint32_t* shared) {
    std::this_thread::yield();  // who waits for it waits for a thread that may have no core
    return load_of(shared, std::memory_order_acquire);
}
inline void store_relaxed(uint32_t* shared, uint32_t value) {
    std::atomic_ref<uint32_t>(*shared).store(value, std::memory_order_relaxed);
}
inline uint32_t add_acquire(uint32_t* shared, uint32_t value) {
    return std::atomic_ref<uint32_t>(*shared).fetch_add(value, std::memory_order_acquire);
}
inline void add_release(uint32_t* shared, uint32_t value) {
    std::atomic_ref<uint32_t>(*shared).fetch_add(value, std::memory_order_release);
}
inline uint32_t exchange_release(uint32_t* shared, uint32_t value) {
    return std::atomic_ref<uint32_t>(*shared).exchange(value, std::memory_order_release);
}
inline uint32_t load_relaxed_global(const uint32_t* global) {
    return load_relaxed(global);
}
inline uint64_t load_relaxed_global(const uint64_t* global) {
    return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(*global)).load(std::memory_order_relaxed);
}

}  // namespace spillway::cuda
