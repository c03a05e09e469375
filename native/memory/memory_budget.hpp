// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/job_control.hpp"
#include "memory/block_cache.hpp"
#include "memory/mapped_block.hpp"

namespace spillway {

class MemoryBudget;

// Bytes granted by the arbiter; given back on destruction.
class Reservation {
  public:
    Reservation() = default;
    Reservation(Reservation&& other) noexcept;
    Reservation& operator=(Reservation&& other) noexcept;
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;
    ~Reservation();
    uint64_t bytes() const { return bytes_; }
    MemoryBudget* budget() const { return budget_; }  // nullptr when empty
    void shrink_to(uint64_t bytes);                   // gives the difference back
    void release();
    Reservation split(uint64_t bytes);  // takes `bytes` (at most bytes()) out of this one
    void merge(Reservation&& other);    // both of the same budget, or one empty

  private:
    friend class MemoryBudget;
    Reservation(MemoryBudget* budget, uint64_t bytes) : budget_(budget), bytes_(bytes) {}
    MemoryBudget* budget_ = nullptr;
    uint64_t bytes_ = 0;
};

// A block and the bytes reserved for it.
struct ReservedBlock {
    Reservation reservation;
    MappedBlock block;
    bool zeroed = false;  // false: a block used before, with whatever its last owner left
};

// A holder of reserved memory that it can do without, asked under pressure before a reservation fails.
class Reclaimable {
  public:
    // Gives back about `wanted` bytes if it can and returns how many. Must not reserve. Called without the lock of the
    // budget, from any thread, one call at a time.
    virtual uint64_t reclaim(uint64_t wanted) = 0;

  protected:
    ~Reclaimable() = default;
};

// The one arbiter of host memory of a runtime: every block of more than a few KiB that the engine holds is reserved
// here first, so that the process stays under `limit` (+ Node itself). Thread-safe. Freed blocks stay mapped in a
// cache; used() + cached() never exceeds limit(), so the cache counts as free: a reservation that needs the room
// unmaps cached blocks first.
class MemoryBudget {
  public:
    explicit MemoryBudget(uint64_t limit_bytes);
    MemoryBudget(const MemoryBudget&) = delete;
    MemoryBudget& operator=(const MemoryBudget&) = delete;

    // Throws kBudgetTooSmall naming purpose, tier "host", bytes wanted and free, and the option `memory.host`.
    Reservation reserve(uint64_t bytes, const char* purpose);
    std::optional<Reservation> try_reserve(uint64_t bytes);
    // Blocks until other holders give enough back, first come first served; throws kBudgetTooSmall when bytes > limit
    // (can never succeed) and kAborted when the job is cancelled. Callers must not already hold memory that others
    // wait for (deadlock).
    Reservation wait_reserve(uint64_t bytes, const char* purpose, const JobControl& control);

    // Reserve and map in one step, from the cache when a block fits. bytes: multiple of system_page_bytes().
    // Throws kBudgetTooSmall, or kOutOfMemory when the system has no memory; the try form returns nothing for both.
    ReservedBlock reserve_block(uint64_t bytes, const char* purpose);
    std::optional<ReservedBlock> try_reserve_block(uint64_t bytes);
    // The same with bytes reserved before; reservation.bytes() is the size of the block.
    ReservedBlock map_reserved(Reservation reservation, const char* purpose);
    // A block that left the budget (Buffer::detach) and is free now: into the cache if there is room, else unmapped.
    void adopt_block(MappedBlock block) noexcept;
    // Into the cache; unmapped when the reservation does not cover the block.
    void return_block(MappedBlock block, Reservation reservation) noexcept;

    uint64_t limit() const { return limit_; }
    uint64_t used() const;
    uint64_t free() const;  // limit() - used(): cached blocks count as free
    uint64_t cached() const;
    uint64_t unused() const;  // free() - cached()
    uint64_t peak() const;    // of used()
    void reset_peak();

    // Unmaps cached blocks until at most `keep_bytes` stay; for a runtime that is idle.
    void trim_cache(uint64_t keep_bytes = 0);

    void add_reclaimable(Reclaimable* holder);
    void remove_reclaimable(Reclaimable* holder);  // returns when no call to it is running

  private:
    friend class Reservation;
    struct Waiter;
    void give_back(uint64_t bytes);
    bool take(uint64_t bytes, MappedBlock* reused);
    bool take_or_reclaim(uint64_t bytes, MappedBlock* reused);
    bool take_locked(uint64_t bytes, MappedBlock* reused, EvictedBlocks& evicted);
    uint64_t reclaim(uint64_t wanted);
    Error too_small(uint64_t bytes, const char* purpose) const;

    const uint64_t limit_;
    mutable std::mutex mutex_;
    std::condition_variable freed_;
    uint64_t used_ = 0;
    uint64_t peak_ = 0;
    BlockCache cache_;
    std::deque<const Waiter*> waiters_;
    std::mutex reclaim_mutex_;  // taken before mutex_, never under it
    std::vector<Reclaimable*> reclaimables_;
};

// kOutOfMemory: the budget had the bytes, the system did not.
Error system_out_of_memory(uint64_t bytes, const char* purpose);
std::string bytes_text(uint64_t bytes);  // "12.5 MiB"; below 1 MiB "12.5 KiB"

}  // namespace spillway
