// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "device/gpu_device.hpp"
#include "memory/memory_budget.hpp"

namespace spillway {

// Pinned memory that stays with a GPU between operations out of core, as pinning costs several times what a join takes.
// What exceeds the allowance and is not of those that run counts in the budget, and goes when somebody else needs the
// room, or at once where there is none.
class KeptPinned final : public Reclaimable {
  public:
    KeptPinned(GpuDevice device, MemoryBudget& budget, uint64_t allowance_bytes);
    ~KeptPinned();
    KeptPinned(const KeptPinned&) = delete;
    KeptPinned& operator=(const KeptPinned&) = delete;

    // An operation that reserves for itself so much pinned memory, which it takes of what is kept first.
    class Use {
      public:
        Use(KeptPinned& kept, uint64_t reserved_bytes) : kept_(kept), reserved_bytes_(reserved_bytes) {
            kept_.count_user(1, reserved_bytes_);
        }
        ~Use() { kept_.count_user(-1, reserved_bytes_); }
        Use(const Use&) = delete;

      private:
        KeptPinned& kept_;
        const uint64_t reserved_bytes_;
    };

    // Gives everything back to the system.
    void trim();
    uint64_t reclaim(uint64_t wanted) override;

  private:
    void count_user(int change, uint64_t reserved_bytes) noexcept;
    void count_kept();
    uint64_t give_back();

    GpuDevice device_;
    MemoryBudget& budget_;
    const uint64_t allowance_bytes_;
    std::mutex mutex_;
    uint64_t reserved_bytes_ = 0;  // by those who use it
    Reservation kept_;
    std::atomic<bool> asking_{false};  // the mutex is held by who asks the budget, which may ask back
};

}  // namespace spillway
