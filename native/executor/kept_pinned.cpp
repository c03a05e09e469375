// SPDX-License-Identifier: Apache-2.0
#include "executor/kept_pinned.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.hpp"

namespace spillway {

PinnedReservation::PinnedReservation(PinnedReservation&& other) noexcept
    : kept_(std::exchange(other.kept_, nullptr)), bytes_(std::move(other.bytes_)) {}

PinnedReservation& PinnedReservation::operator=(PinnedReservation&& other) noexcept {
    if (this != &other) {
        release();
        kept_ = std::exchange(other.kept_, nullptr);
        bytes_ = std::move(other.bytes_);
    }
    return *this;
}

void PinnedReservation::release() noexcept {
    if (kept_ == nullptr) return;
    const uint64_t bytes = bytes_.bytes();
    bytes_.release();
    std::exchange(kept_, nullptr)->uncover(bytes);
}

KeptPinned::KeptPinned(GpuDevice device, MemoryBudget& budget, uint64_t allowance_bytes)
    : device_(std::move(device)), budget_(budget), allowance_bytes_(allowance_bytes) {
    budget.add_reclaimable(this);
}

KeptPinned::~KeptPinned() {
    budget_.remove_reclaimable(this);
}

PinnedReservation KeptPinned::reserve(uint64_t bytes, const char* purpose) {
    cover(bytes);
    try {
        return PinnedReservation(this, budget_.reserve(bytes, purpose));
    } catch (...) {
        uncover(bytes);
        throw;
    }
}

void KeptPinned::cover(uint64_t bytes) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    covered_bytes_ += bytes;
    count();
}

void KeptPinned::uncover(uint64_t bytes) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    covered_bytes_ -= bytes;
    count();
}

uint64_t KeptPinned::surplus_bytes() const {
    const GpuMemory memory = device_.memory();
    const uint64_t counted_bytes = allowance_bytes_ + std::max(covered_bytes_, memory.pinned_used_bytes);
    return memory.pinned_reserved_bytes - std::min(memory.pinned_reserved_bytes, counted_bytes);
}

void KeptPinned::count() noexcept {
    kept_.release();
    try {
        for (const bool trimmed : {false, true}) {
            const uint64_t bytes = surplus_bytes();
            if (bytes == 0) return;
            // Others are asked to make room for it in vain: whoever runs needs what it has more.
            asking_.store(true);
            std::optional<Reservation> kept = budget_.try_reserve(bytes);
            asking_.store(false);
            if (kept) {
                kept_ = std::move(*kept);
                return;
            }
            if (!trimmed) device_.trim();
        }
    } catch (const Error&) {  // a lost device keeps nothing that anybody could use
    }
}

// Parts of what is used cannot go.
uint64_t KeptPinned::give_back() {
    const uint64_t bytes = kept_.bytes();
    if (bytes == 0) return 0;
    device_.trim();
    kept_.shrink_to(std::min(bytes, surplus_bytes()));
    return bytes - kept_.bytes();
}

void KeptPinned::trim() {
    const std::lock_guard<std::mutex> lock(mutex_);
    device_.trim();
    count();
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
