// SPDX-License-Identifier: Apache-2.0
#include "memory/memory_budget.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "support/test.hpp"

namespace spillway {

namespace {

using test::detail;
using test::kMiB;

void wait_until(const std::function<bool()>& condition) {
    for (int i = 0; i < 5000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT(condition());
}

}  // namespace

TEST(memory_budget_counts_what_is_reserved) {
    MemoryBudget budget(10 * kMiB);
    {
        Reservation a = budget.reserve(6 * kMiB, "a");
        EXPECT_EQ(budget.used(), 6 * kMiB);
        EXPECT(!budget.try_reserve(5 * kMiB).has_value());
        Reservation b = std::move(*budget.try_reserve(4 * kMiB));
        EXPECT_EQ(budget.free(), 0u);
        a.shrink_to(kMiB);
        EXPECT_EQ(budget.used(), 5 * kMiB);
        Reservation part = b.split(3 * kMiB);
        EXPECT_EQ(b.bytes(), kMiB);
        a.merge(std::move(part));
        EXPECT_EQ(a.bytes(), 4 * kMiB);
        EXPECT_EQ(budget.used(), 5 * kMiB);
        a = std::move(b);
        EXPECT_EQ(budget.used(), kMiB);
        a.release();
        a.release();
        EXPECT_EQ(budget.used(), 0u);
    }
    EXPECT_EQ(budget.used(), 0u);
    EXPECT_EQ(budget.peak(), 10 * kMiB);
    budget.reset_peak();
    EXPECT_EQ(budget.peak(), 0u);
    EXPECT_EQ(budget.reserve(0, "nothing").bytes(), 0u);
}

TEST(memory_budget_error_says_what_to_change) {
    MemoryBudget budget(64 * kMiB);
    const Reservation held = budget.reserve(24 * kMiB, "held");
    try {
        budget.reserve(uint64_t{512} * kMiB, "hash table of the build side");
        EXPECT(false);
    } catch (const Error& error) {
        EXPECT_EQ(std::string(error_code_name(error.code())), std::string("BUDGET_TOO_SMALL"));
        EXPECT_EQ(error.message(),
                  std::string("hash table of the build side: wanted 512.0 MiB of host memory, but only 40.0 MiB of the "
                              "budget of 64.0 MiB are free; raise memory.host by at least 472.0 MiB"));
        EXPECT_EQ(detail(error, "tier"), std::string("host"));
        EXPECT_EQ(detail(error, "purpose"), std::string("hash table of the build side"));
        EXPECT_EQ(detail(error, "wantedBytes"), std::to_string(512 * kMiB));
        EXPECT_EQ(detail(error, "freeBytes"), std::to_string(40 * kMiB));
        EXPECT_EQ(detail(error, "limitBytes"), std::to_string(64 * kMiB));
        EXPECT_EQ(detail(error, "option"), std::string("memory.host"));
    }
    EXPECT_ERROR(kBudgetTooSmall, budget.reserve(UINT64_MAX, "overflow"));
    EXPECT_EQ(budget.used(), 24 * kMiB);
    EXPECT_EQ(bytes_text(1536), std::string("1.5 KiB"));
}

TEST(memory_budget_system_refusal_is_out_of_memory) {
    MemoryBudget budget(uint64_t{1} << 61);
    EXPECT_ERROR(kOutOfMemory, budget.reserve_block(uint64_t{1} << 60, "too much for any machine"));
    EXPECT(!budget.try_reserve_block(uint64_t{1} << 60).has_value());
    EXPECT_EQ(budget.used(), 0u);
}

TEST(memory_budget_wait_reserve_wakes_in_order) {
    MemoryBudget budget(10 * kMiB);
    JobControl control;
    Reservation held = budget.reserve(8 * kMiB, "held");
    std::atomic<int> served{0};
    int big_served_as = 0;
    int small_served_as = 0;
    std::thread big([&] {
        const Reservation mine = budget.wait_reserve(9 * kMiB, "big", control);
        big_served_as = ++served;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::thread small([&] {  // would fit at once, but must not starve the one before it
        const Reservation mine = budget.wait_reserve(2 * kMiB, "small", control);
        small_served_as = ++served;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(served.load(), 0);
    held.shrink_to(kMiB);
    big.join();
    small.join();
    EXPECT_EQ(big_served_as, 1);
    EXPECT_EQ(small_served_as, 2);
    EXPECT_EQ(budget.used(), kMiB);
}

TEST(memory_budget_wait_reserve_ends_with_its_job) {
    MemoryBudget budget(10 * kMiB);
    JobControl control;
    JobControl other;
    EXPECT_ERROR(kBudgetTooSmall, budget.wait_reserve(11 * kMiB, "never", control));
    Reservation held = budget.reserve(9 * kMiB, "held");
    std::atomic<bool> aborted{false};
    std::thread first([&] {
        EXPECT_ERROR(kAborted, budget.wait_reserve(5 * kMiB, "first", control));
        aborted = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::thread second([&] { const Reservation mine = budget.wait_reserve(kMiB, "second", other); });
    control.cancelled = true;
    second.join();  // served as soon as the first has left the queue
    first.join();
    EXPECT(aborted);
    EXPECT_EQ(budget.used(), 9 * kMiB);
}

TEST(memory_budget_cache_yields_to_reservations) {
    MemoryBudget budget(16 * kMiB);
    ReservedBlock block = budget.reserve_block(8 * kMiB, "block");
    EXPECT(block.zeroed);
    std::memset(block.block.data, 7, block.block.bytes);
    uint8_t* const data = block.block.data;
    budget.return_block(block.block, std::move(block.reservation));
    EXPECT_EQ(budget.used(), 0u);
    EXPECT_EQ(budget.cached(), 8 * kMiB);
    EXPECT_EQ(budget.free(), 16 * kMiB);

    ReservedBlock part = budget.reserve_block(2 * kMiB, "part");
    EXPECT(part.block.data == data && !part.zeroed);
    EXPECT_EQ(budget.cached(), 6 * kMiB);
    {
        const Reservation most = budget.reserve(12 * kMiB, "most");  // 2 MiB are free, 6 MiB cached: 4 MiB must go
        EXPECT_EQ(budget.cached(), 2 * kMiB);
        EXPECT_EQ(budget.unused(), 0u);
        EXPECT_EQ(budget.free(), 2 * kMiB);
    }
    std::optional<ReservedBlock> tried = budget.try_reserve_block(2 * kMiB);
    EXPECT(tried->block.data == data + 2 * kMiB && !tried->zeroed);
    budget.return_block(tried->block, std::move(tried->reservation));
    ReservedBlock mapped = budget.map_reserved(budget.reserve(2 * kMiB, "reserved before"), "mapped");
    EXPECT(mapped.block.data == data + 2 * kMiB && !mapped.zeroed);
    EXPECT_EQ(budget.used(), 4 * kMiB);
    EXPECT_EQ(budget.cached(), 0u);
    budget.return_block(mapped.block, std::move(mapped.reservation));
    budget.return_block(part.block, std::move(part.reservation));
    EXPECT_EQ(budget.cached(), 4 * kMiB);
    budget.trim_cache(3 * kMiB);
    EXPECT_EQ(budget.cached(), 2 * kMiB);
    budget.trim_cache();
    EXPECT_EQ(budget.cached(), 0u);
}

// A block that had left the budget (a result that the user let go) goes to the cache if all of it fits beside what is
// reserved and cached, and to the system otherwise.
TEST(memory_budget_adopts_blocks_that_fit) {
    const auto adopt = [](MemoryBudget& budget, uint64_t bytes) {
        const MappedBlock block = map_block(bytes);
        EXPECT(block.data != nullptr);
        budget.adopt_block(block);
    };
    MemoryBudget budget(8 * kMiB);
    adopt(budget, 10 * kMiB);
    EXPECT_EQ(budget.cached(), 0u);
    adopt(budget, 8 * kMiB);
    EXPECT_EQ(budget.cached(), 8 * kMiB);
    budget.trim_cache();
    {
        const Reservation half = budget.reserve(4 * kMiB, "half");
        adopt(budget, 6 * kMiB);
        EXPECT_EQ(budget.cached(), 0u);
        adopt(budget, 2 * kMiB);
        EXPECT_EQ(budget.cached(), 2 * kMiB);
        adopt(budget, 4 * kMiB);
        EXPECT_EQ(budget.cached(), 2 * kMiB);
        adopt(budget, 2 * kMiB);  // the last that fits
        EXPECT_EQ(budget.cached(), 4 * kMiB);
        EXPECT_EQ(budget.unused(), 0u);
    }
    EXPECT_EQ(budget.used(), 0u);
    const ReservedBlock block = budget.reserve_block(2 * kMiB, "from the cache");
    EXPECT(!block.zeroed);
    EXPECT_EQ(budget.cached(), 2 * kMiB);
    unmap_block(block.block);
}

TEST(memory_budget_asks_reclaimable_holders_before_it_fails) {
    struct Holder : Reclaimable {
        uint64_t reclaim(uint64_t) override {
            ++asked;
            const uint64_t bytes = held.bytes();
            held.release();
            return bytes;
        }
        Reservation held;
        int asked = 0;
    } holder;
    MemoryBudget budget(10 * kMiB);
    holder.held = budget.reserve(8 * kMiB, "spare");
    budget.add_reclaimable(&holder);
    EXPECT(budget.try_reserve(2 * kMiB).has_value());
    EXPECT_EQ(holder.asked, 0);
    EXPECT_EQ(budget.reserve(9 * kMiB, "urgent").bytes(), 9 * kMiB);
    EXPECT_EQ(holder.asked, 1);
    JobControl control;
    holder.held = budget.reserve(8 * kMiB, "spare");
    EXPECT_EQ(budget.wait_reserve(9 * kMiB, "waiting", control).bytes(), 9 * kMiB);
    budget.remove_reclaimable(&holder);
    holder.held = budget.reserve(8 * kMiB, "spare");
    EXPECT_ERROR(kBudgetTooSmall, budget.reserve(9 * kMiB, "urgent"));
    EXPECT_EQ(holder.asked, 2);
}

// Each is asked for what is still missing, and none when nothing is.
TEST(memory_budget_asks_holders_for_no_more_than_it_lacks) {
    struct Holder : Reclaimable {
        uint64_t reclaim(uint64_t wanted) override {
            asked.push_back(wanted);
            const uint64_t bytes = std::min(wanted, held.bytes());
            held.shrink_to(held.bytes() - bytes);
            return bytes;
        }
        Reservation held;
        std::vector<uint64_t> asked;
    } holders[3];
    MemoryBudget budget(10 * kMiB);
    const uint64_t held[] = {kMiB, 5 * kMiB, 2 * kMiB};
    for (size_t i = 0; i < 3; ++i) {
        holders[i].held = budget.reserve(held[i], "spare");
        budget.add_reclaimable(&holders[i]);
    }
    EXPECT_EQ(budget.reserve(4 * kMiB, "urgent").bytes(), 4 * kMiB);
    EXPECT(holders[0].asked == std::vector<uint64_t>{4 * kMiB});
    EXPECT(holders[1].asked == std::vector<uint64_t>{3 * kMiB});
    EXPECT(holders[2].asked.empty());
    for (Holder& holder : holders) budget.remove_reclaimable(&holder);
}

TEST(memory_budget_keeps_no_block_of_which_a_part_is_reserved) {
    MemoryBudget budget(8 * kMiB);
    ReservedBlock block = budget.reserve_block(4 * kMiB, "block");
    const Reservation part = block.reservation.split(kMiB);
    budget.return_block(block.block, std::move(block.reservation));
    EXPECT_EQ(budget.cached(), 0u);
    EXPECT_EQ(budget.used(), kMiB);
}

// Many threads, every kind of request: the limit holds at every moment, no block has two owners, all comes back.
TEST(memory_budget_holds_under_many_threads) {
    MemoryBudget budget(48 * kMiB);
    JobControl control;
    std::atomic<int> faults{0};
    const auto work = [&](uint64_t seed) {
        std::mt19937_64 random(seed);
        for (int step = 0; step < 300; ++step) {
            const uint64_t bytes =
                random() % 2 == 0 ? (1 + random() % 4) * kHugeBytes : block_capacity(64 * 1024 + random() % kMiB);
            const uint64_t choice = random() % 4;
            if (choice == 0) {
                const Reservation waited = budget.wait_reserve(bytes, "waited", control);
            } else if (choice == 1) {
                auto reserved = budget.try_reserve(bytes);
                if (reserved) reserved->shrink_to(bytes / 2);
            } else if (auto block = budget.try_reserve_block(bytes)) {
                const uint8_t mark = static_cast<uint8_t>(seed);
                for (uint64_t i = 0; i < bytes; i += 65536) block->block.data[i] = mark;
                std::this_thread::yield();
                for (uint64_t i = 0; i < bytes; i += 65536) faults += block->block.data[i] != mark;
                budget.return_block(block->block, std::move(block->reservation));
            }
            if (budget.used() > budget.limit()) ++faults;
        }
    };
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < 8; ++i) threads.emplace_back(work, i + 1);
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(faults.load(), 0);
    EXPECT_EQ(budget.used(), 0u);
    EXPECT(budget.cached() <= budget.limit());
    EXPECT(budget.peak() <= budget.limit());
    wait_until([&] { return budget.try_reserve(budget.limit()).has_value(); });
    EXPECT_EQ(budget.cached(), 0u);
}

}  // namespace spillway
