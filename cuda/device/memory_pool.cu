// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "device/device_policy.hpp"
#include "device/memory_pool.hpp"

namespace spillway::cuda { inline namespace device {

namespace {

std::string bytes_text(uint64_t bytes) {
    char text[40];
    const double mib = static_cast<double>(bytes) / static_cast<double>(kMiB);
    if (bytes >= kMiB) {
        std::snprintf(text, sizeof text, "%.1f MiB", mib);
    } else {
        std::snprintf(text, sizeof text, "%llu bytes", static_cast<unsigned long long>(bytes));
    }
    return text;
}

}  // namespace

Allocation::Allocation(Allocation&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      claim_(std::move(other.claim_)) {}

Allocation& Allocation::operator=(Allocation&& other) noexcept {
    if (this != &other) {
        reset();
        pool_ = std::exchange(other.pool_, nullptr);
        data_ = std::exchange(other.data_, nullptr);
        bytes_ = std::exchange(other.bytes_, 0);
        claim_ = std::move(other.claim_);
    }
    return *this;
}

void Allocation::reset() noexcept {
    if (pool_ != nullptr && data_ != nullptr) pool_->give_back(data_, claim_.get());
    pool_ = nullptr;
    data_ = nullptr;
    bytes_ = 0;
    claim_.reset();
}

PoolClaim::PoolClaim(PoolClaim&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), counts_(std::move(other.counts_)) {}

PoolClaim& PoolClaim::operator=(PoolClaim&& other) noexcept {
    if (this != &other) {
        reset();
        pool_ = std::exchange(other.pool_, nullptr);
        counts_ = std::move(other.counts_);
    }
    return *this;
}

void PoolClaim::reset() noexcept {
    if (pool_ == nullptr) return;
    {
        const std::lock_guard<std::mutex> lock(pool_->mutex_);
        pool_->count(counts_.get(), {0, counts_->used_bytes, counts_->peak_bytes});
    }
    pool_ = nullptr;
    counts_.reset();
}

void PoolClaim::reset_peak() noexcept {
    const std::lock_guard<std::mutex> lock(pool_->mutex_);
    counts_->peak_bytes = counts_->used_bytes;
}

void PoolClaim::keep_peak() noexcept {
    const std::lock_guard<std::mutex> lock(pool_->mutex_);
    const uint64_t bytes = std::min(counts_->peak_bytes, counts_->used_bytes + pool_->left_locked());
    pool_->count(counts_.get(), {std::max(counts_->bytes, bytes), counts_->used_bytes, counts_->peak_bytes});
}

namespace {

thread_local const PoolClaim::User* claims_user = nullptr;

}  // namespace

PoolClaim::User::User(const PoolClaim& claim)
    : pool_(claim.pool_), counts_(claim.counts_), before_(std::exchange(claims_user, this)) {}

PoolClaim::User::~User() {
    claims_user = before_;
}

PoolReservation::PoolReservation(PoolReservation&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      claim_(std::move(other.claim_)) {}

PoolReservation& PoolReservation::operator=(PoolReservation&& other) noexcept {
    if (this != &other) {
        reset();
        pool_ = std::exchange(other.pool_, nullptr);
        bytes_ = std::exchange(other.bytes_, 0);
        claim_ = std::move(other.claim_);
    }
    return *this;
}

void PoolReservation::reset() noexcept {
    if (pool_ != nullptr) pool_->unreserve(bytes_, claim_.get());
    pool_ = nullptr;
    bytes_ = 0;
    claim_.reset();
}

BlockPool::BlockPool(BlockBacking& backing, const BlockSizes& sizes, uint64_t limit_bytes, Tier tier)
    : allocator_(backing, sizes, limit_bytes), tier_(tier) {}

Allocation BlockPool::allocate(uint64_t bytes, const char* what) {
    if (bytes == 0) return {};
    std::lock_guard<std::mutex> lock(mutex_);
    fail_if_injected(bytes, what);
    std::shared_ptr<ClaimCounts> claim = users_claim();
    const BlockAllocator::Grant grant = allocator_.take(bytes, withheld_locked());
    switch (grant.refusal) {
        case BlockAllocator::Refusal::kNone:
            count_taken(claim.get(), grant.bytes);
            return Allocation(this, grant.data, bytes, std::move(claim));
        case BlockAllocator::Refusal::kLimit:
            throw limit_error(bytes, what);
        case BlockAllocator::Refusal::kBacking:
            break;
    }
    throw refuse(bytes, what, tier_ == Tier::kDevice ? "the driver gave no more" : "the system pinned no more");
}

PoolReservation BlockPool::reserve(uint64_t bytes, const char* what) {
    if (bytes == 0) return {};
    std::lock_guard<std::mutex> lock(mutex_);
    fail_if_injected(bytes, what);
    if (!allocator_.reserve(bytes, withheld_locked())) throw limit_error(bytes, what);
    std::shared_ptr<ClaimCounts> claim = users_claim();
    count_taken(claim.get(), bytes);
    return PoolReservation(this, bytes, std::move(claim));
}

PoolClaim BlockPool::claim(uint64_t bytes, const char* what) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (bytes > limit_bytes() - allocator_.used_bytes() - claimed_bytes_) throw limit_error(bytes, what);
    auto counts = std::make_shared<ClaimCounts>();
    count(counts.get(), {bytes, 0, 0});
    return PoolClaim(this, std::move(counts));
}

void BlockPool::count(ClaimCounts* claim, const ClaimCounts& now) noexcept {
    claimed_bytes_ -= claim->unused_bytes();
    *claim = now;
    claimed_bytes_ += claim->unused_bytes();
}

// nullptr: memory that is of no claim.
void BlockPool::count_taken(ClaimCounts* claim, uint64_t bytes) noexcept {
    if (claim == nullptr) return;
    const uint64_t used_bytes = claim->used_bytes + bytes;
    count(claim, {claim->bytes, used_bytes, std::max(claim->peak_bytes, used_bytes)});
}

void BlockPool::count_given_back(ClaimCounts* claim, uint64_t bytes) noexcept {
    if (claim == nullptr) return;
    count(claim, {claim->bytes, claim->used_bytes - bytes, claim->peak_bytes});
}

std::shared_ptr<ClaimCounts> BlockPool::users_claim() const {
    return claims_user != nullptr && claims_user->pool_ == this ? claims_user->counts_ : nullptr;
}

// These are the free bytes that this thread must not take, because they belong to the claims of others.
uint64_t BlockPool::withheld_locked() const {
    const std::shared_ptr<ClaimCounts> own = users_claim();
    return claimed_bytes_ - (own == nullptr ? 0 : own->unused_bytes());
}

uint64_t BlockPool::left_locked() const {
    return allocator_.limit_bytes() - allocator_.used_bytes() - withheld_locked();
}

void BlockPool::unreserve(uint64_t bytes, ClaimCounts* claim) noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    count_given_back(claim, bytes);
    allocator_.unreserve(bytes);
}

void BlockPool::fail_if_injected(uint64_t bytes, const char* what) {
    if (fails_in_ > 0 && --fails_in_ == 0) throw refuse(bytes, what, "a fault was injected");
}

Error BlockPool::limit_error(uint64_t bytes, const char* what) const {
    Error error = refuse(bytes, what, "the limit is reached");
    error.limit_reached = true;
    return error;
}

void BlockPool::give_back(void* data, ClaimCounts* claim) noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    count_given_back(claim, allocator_.give_back(data));
}

Error BlockPool::refuse(uint64_t bytes, const char* what, const char* why) const {
    const uint64_t left_bytes = left_locked();
    const bool on_device = tier_ == Tier::kDevice;
    std::string text = std::string(what) + ": " + bytes_text(bytes) + " of " +
                       (on_device ? "GPU memory" : "host memory") + " wanted, but " + why + "; " +
                       bytes_text(left_bytes) + " are left of the limit of " + bytes_text(allocator_.limit_bytes());
    if (on_device) text += ", the driver has " + bytes_text(backing_free_bytes());
    Error error(ErrorCode::kOutOfMemory, std::move(text));
    error.tier = tier_;
    error.wanted_bytes = bytes;
    error.free_bytes = free_locked();
    error.limit_bytes = allocator_.limit_bytes();
    return error;
}

uint64_t BlockPool::free_locked() const {
    const uint64_t cached_bytes = allocator_.reserved_bytes() - allocator_.used_bytes();
    const uint64_t backing_bytes = backing_free_bytes();
    return std::min(left_locked(), backing_bytes + cached_bytes);
}

uint64_t BlockPool::used_bytes() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return allocator_.used_bytes();
}

