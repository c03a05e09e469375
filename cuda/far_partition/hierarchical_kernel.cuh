// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "far_partition/shared_kernel.cuh"

namespace spillway::cuda { inline namespace far_partitioning {

// A second level of buffers in GPU memory: one for each partition of the block and a spare one for each warp.
template <int kWords>
class SecondLevel {
  public:
    using Row = typename FarTuple<kWords>::Row;

    __device__ SecondLevel(uint32_t* shared, const CombiningPass& pass)
        : state_(shared),
          rows_(pass.memory_rows),
          memory_(reinterpret_cast<Row*>(pass.memory) + uint64_t{blockIdx.x} * pass.memory_buffers * pass.memory_rows),
          spare_(pass.partitions + warp_index()) {}

    // By all threads; a barrier must follow.
    __device__ void clear(uint32_t partitions) {
        for (uint32_t p = threadIdx.x; p < partitions; p += blockDim.x) state_[p] = pack(p, 0);
    }
    __device__ uint32_t buffer(uint32_t partition) const { return state_[partition] >> kFilledBits; }
    __device__ uint32_t filled(uint32_t partition) const { return state_[partition] & kFilledMask; }

    // By the whole warp that has the lock on the partition's first level. true: the buffer was full; an empty one is in
    // its place, and the full one is this warp's.
    __device__ bool append(uint32_t partition, const HeldBuffer& held, uint32_t words, uint32_t count) {
        const uint32_t state = state_[partition];
        __syncwarp();  // all lanes have read it
        const uint32_t before = state & kFilledMask;
        const uint32_t number = state >> kFilledBits;
        held.store<false>(reinterpret_cast<char*>(at(number) + before), words);
        const bool is_full = before + count == rows_;
        if (lane_index() == 0) state_[partition] = is_full ? pack(spare_, 0) : pack(number, before + count);
        if (is_full) spare_ = number;
        return is_full;
    }

    // By the whole warp, without a lock: the full buffer to far memory; then it is the warp's spare.
    __device__ void flush_spare(char* to) const {
        const uint4* const from = reinterpret_cast<const uint4*>(at(spare_));
        const uint32_t words = rows_ * static_cast<uint32_t>(sizeof(Row)) / 16;
        for (uint32_t first = 0; first < words; first += kHeldWords * kWarpThreads) {
            uint4 held[kHeldWords];
#pragma unroll
            for (uint32_t i = 0; i < kHeldWords; ++i) {
                const uint32_t word = first + i * kWarpThreads + lane_index();
                if (word < words) held[i] = __ldcg(&from[word]);
            }
#pragma unroll
            for (uint32_t i = 0; i < kHeldWords; ++i) {
                const uint32_t word = first + i * kWarpThreads + lane_index();
                if (word < words) __stcs(reinterpret_cast<uint4*>(to) + word, held[i]);
            }
        }
    }

  private:
    // Rows in the buffer in front of it; a full one is never in its place, so that 16 bits suffice (far_policy.hpp).
    static constexpr int kFilledBits = 16;
    static constexpr uint32_t kFilledMask = (1U << kFilledBits) - 1;
    __device__ static uint32_t pack(uint32_t number, uint32_t filled) {
        return number << kFilledBits | filled;
    }
    __device__ Row* at(uint32_t number) const {
        return memory_ + uint64_t{number} * rows_;
    }

    uint32_t* const state_;  // [partitions] number of the buffer, rows in it
    const uint32_t rows_;
    Row* const memory_;
    uint32_t spare_;  // the same in all lanes
};

// kHierarchical: buffers in shared memory are emptied into larger ones in GPU memory, of the block and the partition,
// and only these go to far memory, in one long aligned piece. A full one is exchanged for the warp's spare one while
// the warp has the lock; it is stored after the release, so that no other warp waits for far memory.
// Bytes: columns read once, rows written once to GPU memory, read once there and written once to far memory.
template <int kWords>
__global__ void __launch_bounds__(kFarThreads, 1)
    hierarchical_kernel(const FarColumns<kWords> in, const __grid_constant__ CombiningPass pass) {
    using Row = typename FarTuple<kWords>::Row;
    extern __shared__ uint4 shared_words[];
    CombiningBuffers<kWords> buffers(reinterpret_cast<char*>(shared_words), pass);
    SecondLevel<kWords> second(buffers.end(), pass);
    buffers.clear();
    second.clear(pass.partitions);
    __syncthreads();
    const uint32_t words = pass.buffer_rows * static_cast<uint32_t>(sizeof(Row)) / 16;
    for_each_far_row(in, [&](const Row& row, bool there) {
        buffers.add(row, there, [&](uint32_t full) {
            HeldBuffer held;
            held.load(buffers.buffer(full), words);
            const bool is_full = second.append(full, held, words, pass.buffer_rows);
            __syncwarp();  // the buffer is read, the second level written, by all lanes
            if (lane_index() == 0) buffers.release(full);
            if (!is_full) return;
            char* const to = take_aligned(pass.target, full, pass.memory_rows);
            if (to != nullptr) second.flush_spare(to);
            __syncwarp();  // the spare buffer is read before this warp gives it to others
        });
    });
    __syncthreads();
    // What a buffer of the first level holds at most always fits: the second one's rows are a multiple of it.
    leave_rows<kWords>(
        pass, buffers, [&](uint32_t p) { return second.buffer(p); }, [&](uint32_t p) { return second.filled(p); });
}

}}  // namespace spillway::cuda::far_partitioning
