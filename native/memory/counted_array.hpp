// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "memory/buffer.hpp"

namespace spillway {

// An array of plain values that only grows at its end, counted in the budget once it takes more than 4 KiB: below that
// a relation of a few batches would take a reservation for less than its own objects need.
template <class T>
class CountedArray {
    static_assert(std::is_trivially_copyable_v<T>);

  public:
    static constexpr uint64_t kUncountedBytes = 4096;
    static constexpr size_t kUncounted = kUncountedBytes / sizeof(T);

    // purpose: appears in the error when the budget has no room.
    explicit CountedArray(const char* purpose) : purpose_(purpose) {}

    const char* purpose() const { return purpose_; }
    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    const T* data() const { return small_ ? small_.get() : reinterpret_cast<const T*>(buffer_.data()); }
    const T& operator[](size_t i) const { return data()[i]; }
    T& operator[](size_t i) { return writable()[i]; }
    const T& back() const { return data()[size_ - 1]; }
    // Bytes that are reserved in the budget.
    uint64_t counted_bytes() const { return buffer_.capacity(); }

    // Room for `count` values in all, so that later ones need no more. Throws kBudgetTooSmall.
    void reserve(MemoryBudget& budget, size_t count) {
        if (count <= room()) return;
        if (count <= kUncounted && buffer_.empty()) {
            grow_small(count);
        } else {
            SPILLWAY_CHECK(count <= kMax);
            buffer_.grow(budget, count * sizeof(T), purpose_);
            if (small_) std::copy_n(small_.get(), size_, reinterpret_cast<T*>(buffer_.data()));
            small_.reset();
            buffer_.set_size(buffer_.capacity());
        }
    }
    // `count` values more, not yet written; valid until the next one.
    T* append(MemoryBudget& budget, size_t count) {
        SPILLWAY_CHECK(count <= kMax - size_);
        if (size_ + count > room()) reserve(budget, std::max(size_ + count, std::min(2 * size_, kUncounted)));
        size_ += count;
        return writable() + size_ - count;
    }
    void push_back(MemoryBudget& budget, const T& value) { *append(budget, 1) = value; }
    // Forgets the last values; their memory stays.
    void pop_back(size_t count) {
        SPILLWAY_CHECK(count <= size_);
        size_ -= count;
    }
    // Gives back what more than an eighth too much was reserved, where the budget has room for a copy.
    void fit(MemoryBudget& budget) {
        const uint64_t wanted = size_ * sizeof(T);
        if (buffer_.empty() || buffer_.capacity() - wanted <= wanted / 8) return;
        CountedArray tight(purpose_);
        try {
            tight.reserve(budget, size_);
        } catch (const Error& error) {
            if (error.code() != ErrorCode::kBudgetTooSmall) throw;
            return;
        }
        std::copy_n(data(), size_, tight.writable());
        tight.size_ = size_;
        *this = std::move(tight);
    }

  private:
    static constexpr size_t kMax = (size_t{1} << 62) / sizeof(T);

    T* writable() { return small_ ? small_.get() : reinterpret_cast<T*>(buffer_.data()); }
    size_t room() const { return small_ ? small_room_ : buffer_.capacity() / sizeof(T); }
    void grow_small(size_t count) {
        auto larger = std::make_unique<T[]>(count);
        if (small_) std::copy_n(small_.get(), size_, larger.get());
        small_ = std::move(larger);
        small_room_ = count;
    }

    const char* purpose_;
    size_t size_ = 0;
    std::unique_ptr<T[]> small_;
    size_t small_room_ = 0;
    Buffer buffer_;
};

}  // namespace spillway
