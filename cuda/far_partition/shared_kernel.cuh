// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "far_partition/combining_buffers.cuh"

namespace spillway::cuda { inline namespace far_partitioning {

// A full buffer in the registers of a warp. What does not fit kHeldWords per lane no buffer has (far_policy.hpp).
struct HeldBuffer {
    uint4 words[kHeldWords];

    __device__ void load(const void* shared, uint32_t count) {
#pragma unroll
        for (uint32_t i = 0; i < kHeldWords; ++i) {
            const uint32_t at = i * kWarpThreads + lane_index();
            if (at < count) words[i] = static_cast<const uint4*>(shared)[at];
        }
    }
    // To aligned lines. kStreaming: nobody reads them soon.
    template <bool kStreaming>
    __device__ void store(char* to, uint32_t count) const {
#pragma unroll
        for (uint32_t i = 0; i < kHeldWords; ++i) {
            const uint32_t at = i * kWarpThreads + lane_index();
            if (at >= count) continue;
            if (kStreaming) {
                __stcs(reinterpret_cast<uint4*>(to) + at, words[i]);
            } else {
                __stcg(reinterpret_cast<uint4*>(to) + at, words[i]);
            }
        }
    }
};

// By a whole warp: a range of n rows of the partition that lies in one piece, for n that divides the rows of a page and
// a cursor that only multiples of n have moved. nullptr: there is no room.
__device__ inline char* take_aligned(const FarTarget& target, uint32_t partition, uint32_t n) {
    unsigned long long address = 0;
    if (lane_index() == 0) {
        const uint64_t at = target.take(partition, n);
        address = reinterpret_cast<unsigned long long>(target.row(partition, at));
    }
    return reinterpret_cast<char*>(__shfl_sync(kFullWarp, address, 0));
}

// What is left in shared memory goes to the block's buffers in GPU memory, by a warp per partition: to
// buffer(partition), behind its first filled(partition) rows. After a barrier of the block.
template <int kWords, class Buffer, class Filled>
__device__ void leave_rows(const CombiningPass& pass, const CombiningBuffers<kWords>& buffers, Buffer buffer,
                           Filled filled) {
    using Row = typename FarTuple<kWords>::Row;
    Row* const memory =
        reinterpret_cast<Row*>(pass.memory) + uint64_t{blockIdx.x} * pass.memory_buffers * pass.memory_rows;
    Leftover* const leftovers = pass.leftovers + uint64_t{blockIdx.x} * pass.partitions;
    for (uint32_t p = warp_index(); p < pass.partitions; p += blockDim.x / kWarpThreads) {
        const uint32_t left = buffers.left(p);
        const uint32_t before = filled(p);
        Row* const to = memory + uint64_t{buffer(p)} * pass.memory_rows + before;
        for (uint32_t i = lane_index(); i < left; i += kWarpThreads) to[i] = buffers.buffer(p)[i];
        if (lane_index() == 0) leftovers[p] = {buffer(p), before + left};
    }
}

// kShared: buffers in shared memory, flushed as whole aligned lines. The warp that flushes takes the buffer into its
// registers and releases it; it asks for a place in far memory and stores without the lock. What is left at the end
// goes to GPU memory, for drain_kernel.
// Bytes: columns read once, rows written once; left-over rows, less than a buffer per block and partition, once more.
template <int kWords>
__global__ void __launch_bounds__(kFarThreads, 1)
    shared_kernel(const FarColumns<kWords> in, const __grid_constant__ CombiningPass pass) {
    using Row = typename FarTuple<kWords>::Row;
    extern __shared__ uint4 shared_words[];
    CombiningBuffers<kWords> buffers(reinterpret_cast<char*>(shared_words), pass);
    buffers.clear();
    __syncthreads();
    const uint32_t words = pass.buffer_rows * static_cast<uint32_t>(sizeof(Row)) / 16;
    for_each_far_row(in, [&](const Row& row, bool there) {
        buffers.add(row, there, [&](uint32_t full) {
            HeldBuffer held;
            held.load(buffers.buffer(full), words);
            __syncwarp();
            if (lane_index() == 0) buffers.release(full);
            char* const to = take_aligned(pass.target, full, pass.buffer_rows);
            if (to != nullptr) held.store<true>(to, words);
        });
    });
    __syncthreads();
    leave_rows<kWords>(
        pass, buffers, [](uint32_t p) { return p; }, [](uint32_t) { return 0U; });
}

// kBulk: the same, but whoever has the lock issues a bulk copy of the buffer and keeps the lock until the copy has read
// it. Several lanes of a warp can do so at once: a lane that waits for its buffer's rows waits for threads that have
// their places. Devices without bulk copies store word by word.
template <int kWords>
__global__ void __launch_bounds__(kFarThreads, 1)
    bulk_kernel(const FarColumns<kWords> in, const __grid_constant__ CombiningPass pass) {
    using Row = typename FarTuple<kWords>::Row;
    extern __shared__ uint4 shared_words[];
    CombiningBuffers<kWords> buffers(reinterpret_cast<char*>(shared_words), pass);
    buffers.clear();
    __syncthreads();
    const uint32_t bytes = pass.buffer_rows * static_cast<uint32_t>(sizeof(Row));
    const auto flush = [&](uint32_t full, uint64_t at) {
        char* const to = pass.target.row(full, at);
        buffers.wait_until_full(full);
        if (to != nullptr && kBulkCopies) {
            fence_shared_for_bulk();
            bulk_store(to, buffers.buffer(full), bytes);
            bulk_commit();
            bulk_wait_read();
        } else if (to != nullptr) {
            const uint4* const from = reinterpret_cast<const uint4*>(buffers.buffer(full));
            for (uint32_t i = 0; i < bytes / 16; ++i) __stcs(reinterpret_cast<uint4*>(to) + i, from[i]);
        }
        buffers.release(full);
    };
    for_each_far_row(in, [&](const Row& row, bool there) {
        const uint32_t own = there ? buffers.partition_of(row) : 0;
        bool pending = there;
        while (__any_sync(kFullWarp, pending)) {
            const uint32_t at = pending ? buffers.place(row, own, true) : kNoSlot;
            const bool is_owner = at == buffers.size();
            if (at < buffers.size()) pending = false;
            const uint64_t first = is_owner ? pass.target.take(own, pass.buffer_rows) : 0;
            __syncwarp();  // rows and pages that lanes of this warp wait for are there
            if (is_owner) flush(own, first);
            if (at == kNoSlot && pending) __nanosleep(kBufferBackoffNs);
        }
    });
    bulk_wait();
    __syncthreads();
    leave_rows<kWords>(
        pass, buffers, [](uint32_t p) { return p; }, [](uint32_t) { return 0U; });
}

}}  // namespace spillway::cuda::far_partitioning
