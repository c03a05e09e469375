// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "device/gpu_device.hpp"
#include "memory/memory_budget.hpp"

namespace spillway {

// Pinned memory that stays with a GPU between joins out of core, as pinning costs several times what the join takes.
// What exceeds the allowance counts in the budget, and goes when somebody else needs the room.
class KeptPinned final : public Reclaimable {
  public:
    KeptPinned(GpuDevice device, MemoryBudget& budget, uint64_t allowance_bytes);
    ~KeptPinned();
    KeptPinned(const KeptPinned&) = delete;
    KeptPinned& operator=(const KeptPinned&) = delete;

    // A join that reserves for itself what it takes; while one runs nothing is kept beside it.
    class Use {
      public:
        explicit Use(KeptPinned& kept) : kept_(kept) { kept_.begin(); }
        ~Use() { kept_.end(); }
        Use(const Use&) = delete;

      private:
        KeptPinned& kept_;
    };

    // Gives everything back to the system.
    void trim();
    uint64_t reclaim(uint64_t wanted) override;

  private:
    void begin();
    void end() noexcept;
    uint64_t give_back();

    GpuDevice device_;
    MemoryBudget& budget_;
    const uint64_t allowance_bytes_;
    std::mutex mutex_;
    int users_ = 0;
    Reservation kept_;
    std::atomic<bool> asking_{false};  // end() holds the mutex and asks the budget, which may ask back
};

}  // namespace spillway
