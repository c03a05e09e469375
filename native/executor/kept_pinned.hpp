// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "device/gpu_device.hpp"
#include "memory/memory_budget.hpp"

namespace spillway {

class KeptPinned;

// Bytes of the budget for pinned memory of an operation, given back when it goes.
class PinnedReservation {
  public:
    PinnedReservation() = default;
    PinnedReservation(PinnedReservation&& other) noexcept;
    PinnedReservation& operator=(PinnedReservation&& other) noexcept;
    PinnedReservation(const PinnedReservation&) = delete;
    PinnedReservation& operator=(const PinnedReservation&) = delete;
    ~PinnedReservation() { release(); }
    // The memory has been given back to the GPU's pool before.
    void release() noexcept;

  private:
    friend class KeptPinned;
    PinnedReservation(KeptPinned* kept, Reservation bytes) : kept_(kept), bytes_(std::move(bytes)) {}

    KeptPinned* kept_ = nullptr;  // nullptr when empty
    Reservation bytes_;
};

// Pinned memory that stays with a GPU between operations out of core, as pinning costs several times what a join takes.
// What exceeds the allowance, and what those that run have reserved, counts in the budget; it goes when somebody else
// needs the room, or at once where there is none.
class KeptPinned final : public Reclaimable {
  public:
    KeptPinned(GpuDevice device, MemoryBudget& budget, uint64_t allowance_bytes);
    ~KeptPinned();
    KeptPinned(const KeptPinned&) = delete;
    KeptPinned& operator=(const KeptPinned&) = delete;

    GpuDevice& device() { return device_; }
    MemoryBudget& budget() { return budget_; }

    // For pinned memory that an operation is about to take, of what is kept first. Errors of MemoryBudget::reserve().
    PinnedReservation reserve(uint64_t bytes, const char* purpose);
    // Gives everything back to the system.
    void trim();
    uint64_t reclaim(uint64_t wanted) override;

  private:
    friend class PinnedReservation;
    void cover(uint64_t bytes) noexcept;
    void uncover(uint64_t bytes) noexcept;
    void count() noexcept;
    uint64_t surplus_bytes() const;
    uint64_t give_back();

    GpuDevice device_;
    MemoryBudget& budget_;
    const uint64_t allowance_bytes_;
    std::mutex mutex_;
    uint64_t covered_bytes_ = 0;  // reserved by operations
    Reservation kept_;
    std::atomic<bool> asking_{false};  // the mutex is held by who asks the budget, which may ask back
};

}  // namespace spillway
