// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "memory/buffer.hpp"
#include "memory/page_pool.hpp"
#include "support/test.hpp"

namespace spillway {

namespace {

using test::kKiB;
using test::kMiB;

std::vector<uint8_t*> acquire_all(PagePool& pool) {
    std::vector<uint8_t*> pages;
    while (uint8_t* page = pool.try_acquire()) pages.push_back(page);
    return pages;
}

}  // namespace

TEST(memory_page_pool_gives_every_page_once) {
    for (const uint64_t page_bytes : {4 * kKiB, 64 * kKiB, 2 * kMiB}) {
        for (const uint64_t pool_bytes : {2 * kMiB, 6 * kMiB, 2 * kMiB + 192 * kKiB, 36 * kKiB, uint64_t{0}}) {
            MemoryBudget budget(32 * kMiB);
            PagePool pool(budget, page_bytes, pool_bytes);
            const std::vector<uint8_t*> pages = acquire_all(pool);
            EXPECT_EQ(pages.size(), pool_bytes / page_bytes);
            EXPECT_EQ(pool.pages_in_use(), pages.size());
            EXPECT(budget.used() <= pool_bytes + system_page_bytes());
            EXPECT_EQ(std::set<uint8_t*>(pages.begin(), pages.end()).size(), pages.size());
            for (size_t i = 0; i < pages.size(); ++i) {
                EXPECT_EQ(reinterpret_cast<uintptr_t>(pages[i]) % 4096, 0u);
                std::memset(pages[i], static_cast<int>(i), page_bytes);
            }
            for (size_t i = 0; i < pages.size(); ++i) {
                EXPECT(pages[i][0] == static_cast<uint8_t>(i) && pages[i][page_bytes - 1] == static_cast<uint8_t>(i));
                pool.release(pages[i]);
            }
            EXPECT_EQ(pool.pages_in_use(), 0u);
            EXPECT_EQ(acquire_all(pool).size(), pages.size());
        }
    }
}

TEST(memory_page_pool_refuses_page_sizes_outside_its_range) {
    MemoryBudget budget(kMiB);
    EXPECT_ERROR(kInternal, PagePool(budget, 512, kMiB));
    EXPECT_ERROR(kInternal, PagePool(budget, 96 * kKiB, kMiB));
    EXPECT_ERROR(kInternal, PagePool(budget, 4 * kMiB, 8 * kMiB));
}

TEST(memory_page_pool_uses_the_last_bytes_of_the_budget) {
    MemoryBudget budget(3 * kMiB + 100 * kKiB);
    const Reservation other = budget.reserve(kMiB, "other");
    PagePool pool(budget, 64 * kKiB, 100 * kMiB);
    EXPECT_EQ(acquire_all(pool).size(), (2 * kMiB + 64 * kKiB) / (64 * kKiB));
    EXPECT(pool.try_acquire() == nullptr);
}

TEST(memory_page_pool_slabs_come_back_through_the_cache) {
    MemoryBudget budget(64 * kMiB);
    {
        PagePool pool(budget, 64 * kKiB, 16 * kMiB);
        for (uint8_t* page : acquire_all(pool)) pool.release(page);
        EXPECT_EQ(budget.used(), 16 * kMiB);
    }
    EXPECT_EQ(budget.used(), 0u);
    EXPECT_EQ(budget.cached(), 16 * kMiB);
    const Buffer table = Buffer::allocate(budget, 2 * kMiB, "of another size");
    EXPECT_EQ(budget.cached(), 14 * kMiB);
}

TEST(memory_page_pool_gives_free_slabs_to_others_under_pressure) {
    MemoryBudget budget(16 * kMiB);
    PagePool pool(budget, 64 * kKiB, 16 * kMiB);
    const std::vector<uint8_t*> pages = acquire_all(pool);
    EXPECT(!budget.try_reserve(kMiB).has_value());
    // One page of the first slab stays in use, so that slab must stay.
    for (size_t i = 1; i < pages.size(); ++i) pool.release(pages[i]);
    pages[0][0] = 99;
    {
        const Reservation urgent = budget.reserve(13 * kMiB, "urgent");
        EXPECT(!budget.try_reserve(2 * kMiB).has_value());
        const std::vector<uint8_t*> rest = acquire_all(pool);
        EXPECT(rest.size() >= 31 && rest.size() <= 47);
        for (uint8_t* page : rest) pool.release(page);
    }
    EXPECT_EQ(pages[0][0], 99);
    EXPECT_EQ(acquire_all(pool).size(), pages.size() - 1);  // and all of them can be had again
}

TEST(memory_page_pool_gives_free_ends_of_slabs_to_others_once_sealed) {
    for (const uint64_t page_bytes : {kKiB, 16 * kKiB}) {
        MemoryBudget budget(8 * kMiB);
        PagePool pool(budget, page_bytes, 3 * kMiB);
        std::vector<uint8_t*> pages;
        const uint64_t wanted = (2 * kMiB + 256 * kKiB) / page_bytes;  // one slab and a quarter of the other
        while (pages.size() < wanted) pages.push_back(pool.try_acquire());
        EXPECT_EQ(budget.used(), 3 * kMiB);
        EXPECT_EQ(pool.held_bytes(), wanted * page_bytes);
        const Reservation other = budget.reserve(5 * kMiB, "other");
        // Who fills the pool wants them next.
        EXPECT(!budget.try_reserve(256 * kKiB).has_value());
        pool.seal();
        for (uint8_t* page : pages) page[0] = page[page_bytes - 1] = 42;
        {
            const Reservation urgent = budget.reserve(3 * kMiB - wanted * page_bytes, "urgent");
            EXPECT_EQ(budget.used(), 8 * kMiB);
            EXPECT_EQ(pool.held_bytes(), wanted * page_bytes);
            EXPECT(!budget.try_reserve(system_page_bytes()).has_value());
        }
        for (uint8_t* page : pages) EXPECT(page[0] == 42 && page[page_bytes - 1] == 42);
        pool.release(pages);
        EXPECT_EQ(pool.held_bytes(), 0u);
        EXPECT(budget.try_reserve(3 * kMiB).has_value());
        EXPECT_EQ(budget.used(), 5 * kMiB);
    }
}

TEST(memory_page_pool_holds_what_lies_before_a_page_in_use) {
    MemoryBudget budget(4 * kMiB);
    PagePool pool(budget, 64 * kKiB, kMiB);
    std::vector<uint8_t*> pages = acquire_all(pool);
    std::sort(pages.begin(), pages.end());
    for (const size_t i : {1u, 2u, 11u, 12u, 13u, 14u, 15u}) pool.release(pages[i]);
    pool.seal();
    EXPECT_EQ(pool.held_bytes(), 11 * 64 * kKiB);
    const Reservation rest = budget.reserve(4 * kMiB - 11 * 64 * kKiB, "rest");
    EXPECT_EQ(budget.used(), 4 * kMiB);
    for (const size_t i : {0u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 10u}) pool.release(pages[i]);
}

TEST(memory_page_pool_gives_many_pages_at_once) {
    MemoryBudget budget(8 * kMiB);
    PagePool pool(budget, 16 * kKiB, 1 * kMiB);
    std::vector<uint8_t*> pages;
    EXPECT(pool.try_acquire(10, pages));
    EXPECT_EQ(pages.size(), size_t{10});
    EXPECT(pool.try_acquire(1, pages));
    EXPECT_EQ(pool.pages_in_use(), 11u);
    EXPECT(pool.try_acquire(1000, pages));  // as many as there are
    EXPECT_EQ(pages.size(), size_t{64});
    EXPECT(!pool.try_acquire(1, pages));
    EXPECT_EQ(std::set<uint8_t*>(pages.begin(), pages.end()).size(), pages.size());
    pool.release(pages);
    EXPECT_EQ(pool.pages_in_use(), 0u);
}

TEST(memory_page_pool_serves_many_threads) {
    MemoryBudget budget(24 * kMiB);
    PagePool pool(budget, 16 * kKiB, 8 * kMiB);
    PagePool rival(budget, 64 * kKiB, 20 * kMiB);
    std::atomic<int> faults{0};
    const auto work = [&](uint64_t seed) {
        std::mt19937_64 random(seed);
        std::vector<std::pair<PagePool*, uint8_t*>> held;
        for (int step = 0; step < 4000; ++step) {
            PagePool& from = random() % 2 == 0 ? pool : rival;
            std::vector<uint8_t*> pages;
            if (random() % 3 != 0) from.try_acquire(1 + random() % 5, pages);
            for (uint8_t* page : pages) {
                std::memset(page, static_cast<int>(seed), 64);
                held.emplace_back(&from, page);
            }
            if (pages.empty()) {
                const size_t keep = held.size() * (random() % 3) / 3;
                for (; held.size() > keep; held.pop_back()) {
                    if (held.back().second[63] != static_cast<uint8_t>(seed)) ++faults;
                    held.back().first->release(held.back().second);
                }
            }
            if (step % 64 == 0) {
                const auto pressure = budget.try_reserve(6 * kMiB);
            }
        }
        for (const auto& [owner, page_held] : held) owner->release(page_held);
    };
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < 6; ++i) threads.emplace_back(work, i + 1);
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(faults.load(), 0);
    EXPECT_EQ(pool.pages_in_use() + rival.pages_in_use(), 0u);
    EXPECT(budget.peak() <= budget.limit());
}

