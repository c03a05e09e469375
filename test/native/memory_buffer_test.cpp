// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <vector>

#include "memory/buffer.hpp"
#include "support/test.hpp"

namespace spillway {

namespace {

using test::kKiB;
using test::kMiB;

bool all_zero(const Buffer& buffer) {
    return std::all_of(buffer.data(), buffer.data() + buffer.capacity(), [](uint8_t byte) { return byte == 0; });
}

uint8_t pattern(uint64_t i) {
    return static_cast<uint8_t>(i * 31 + (i >> 12));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
uint64_t resident_bytes() {
    std::ifstream file("/proc/self/statm");
    uint64_t total = 0;
    uint64_t resident = 0;
    file >> total >> resident;
    return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}
#endif

}  // namespace

TEST(memory_buffer_is_aligned_and_counted) {
    MemoryBudget budget(64 * kMiB);
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{64}, 63 * kKiB, 64 * kKiB, kMiB + 1, 5 * kMiB, 20 * kMiB + 1}) {
        Buffer buffer = Buffer::allocate(budget, bytes, "test");
        EXPECT_EQ(buffer.size(), bytes);
        EXPECT(buffer.capacity() >= bytes);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
        EXPECT_EQ(budget.used(), buffer.capacity());
        std::memset(buffer.data(), 1, buffer.capacity());
        Buffer moved = std::move(buffer);
        EXPECT(buffer.empty() && buffer.size() == 0 && buffer.capacity() == 0);
        EXPECT_EQ(budget.used(), moved.capacity());
        buffer = std::move(moved);
        EXPECT(moved.empty() && !buffer.empty());
    }
    EXPECT_EQ(budget.used(), 0u);
    EXPECT(Buffer::allocate(budget, 0, "nothing").empty());
    EXPECT_ERROR(kBudgetTooSmall, Buffer::allocate(budget, 65 * kMiB, "too much"));
    EXPECT_ERROR(kBudgetTooSmall, Buffer::allocate(budget, UINT64_MAX - 100, "far too much"));
}

TEST(memory_buffer_zeroes_used_blocks) {
    MemoryBudget budget(64 * kMiB);
    for (const uint64_t bytes : {uint64_t{100}, 100 * kKiB, 2 * kMiB, 7 * kMiB + 5}) {
        for (int round = 0; round < 3; ++round) {
            Buffer buffer = Buffer::allocate(budget, bytes, "zeroed", true);
            EXPECT(all_zero(buffer));
            std::memset(buffer.data(), 0xee, buffer.capacity());
        }
    }
}

TEST(memory_buffer_reuses_freed_blocks) {
    MemoryBudget budget(64 * kMiB);
    Buffer first = Buffer::allocate(budget, 8 * kMiB, "first");
    const uint8_t* data = first.data();
    first = Buffer();
    EXPECT_EQ(budget.cached(), 8 * kMiB);
    const Buffer second = Buffer::allocate(budget, 8 * kMiB, "second");
    EXPECT(second.data() == data);
}

TEST(memory_buffer_grows_and_keeps_its_bytes) {
    MemoryBudget budget(256 * kMiB);
    Buffer buffer;
    uint64_t filled = 0;
    for (uint64_t capacity = 10; capacity < 40 * kMiB; capacity = capacity * 3 + 7) {
        const uint64_t before = buffer.capacity();
        buffer.grow(budget, capacity, "growing");
        EXPECT(buffer.capacity() >= capacity);
        if (capacity > before) EXPECT(buffer.capacity() >= 2 * before);
        EXPECT_EQ(buffer.size(), filled);
        EXPECT_EQ(budget.used(), buffer.capacity());
        for (uint64_t i = 0; i < filled; ++i) {
            if (buffer.data()[i] != pattern(i)) EXPECT_EQ(i, filled);
        }
        for (; filled < capacity; ++filled) buffer.data()[filled] = pattern(filled);
        buffer.set_size(filled);
    }
    const uint8_t* data = buffer.data();
    buffer.grow(budget, 1000, "no growth");
    EXPECT(buffer.data() == data);
}

