// SPDX-License-Identifier: Apache-2.0
#include "memory/memory_budget.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

namespace spillway {

namespace {

// How late a waiting worker may notice that its job was cancelled: JobControl has no condition to wait on.
constexpr std::chrono::milliseconds kCancelPoll{50};

}  // namespace

std::string bytes_text(uint64_t bytes) {
    constexpr double kKiB = 1024.0;
    constexpr double kMiB = 1024.0 * 1024.0;
    char text[40];
    const auto value = static_cast<double>(bytes);
    if (value < kMiB) {
        std::snprintf(text, sizeof text, "%.1f KiB", value / kKiB);
    } else {
        std::snprintf(text, sizeof text, "%.1f MiB", value / kMiB);
    }
    return text;
}

Error system_out_of_memory(uint64_t bytes, const char* purpose) {
    return Error(
        ErrorCode::kOutOfMemory,
        std::string(purpose) + ": the system refused " + bytes_text(bytes) +
            " of memory although the budget allows it; lower memory.host to what this machine or container "
            "has free, or raise the limit of the container",
        {{"tier", "host"}, {"purpose", purpose}, {"wantedBytes", std::to_string(bytes)}, {"option", "memory.host"}});
}

Reservation::Reservation(Reservation&& other) noexcept
    : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
    if (this != &other) {
        release();
        budget_ = std::exchange(other.budget_, nullptr);
        bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
}

Reservation::~Reservation() {
    release();
}

void Reservation::shrink_to(uint64_t bytes) {
    if (bytes >= bytes_) return;
    budget_->give_back(bytes_ - bytes);
    bytes_ = bytes;
}

void Reservation::release() {
    shrink_to(0);
    budget_ = nullptr;
}

Reservation Reservation::split(uint64_t bytes) {
    SPILLWAY_CHECK(bytes <= bytes_);
    bytes_ -= bytes;
    return Reservation(budget_, bytes);
}

void Reservation::merge(Reservation&& other) {
    if (other.bytes_ == 0) return;
    SPILLWAY_CHECK(bytes_ == 0 || budget_ == other.budget_);
    budget_ = std::exchange(other.budget_, nullptr);
    bytes_ += std::exchange(other.bytes_, 0);
}

MemoryBudget::MemoryBudget(uint64_t limit_bytes) : limit_(limit_bytes) {}

Reservation MemoryBudget::reserve(uint64_t bytes, const char* purpose) {
    if (!take_or_reclaim(bytes, nullptr)) throw too_small(bytes, purpose);
    return Reservation(this, bytes);
}

std::optional<Reservation> MemoryBudget::try_reserve(uint64_t bytes) {
    if (!take_or_reclaim(bytes, nullptr)) return std::nullopt;
    return Reservation(this, bytes);
}

// The place of one waiting thread in the queue; leaves it on every way out.
struct MemoryBudget::Waiter {
    explicit Waiter(MemoryBudget& owner) : budget(owner) {
        std::lock_guard<std::mutex> lock(budget.mutex_);
        budget.waiters_.push_back(this);
    }
    ~Waiter() {
        std::lock_guard<std::mutex> lock(budget.mutex_);
        std::erase(budget.waiters_, this);
        budget.freed_.notify_all();  // the next in the queue may be served by what is free already
    }
    MemoryBudget& budget;
};

Reservation MemoryBudget::wait_reserve(uint64_t bytes, const char* purpose, const JobControl& control) {
    if (bytes > limit_) throw too_small(bytes, purpose);
    const Waiter waiter(*this);
    EvictedBlocks evicted;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
        control.check();
        if (waiters_.front() == &waiter) {
            if (take_locked(bytes, nullptr, evicted)) break;
            lock.unlock();
            reclaim(bytes);
            lock.lock();
            // Tried again under the lock that wait_for releases, so that no give_back() is missed.
            if (take_locked(bytes, nullptr, evicted)) break;
        }
        freed_.wait_for(lock, kCancelPoll);
    }
    return Reservation(this, bytes);
}

ReservedBlock MemoryBudget::reserve_block(uint64_t bytes, const char* purpose) {
    MappedBlock reused;
    if (!take_or_reclaim(bytes, &reused)) throw too_small(bytes, purpose);
    Reservation reservation(this, bytes);
    if (reused.data != nullptr) return {std::move(reservation), reused, false};
    const MappedBlock fresh = map_block(bytes);
    if (fresh.data == nullptr) throw system_out_of_memory(bytes, purpose);
    return {std::move(reservation), fresh, true};
}

std::optional<ReservedBlock> MemoryBudget::try_reserve_block(uint64_t bytes) {
    MappedBlock reused;
    if (!take_or_reclaim(bytes, &reused)) return std::nullopt;
    Reservation reservation(this, bytes);
    if (reused.data != nullptr) return ReservedBlock{std::move(reservation), reused, false};
    const MappedBlock fresh = map_block(bytes);
    if (fresh.data == nullptr) return std::nullopt;
    return ReservedBlock{std::move(reservation), fresh, true};
}