// A pool of one slab and several workers: whoever comes while another maps it must wait, not spill.
TEST(memory_page_pool_small_pools_never_seem_empty) {
    for (int round = 0; round < 50; ++round) {
        MemoryBudget budget(4 * kMiB);
        PagePool pool(budget, 64 * kKiB, 256 * kKiB);
        std::atomic<int> got{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; ++i) threads.emplace_back([&] { got += pool.try_acquire() != nullptr; });
        for (auto& thread : threads) thread.join();
        EXPECT_EQ(got.load(), 4);
    }
}

TEST(memory_page_pool_gives_all_free_slabs_back_one_after_the_other) {
    for (const uint64_t page_bytes : {kKiB, 4 * kKiB, 64 * kKiB}) {
        MemoryBudget budget(64 * kMiB);
        PagePool pool(budget, page_bytes, 32 * kMiB - page_bytes);  // the last slab is smaller
        for (uint8_t* page : acquire_all(pool)) pool.release(page);
        const Reservation rest = budget.reserve(budget.free(), "what the pool leaves");
        std::vector<Reservation> held;
        for (int i = 0; i < 15; ++i) held.push_back(budget.reserve(2 * kMiB, "one slab"));
        held.push_back(budget.reserve(2 * kMiB - 64 * kKiB, "the smaller one"));
    }
}

