// SPDX-License-Identifier: Apache-2.0
#include "executor/kept_pinned.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.hpp"

namespace spillway {

KeptPinned::KeptPinned(GpuDevice device, MemoryBudget& budget, uint64_t allowance_bytes)
    : device_(std::move(device)), budget_(budget), allowance_bytes_(allowance_bytes) {
    budget.add_reclaimable(this);
}

KeptPinned::~KeptPinned() {
    budget_.remove_reclaimable(this);
}

void KeptPinned::count_user(int change, uint64_t reserved_bytes) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    reserved_bytes_ = change > 0 ? reserved_bytes_ + reserved_bytes : reserved_bytes_ - reserved_bytes;
    try {
        count_kept();
    } catch (const Error&) {  // a lost device keeps nothing that anybody could use
    }
}

void KeptPinned::count_kept() {
    kept_.release();
    const GpuMemory memory = device_.memory();
    const uint64_t covered_bytes = allowance_bytes_ + std::max(reserved_bytes_, memory.pinned_used_bytes);
    if (memory.pinned_reserved_bytes <= covered_bytes) return;
    // Others are asked to make room for it in vain: whoever runs needs what it has more.
    asking_.store(true);
    std::optional<Reservation> kept = budget_.try_reserve(memory.pinned_reserved_bytes - covered_bytes);
    asking_.store(false);
    if (kept) {
        kept_ = std::move(*kept);
    } else {
        device_.trim();
    }
}

uint64_t KeptPinned::give_back() {
    const uint64_t bytes = kept_.bytes();
    if (bytes > 0) device_.trim();
    kept_.release();
    return bytes;
}

void KeptPinned::trim() {
    const std::lock_guard<std::mutex> lock(mutex_);
    kept_.release();
    device_.trim();
}

uint64_t KeptPinned::reclaim(uint64_t) {
    if (asking_.load()) return 0;
    // Not waited for: an operation that begins or ends is about to change all of this.
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return 0;
    try {
        return give_back();
    } catch (const Error&) {
        return 0;
    }
}

}  // namespace spillway