TEST(memory_buffer_grows_to_what_is_left) {
    MemoryBudget budget(10 * kMiB);
    Buffer big = Buffer::allocate(budget, 6 * kMiB, "big");
    big.data()[5 * kMiB] = 42;
    big.grow(budget, 7 * kMiB, "big");  // doubling needs 12 MiB: only the wanted bytes
    EXPECT_EQ(big.capacity(), 7 * kMiB);
    EXPECT_EQ(big.data()[5 * kMiB], 42);
    EXPECT_ERROR(kBudgetTooSmall, big.grow(budget, 11 * kMiB, "big"));
    EXPECT_EQ(big.capacity(), 7 * kMiB);
    EXPECT_EQ(big.data()[5 * kMiB], 42);
    Buffer small = Buffer::allocate(budget, kMiB, "small");
    small.data()[77] = 43;
    small.grow(budget, kMiB + kMiB / 2, "small");
    EXPECT_EQ(small.data()[77], 43);
    EXPECT_EQ(small.size(), kMiB);  // of which nobody has written more
    EXPECT_EQ(small.capacity(), 2 * kMiB);
    Buffer least = Buffer::allocate(budget, 256 * kKiB, "least");
    const Reservation held = budget.reserve(budget.free() - 384 * kKiB, "held");
    least.grow(budget, 384 * kKiB, "least");  // there is no room for twice as much
    EXPECT_EQ(least.size(), 256 * kKiB);
    EXPECT_EQ(least.capacity(), 384 * kKiB);
    EXPECT_ERROR(kBudgetTooSmall, small.grow(budget, 4 * kMiB, "small"));
    EXPECT_EQ(small.data()[77], 43);
    EXPECT_EQ(budget.used(), big.capacity() + small.capacity() + least.capacity() + held.bytes());
}

TEST(memory_buffer_takes_from_a_reservation) {
    MemoryBudget budget(32 * kMiB);
    Reservation reserved = budget.reserve(6 * kMiB, "ahead");
    {
        const Buffer a = Buffer::allocate(budget, reserved, 2 * kMiB, "a");
        EXPECT_EQ(reserved.bytes(), 4 * kMiB);
        const Buffer b = Buffer::allocate(budget, reserved, 1000, "b", true);
        EXPECT_EQ(b.capacity(), 1024u);
        const Buffer c = Buffer::allocate(budget, reserved, 4 * kMiB - 1024 + 1, "c");  // one byte more than is left
        EXPECT_EQ(reserved.bytes(), 0u);
        EXPECT(c.capacity() >= c.size());
        EXPECT_EQ(budget.used(), a.capacity() + b.capacity() + c.capacity());
    }
    EXPECT_EQ(budget.used(), 0u);
}

TEST(memory_buffer_detached_blocks_leave_the_budget) {
    MemoryBudget budget(32 * kMiB);
    for (const uint64_t bytes : {uint64_t{100}, 100 * kKiB, 4 * kMiB}) {
        Buffer buffer = Buffer::allocate(budget, bytes, "result");
        std::memset(buffer.data(), 5, bytes);
        const Buffer::Block block = buffer.detach();
        EXPECT(buffer.empty());
        EXPECT_EQ(budget.used(), 0u);
        EXPECT_EQ(block.data[bytes - 1], 5);
        Buffer::free_block(block);
        EXPECT_EQ(budget.cached(), 0u);
    }
    Buffer::free_block(Buffer().detach());
    Buffer result;
    {
        MemoryBudget short_lived(8 * kMiB);
        result = Buffer::allocate(short_lived, 4 * kMiB, "result");
        result.leave_budget();
        EXPECT_EQ(short_lived.used(), 0u);
    }
    result.data()[0] = 1;  // belongs to the user now and outlives the budget
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Blocks of all sizes, partly touched, freed and reused: resident memory stays below limit + a little for malloc.
TEST(memory_buffer_resident_bytes_stay_below_the_limit) {
    constexpr uint64_t kLimit = 96 * kMiB;
    MemoryBudget budget(kLimit);
    std::mt19937_64 random(3);
    const uint64_t before = resident_bytes();
    uint64_t most = 0;
    std::vector<Buffer> held;
    for (int step = 0; step < 600; ++step) {
        const uint64_t bytes = uint64_t{1} << (10 + random() % 15);
        try {
            Buffer buffer = Buffer::allocate(budget, bytes + random() % bytes, "test");
            std::memset(buffer.data(), 1, random() % 2 == 0 ? buffer.capacity() : buffer.capacity() / 3);
            held.push_back(std::move(buffer));
        } catch (const Error&) {
            held.erase(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(held.size() / 2));
        }
        EXPECT(budget.used() + budget.cached() <= kLimit);
        most = std::max(most, resident_bytes());
    }
    EXPECT(most <= before + kLimit + 4 * kMiB);
    held.clear();
    budget.trim_cache();
    EXPECT(resident_bytes() <= before + 8 * kMiB);
}
#endif

}  // namespace spillway