TEST(memory_page_pool_gives_back_what_others_lack_and_no_more) {
    MemoryBudget budget(64 * kMiB);
    PagePool pool(budget, 64 * kKiB, 32 * kMiB);
    for (uint8_t* page : acquire_all(pool)) pool.release(page);
    const Reservation rest = budget.reserve(budget.free(), "what the pool leaves");
    const Reservation slab = budget.reserve(kMiB, "less than a slab");
    EXPECT_EQ(budget.used(), 64 * kMiB - kMiB);
}

// Fewer pages came back than a slab has: with none in use, all slabs are free nevertheless.
TEST(memory_page_pool_without_a_page_in_use_gives_all_back) {
    MemoryBudget budget(4 * kMiB);
    PagePool pool(budget, 64 * kKiB, 4 * kMiB);
    pool.release(pool.try_acquire());
    EXPECT_EQ(budget.used(), 2 * kMiB);
    EXPECT_EQ(budget.reserve(4 * kMiB, "all").bytes(), 4 * kMiB);
}

TEST(memory_page_pool_claims_are_part_of_its_bytes) {
    MemoryBudget budget(64 * kMiB);
    PagePool pool(budget, 64 * kKiB, 8 * kMiB);
    EXPECT(!pool.try_claim(8 * kMiB + 1).has_value());
    std::optional<PagePool::Claim> claim = pool.try_claim(5 * kMiB);
    EXPECT(claim.has_value());
    EXPECT_EQ(budget.used(), 0u);  // whoever claims reserves for itself
    EXPECT(pool.try_claim(3 * kMiB).has_value());
    EXPECT(!pool.try_claim(3 * kMiB + 1).has_value());
    std::vector<uint8_t*> pages = acquire_all(pool);
    EXPECT_EQ(pages.size(), 3 * kMiB / (64 * kKiB));
    PagePool::Claim moved = std::move(*claim);
    claim.reset();
    EXPECT(pool.try_acquire() == nullptr);
    moved = {};
    for (uint8_t* page : acquire_all(pool)) pages.push_back(page);
    EXPECT_EQ(pages.size(), 8 * kMiB / (64 * kKiB));
    for (uint8_t* page : pages) pool.release(page);
}

}  // namespace spillway
