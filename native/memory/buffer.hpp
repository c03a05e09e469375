// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "memory/memory_budget.hpp"

namespace spillway {

// One owned block of memory, 64-byte aligned, counted in the budget it was made with. Blocks of 64 KiB and more are
// anonymous mappings (huge pages asked for from 2 MiB on) that go to the block cache of the budget when freed; smaller
// ones come from malloc. Contents are NOT zeroed unless said. Moving is free; not thread-safe by itself.
// A slice is the exception: bytes of another Buffer's block, which it neither counts nor frees.
class Buffer {
  public:
    Buffer() = default;
    // size() is `bytes` afterwards; 0 bytes: an empty Buffer. Throws kBudgetTooSmall / kOutOfMemory. `purpose` appears
    // in the message.
    static Buffer allocate(MemoryBudget& budget, uint64_t bytes, const char* purpose, bool zeroed = false);
    // Takes the bytes out of a reservation the caller already holds (and from the budget what rounding adds).
    static Buffer allocate(MemoryBudget& budget, Reservation& from, uint64_t bytes, const char* purpose,
                           bool zeroed = false);
    // `capacity` bytes of a block that somebody else owns and that outlives this; size() is 0.
    static Buffer slice(uint8_t* data, uint64_t capacity);
    Buffer(Buffer&& other) noexcept;
    Buffer& operator=(Buffer&& other) noexcept;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer();

    uint8_t* data() { return data_; }
    const uint8_t* data() const { return data_; }
    uint64_t size() const { return size_; }          // bytes in use
    uint64_t capacity() const { return capacity_; }  // bytes allocated
    bool empty() const { return data_ == nullptr; }
    bool is_slice() const { return is_slice_; }
    void set_size(uint64_t bytes) { size_ = bytes; }  // bytes <= capacity
    // Keeps size() bytes, at least doubles when it must grow (or takes just `capacity` when the budget has no more). A
    // slice becomes a block of its own.
    void grow(MemoryBudget& budget, uint64_t capacity, const char* purpose);
    // At least `bytes`, for contents that are made anew: the old block goes first, as the budget may not hold both. A
    // buffer that is renewed for the second time is used for contents of varying size: it gets a quarter more, where
    // there is that much.
    void renew(MemoryBudget& budget, uint64_t bytes, const char* purpose);
    // Stops counting the block in the budget: the rows now belong to the user.
    void leave_budget() { reservation_.release(); }
    MemoryBudget* budget() const { return reservation_.budget(); }  // nullptr: it is counted in none

    // The block handed over to somebody who will call free_block() (JS finalizer). Not of a slice.
    struct Block {
        uint8_t* data;
        uint64_t capacity;
    };
    Block detach();
    static void free_block(Block block);
    // The same for a block of some budget that still exists: its memory is used again rather than given back.
    static void free_block(Block block, MemoryBudget& budget);

  private:
    Buffer(uint8_t* data, uint64_t size, uint64_t capacity, Reservation reservation)
        : data_(data), size_(size), capacity_(capacity), reservation_(std::move(reservation)) {}
    static Buffer from_block(ReservedBlock reserved, uint64_t bytes, bool zeroed);
    static Buffer from_heap(Reservation reservation, uint64_t bytes, const char* purpose, bool zeroed);
    void extend(MemoryBudget& budget, uint64_t capacity, uint64_t capacity_min, const char* purpose);
    void replace(MemoryBudget& budget, uint64_t capacity, uint64_t capacity_min, const char* purpose);

    uint8_t* data_ = nullptr;
    uint64_t size_ = 0;
    uint64_t capacity_ = 0;
    bool is_slice_ = false;
    Reservation reservation_;
};

}  // namespace spillway
