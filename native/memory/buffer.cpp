// SPDX-License-Identifier: Apache-2.0
#include "memory/buffer.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/checked_size.hpp"
#include "base/error.hpp"

namespace spillway {

namespace {

constexpr uint64_t kAlignment = 64;

bool is_mapped(uint64_t capacity) {
    return capacity >= kMappedBytesMin;
}

}  // namespace

Buffer Buffer::from_block(ReservedBlock reserved, uint64_t bytes, bool zeroed) {
    if (zeroed && !reserved.zeroed) std::memset(reserved.block.data, 0, reserved.block.bytes);
    return Buffer(reserved.block.data, bytes, reserved.block.bytes, std::move(reserved.reservation));
}

Buffer Buffer::from_heap(Reservation reservation, uint64_t bytes, const char* purpose, bool zeroed) {
    const uint64_t capacity = reservation.bytes();
    auto* data = static_cast<uint8_t*>(std::aligned_alloc(kAlignment, capacity));
    if (data == nullptr) throw system_out_of_memory(capacity, purpose);
    if (zeroed) std::memset(data, 0, capacity);
    return Buffer(data, bytes, capacity, std::move(reservation));
}

Buffer Buffer::allocate(MemoryBudget& budget, uint64_t bytes, const char* purpose, bool zeroed) {
    if (bytes == 0) return {};
    const uint64_t capacity = block_capacity(bytes);
    if (is_mapped(capacity)) return from_block(budget.reserve_block(capacity, purpose), bytes, zeroed);
    return from_heap(budget.reserve(capacity, purpose), bytes, purpose, zeroed);
}

Buffer Buffer::allocate(MemoryBudget& budget, Reservation& from, uint64_t bytes, const char* purpose, bool zeroed) {
    if (bytes == 0) return {};
    const uint64_t capacity = block_capacity(bytes);
    Reservation rounding;
    if (capacity > from.bytes()) rounding = budget.reserve(capacity - from.bytes(), purpose);
    Reservation reservation = from.split(std::min(capacity, from.bytes()));
    reservation.merge(std::move(rounding));
    if (is_mapped(capacity)) return from_block(budget.map_reserved(std::move(reservation), purpose), bytes, zeroed);
    return from_heap(std::move(reservation), bytes, purpose, zeroed);
}

Buffer Buffer::slice(uint8_t* data, uint64_t capacity) {
    Buffer slice(data, 0, capacity, {});
    slice.is_slice_ = true;
    return slice;
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      capacity_(std::exchange(other.capacity_, 0)),
      is_slice_(std::exchange(other.is_slice_, false)),
      reservation_(std::move(other.reservation_)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
    Buffer taken(std::move(other));
    std::swap(data_, taken.data_);
    std::swap(size_, taken.size_);
    std::swap(capacity_, taken.capacity_);
    std::swap(is_slice_, taken.is_slice_);
    std::swap(reservation_, taken.reservation_);
    return *this;
}

Buffer::~Buffer() {
    if (data_ == nullptr || is_slice_) return;
    if (is_mapped(capacity_) && reservation_.bytes() >= capacity_) {
        MemoryBudget* budget = reservation_.budget();
        budget->return_block({data_, capacity_}, std::move(reservation_));
    } else {
        free_block({data_, capacity_});  // left the budget, or malloc
    }
}

void Buffer::grow(MemoryBudget& budget, uint64_t capacity, const char* purpose) {
    if (capacity <= capacity_) return;
    const uint64_t enough = block_capacity(capacity);
    const uint64_t doubled = std::max(enough, block_capacity(2 * capacity_));
    if (capacity_ >= kHugeBytes && !is_slice_) {
        extend(budget, doubled, enough, purpose);
    } else {
        replace(budget, doubled, enough, purpose);
    }
}

void Buffer::renew(MemoryBudget& budget, uint64_t bytes, const char* purpose) {
    if (bytes <= capacity_) return;
    const uint64_t roomy = empty() ? bytes : add_or_max(bytes, bytes / 4);
    *this = Buffer();
    try {
        *this = allocate(budget, roomy, purpose);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::kBudgetTooSmall || roomy == bytes) throw;
        *this = allocate(budget, bytes, purpose);
    }
}

// Only the difference is reserved and no byte is copied: doubling a block never needs three times its size.
void Buffer::extend(MemoryBudget& budget, uint64_t capacity, uint64_t capacity_min, const char* purpose) {
    std::optional<Reservation> more = budget.try_reserve(capacity - reservation_.bytes());
    if (!more) {
        capacity = capacity_min;
        more = budget.reserve(capacity - reservation_.bytes(), purpose);
    }
    const MappedBlock longer = extend_block({data_, capacity_}, capacity);
    if (longer.data == nullptr) throw system_out_of_memory(capacity, purpose);
    data_ = longer.data;
    capacity_ = capacity;
    reservation_.merge(std::move(*more));
}

void Buffer::replace(MemoryBudget& budget, uint64_t capacity, uint64_t capacity_min, const char* purpose) {
    Buffer next;
    if (is_mapped(capacity)) {
        std::optional<ReservedBlock> reserved = budget.try_reserve_block(capacity);
        if (reserved) next = from_block(std::move(*reserved), size_, false);
    } else if (std::optional<Reservation> reserved = budget.try_reserve(capacity)) {
        next = from_heap(std::move(*reserved), size_, purpose, false);
    }
    if (next.empty()) next = allocate(budget, capacity_min, purpose);
    next.size_ = size_;
    if (size_ > 0) std::memcpy(next.data_, data_, size_);
    *this = std::move(next);
}

Buffer::Block Buffer::detach() {
    SPILLWAY_CHECK(!is_slice_);
    const Block block{data_, capacity_};
    data_ = nullptr;
    size_ = 0;
    capacity_ = 0;
    reservation_.release();
    return block;
}

void Buffer::free_block(Block block, MemoryBudget& budget) {
    if (block.data != nullptr && is_mapped(block.capacity)) {
        budget.adopt_block({block.data, block.capacity});
    } else {
        free_block(block);
    }
}

void Buffer::free_block(Block block) {
    if (block.data == nullptr) return;
    if (is_mapped(block.capacity)) {
        unmap_block({block.data, block.capacity});
    } else {
        std::free(block.data);
    }
}

}  // namespace spillway