ReservedBlock MemoryBudget::map_reserved(Reservation reservation, const char* purpose) {
    const uint64_t bytes = reservation.bytes();
    {
        std::lock_guard<std::mutex> lock(mutex_);
        const MappedBlock reused = cache_.take(bytes);
        if (reused.data != nullptr) return {std::move(reservation), reused, false};
    }
    const MappedBlock fresh = map_block(bytes);
    if (fresh.data == nullptr) throw system_out_of_memory(bytes, purpose);
    return {std::move(reservation), fresh, true};
}

void MemoryBudget::return_block(MappedBlock block, Reservation reservation) noexcept {
    if (reservation.bytes() < block.bytes) {
        unmap_block(block);  // before the reservation goes, so that resident memory stays below the reserved
        return;
    }
    {
        std::lock_guard<std::mutex> lock(mutex_);
        try {
            cache_.put(block);
            used_ -= reservation.bytes_;
            reservation.bytes_ = 0;
            if (!waiters_.empty()) freed_.notify_all();
            return;
        } catch (const std::bad_alloc&) {
            // No memory for the node of the cache: the block goes to the system below.
        }
    }
    unmap_block(block);
}

void MemoryBudget::adopt_block(MappedBlock block) noexcept {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        try {
            if (block.bytes <= limit_ && used_ + cache_.bytes() <= limit_ - block.bytes) {
                cache_.put(block);
                return;
            }
        } catch (const std::bad_alloc&) {
            // No memory for the node of the cache: the block goes to the system below.
        }
    }
    unmap_block(block);
}

bool MemoryBudget::take(uint64_t bytes, MappedBlock* reused) {
    EvictedBlocks evicted;  // unmapped after the lock is gone; nobody touches the new bytes before this returns
    std::lock_guard<std::mutex> lock(mutex_);
    return take_locked(bytes, reused, evicted);
}

bool MemoryBudget::take_or_reclaim(uint64_t bytes, MappedBlock* reused) {
    while (!take(bytes, reused)) {
        if (bytes > limit_ || reclaim(bytes) == 0) return false;
    }
    return true;
}

bool MemoryBudget::take_locked(uint64_t bytes, MappedBlock* reused, EvictedBlocks& evicted) {
    if (bytes > limit_ - used_) return false;
    if (reused != nullptr) *reused = cache_.take(bytes);
    if (reused == nullptr || reused->data == nullptr) {
        const uint64_t room = limit_ - used_ - cache_.bytes();
        if (bytes > room) cache_.evict(bytes - room, evicted);
    }
    used_ += bytes;
    peak_ = std::max(peak_, used_);
    return true;
}

void MemoryBudget::give_back(uint64_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    used_ -= bytes;
    if (!waiters_.empty()) freed_.notify_all();
}

uint64_t MemoryBudget::reclaim(uint64_t wanted) {
    std::lock_guard<std::mutex> lock(reclaim_mutex_);
    uint64_t reclaimed = 0;
    for (Reclaimable* holder : reclaimables_) {
        if (reclaimed >= wanted) break;
        reclaimed += holder->reclaim(wanted - reclaimed);
    }
    return reclaimed;
}

uint64_t MemoryBudget::used() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return used_;
}

uint64_t MemoryBudget::free() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return limit_ - used_;
}

uint64_t MemoryBudget::cached() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return cache_.bytes();
}

uint64_t MemoryBudget::unused() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return limit_ - used_ - cache_.bytes();
}

uint64_t MemoryBudget::peak() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return peak_;
}

void MemoryBudget::reset_peak() {
    std::lock_guard<std::mutex> lock(mutex_);
    peak_ = used_;
}

void MemoryBudget::trim_cache(uint64_t keep_bytes) {
    EvictedBlocks evicted;
    std::lock_guard<std::mutex> lock(mutex_);
    if (cache_.bytes() > keep_bytes) cache_.evict(cache_.bytes() - keep_bytes, evicted);
}

void MemoryBudget::add_reclaimable(Reclaimable* holder) {
    std::lock_guard<std::mutex> lock(reclaim_mutex_);
    reclaimables_.push_back(holder);
}

void MemoryBudget::remove_reclaimable(Reclaimable* holder) {
    std::lock_guard<std::mutex> lock(reclaim_mutex_);
    std::erase(reclaimables_, holder);
}

Error MemoryBudget::too_small(uint64_t bytes, const char* purpose) const {
    const uint64_t free_bytes = free();
    const uint64_t short_by = bytes > free_bytes ? bytes - free_bytes : 0;
    return Error(ErrorCode::kBudgetTooSmall,
                 std::string(purpose) + ": wanted " + bytes_text(bytes) + " of host memory, but only " +
                     bytes_text(free_bytes) + " of the budget of " + bytes_text(limit_) +
                     " are free; raise memory.host by at least " + bytes_text(short_by),
                 {{"tier", "host"},
                  {"purpose", purpose},
                  {"wantedBytes", std::to_string(bytes)},
                  {"freeBytes", std::to_string(free_bytes)},
                  {"limitBytes", std::to_string(limit_)},
                  {"option", "memory.host"}});
}

}  // namespace spillway