uint64_t BlockPool::peak_bytes() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return allocator_.peak_bytes();
}

void BlockPool::reset_peak() {
    std::lock_guard<std::mutex> lock(mutex_);
    allocator_.reset_peak();
}

uint64_t BlockPool::limit_bytes() const {
    return allocator_.limit_bytes();
}

uint64_t BlockPool::reserved_bytes() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return allocator_.reserved_bytes();
}

uint64_t BlockPool::free_bytes() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return free_locked();
}

uint64_t BlockPool::blocks() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return allocator_.blocks();
}

bool BlockPool::holds(const void* data, uint64_t bytes) const {
    std::lock_guard<std::mutex> lock(mutex_);
    return allocator_.holds(data, bytes);
}

void BlockPool::trim() {
    std::lock_guard<std::mutex> lock(mutex_);
    allocator_.trim();
}

void BlockPool::fail_after(uint64_t n) {
    std::lock_guard<std::mutex> lock(mutex_);
    fails_in_ = n;
}

void* DeviceBacking::acquire(uint64_t bytes) {
    set_device(ordinal_);
    void* data = nullptr;
    const cudaError_t status = cudaMalloc(&data, bytes);
    if (status == cudaErrorMemoryAllocation) {
        discard(status);
        return nullptr;
    }
    check(status, "cudaMalloc");
    return data;
}

void DeviceBacking::settle() noexcept {
    // Not left to cudaFree: that it waits for other streams is what it does today and not what it promises.
    if (try_set_device(ordinal_)) discard(cudaDeviceSynchronize());
}

void DeviceBacking::release(void* data, uint64_t) noexcept {
    // The memory of a lost device goes with the process.
    if (try_set_device(ordinal_)) discard(cudaFree(data));
}

MemoryPool::MemoryPool(int ordinal, uint64_t limit_bytes)
    : DeviceBacking(ordinal),
      BlockPool(static_cast<DeviceBacking&>(*this), kDeviceBlockSizes, limit_bytes, Tier::kDevice),
      ordinal_(ordinal) {}

uint64_t MemoryPool::backing_free_bytes() const {
    if (!try_set_device(ordinal_)) return 0;
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    const cudaError_t status = cudaMemGetInfo(&free_bytes, &total_bytes);
    discard(status);
    return status == cudaSuccess ? free_bytes : 0;
}

}}  // namespace spillway::cuda::device
