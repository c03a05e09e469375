// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "device/device_policy.hpp"
#include "device/memory_pool.hpp"

namespace spillway::cuda {

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
      bytes_(std::exchange(other.bytes_, 0)) {}

Allocation& Allocation::operator=(Allocation&& other) noexcept {
    if (this != &other) {
        reset();
        pool_ = std::exchange(other.pool_, nullptr);
        data_ = std::exchange(other.data_, nullptr);
        bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
}

void Allocation::reset() noexcept {
    if (pool_ != nullptr && data_ != nullptr) pool_->give_back(data_);
    pool_ = nullptr;
    data_ = nullptr;
    bytes_ = 0;
}

PoolReservation::PoolReservation(PoolReservation&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

PoolReservation& PoolReservation::operator=(PoolReservation&& other) noexcept {
    if (this != &other) {
        reset();
        pool_ = std::exchange(other.pool_, nullptr);
        bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
}

void PoolReservation::reset() noexcept {
    if (pool_ != nullptr) pool_->unreserve(bytes_);
    pool_ = nullptr;
    bytes_ = 0;
}

BlockPool::BlockPool(BlockBacking& backing, const BlockSizes& sizes, uint64_t limit_bytes, Tier tier)
    : allocator_(backing, sizes, limit_bytes), tier_(tier) {}

Allocation BlockPool::allocate(uint64_t bytes, const char* what) {
    if (bytes == 0) return {};
    std::lock_guard<std::mutex> lock(mutex_);
    fail_if_injected(bytes, what);
    const BlockAllocator::Grant grant = allocator_.take(bytes);
    switch (grant.refusal) {
        case BlockAllocator::Refusal::kNone:
            return Allocation(this, grant.data, bytes);
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
    if (!allocator_.reserve(bytes)) throw limit_error(bytes, what);
    return PoolReservation(this, bytes);
}

void BlockPool::unreserve(uint64_t bytes) noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
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

void BlockPool::give_back(void* data) noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    allocator_.give_back(data);
}

Error BlockPool::refuse(uint64_t bytes, const char* what, const char* why) const {
    const uint64_t left_bytes = allocator_.limit_bytes() - allocator_.used_bytes();
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
    return std::min(allocator_.limit_bytes() - allocator_.used_bytes(), backing_bytes + cached_bytes);
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

}  // namespace spillway::cuda
