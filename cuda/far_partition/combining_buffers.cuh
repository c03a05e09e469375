// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "far_partition/block_atomics.cuh"
#include "far_partition/far_source.cuh"
#include "far_partition/far_target.cuh"

namespace spillway::cuda { inline namespace far_partitioning {

constexpr uint32_t kNoSlot = ~0U;

// One buffer per partition in shared memory, filled by all threads of a block without a lock.
//
// slot counts those who want a place. Who gets a number below the buffer's size has the place, stores its row there and
// counts it in `ready`. Who gets exactly the size has the lock: the buffer stays full until that thread resets the
// counter, and all others try again. Before the lock's owner reads the buffer it waits until `ready` says that every
// row is there; those rows belong to threads that already have their place and wait for nothing, so that ends.
//
// Order: rows are stored before ready is raised (release) and read after it has been seen (acquire); the buffer is read
// before slot is reset (a barrier of the warp, then release) and written after a slot has been taken (acquire).
template <int kWords>
class CombiningBuffers {
  public:
    using Tuple = FarTuple<kWords>;
    using Row = typename Tuple::Row;

    // Dynamic shared memory holds rows, slot and ready, in this order; what the caller keeps there begins at end().
    __device__ CombiningBuffers(char* shared, const CombiningPass& pass)
        : size_(pass.buffer_rows),
          shift_(pass.shift),
          partitions_(pass.partitions),
          rows_(reinterpret_cast<Row*>(shared)),
          slot_(reinterpret_cast<uint32_t*>(rows_ + uint64_t{partitions_} * size_)),
          ready_(slot_ + partitions_) {}

    __device__ uint32_t* end() const { return ready_ + partitions_; }
    __device__ uint32_t size() const { return size_; }
    __device__ Row* buffer(uint32_t partition) const { return rows_ + partition * size_; }
    __device__ uint32_t partition_of(const Row& row) const { return far_partition_of(Tuple::top_word(row), shift_); }

    // By all threads; a barrier must follow.
    __device__ void clear() {
        for (uint32_t i = threadIdx.x; i < 2 * partitions_; i += blockDim.x) slot_[i] = 0;
    }

    // kNoSlot: the buffer is being flushed. size(): the caller has the lock. Less: the row is stored. for_bulk: the
    // buffer will be read by a bulk copy.
    __device__ uint32_t place(const Row& row, uint32_t partition, bool for_bulk = false) {
        // The look keeps threads that wait from counting on: the counter exceeds the size by a thread each at most.
        if (load_relaxed(&slot_[partition]) > size_) return kNoSlot;
        const uint32_t at = add_acquire(&slot_[partition], 1);
        if (at > size_) return kNoSlot;
        if (at < size_) {
            buffer(partition)[at] = row;
            if (for_bulk) fence_shared_for_bulk();
            add_release(&ready_[partition], 1);
        }
        return at;
    }
    // The lock back, the buffer still full: the next one who asks has it.
    __device__ void give_back(uint32_t partition) { exchange_release(&slot_[partition], size_); }
    __device__ void wait_until_full(uint32_t partition) const {
        while (load_acquire(&ready_[partition]) != size_) {
        }
    }
    // By one thread, when nobody reads the buffer any more.
    __device__ void release(uint32_t partition) {
        store_relaxed(&ready_[partition], 0);
        exchange_release(&slot_[partition], 0);
    }

    // By a whole warp: stores the rows of those lanes that have one. flush(partition) is called by the whole warp with
    // the lock on a full buffer, all of whose rows are there, and releases it.
    template <class Flush>
    __device__ void add(const Row& row, bool there, Flush flush) {
        const uint32_t own = there ? partition_of(row) : 0;
        bool pending = there;
        while (__any_sync(kFullWarp, pending)) {
            const uint32_t at = pending ? place(row, own) : kNoSlot;
            if (at < size_) pending = false;
            const uint32_t owners = __ballot_sync(kFullWarp, at == size_);
            if (owners == 0) {
                if (pending) __nanosleep(kBufferBackoffNs);
                continue;
            }
            // One lock at a time. The others go back before the wait: two warps that wait with a lock in hand could
            // wait for each other.
            const int leader = __ffs(static_cast<int>(owners)) - 1;
            if (at == size_ && lane_index() != static_cast<uint32_t>(leader)) give_back(own);
            const uint32_t full = __shfl_sync(kFullWarp, own, leader);
            __syncwarp();           // what the owner knows from the lock all lanes know: the count is not an old one
            wait_until_full(full);  // by every lane, as every lane reads
            __syncwarp();
            flush(full);
        }
    }

    // Rows in the buffer when all threads are done (after a barrier): nobody has a lock then.
    __device__ uint32_t left(uint32_t partition) const { return slot_[partition]; }

  private:
    const uint32_t size_;
    const uint32_t shift_;
    const uint32_t partitions_;
    Row* const rows_;
    uint32_t* const slot_;
    uint32_t* const ready_;
};

}}  // namespace spillway::cuda::far_partitioning
