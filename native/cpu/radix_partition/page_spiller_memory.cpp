// SPDX-License-Identifier: Apache-2.0
// Where a pass gets its memory from: pages of the pool, and blocks for rows larger than a page.
#include <algorithm>
#include <utility>

#include "cpu/radix_partition/page_spiller.hpp"

namespace spillway {

namespace {

constexpr const char* kRowPurpose = "a row larger than a page";

}  // namespace

uint8_t* PageSpiller::acquire(std::vector<PartitionPage>& pending, SpillScratch& scratch) {
    const size_t wanted = std::max<size_t>(scratch.spare_max, 1);
    while (scratch.spare.empty() && !rows_.pool().try_acquire(wanted, scratch.spare)) {
        rows_.control().check();
        if (!rows_.spec().spill) throw set_full();
        if (spill_some(pending, scratch)) continue;
        // Another worker may have written and released between the two looks at the pool.
        if (!rows_.pool().try_acquire(wanted, scratch.spare)) throw nothing_to_spill();
    }
    uint8_t* const page = scratch.spare.back();
    scratch.spare.pop_back();
    return page;
}

// Who spills needs as many pages next as it has written: what it keeps goes neither through the lock of the pool nor
// from its cache to another core's.
void PageSpiller::release_freed(SpillScratch& scratch) {
    while (!scratch.freed.empty() && scratch.spare.size() < scratch.spare_max) {
        scratch.spare.push_back(scratch.freed.back());
        scratch.freed.pop_back();
    }
    if (!scratch.freed.empty()) rows_.pool().release(scratch.freed);
    scratch.freed.clear();
}

void PageSpiller::release_spare(SpillScratch& scratch) {
    if (!scratch.spare.empty()) rows_.pool().release(scratch.spare);
    scratch.spare.clear();
}

std::unique_ptr<OwnMemory> PageSpiller::own_memory(uint64_t bytes) {
    const uint64_t capacity = block_capacity(bytes);
    if (std::optional<PagePool::Claim> claim = rows_.pool().try_claim(capacity)) {
        if (std::optional<Reservation> reserved = rows_.budget().try_reserve(capacity)) {
            Buffer buffer = Buffer::allocate(rows_.budget(), *reserved, bytes, kRowPurpose);
            return std::make_unique<OwnMemory>(OwnMemory{std::move(*claim), std::move(buffer)});
        }
    }
    if (!rows_.spec().spill) throw set_full();
    return nullptr;
}

std::unique_ptr<OwnMemory> PageSpiller::passing_memory(uint64_t bytes, std::vector<PartitionPage>& pending,
                                                       SpillScratch& scratch) {
    const uint64_t capacity = block_capacity(bytes);
    std::optional<Reservation> reserved = rows_.budget().try_reserve(capacity);
    // Only slabs without a page in use go back to the budget: no spare ones.
    const size_t spare_max = std::exchange(scratch.spare_max, 0);
    if (!reserved) release_spare(scratch);
    while (!reserved) {
        rows_.control().check();
        // Nothing to spill: the reservation says what is missing.
        reserved = spill_some(pending, scratch) ? rows_.budget().try_reserve(capacity)
                                                : rows_.budget().reserve(capacity, kRowPurpose);
    }
    scratch.spare_max = spare_max;
    Buffer buffer = Buffer::allocate(rows_.budget(), *reserved, bytes, kRowPurpose);
    return std::make_unique<OwnMemory>(OwnMemory{{}, std::move(buffer)});
}

Error PageSpiller::set_full() const {
    const PagePool& pool = rows_.pool();
    return Error(ErrorCode::kBudgetTooSmall,
                 "rows that are to stay in memory need more than the " + std::to_string(pool.pool_bytes() >> 10) +
                     " KiB planned for them",
                 {{"reason", "setFull"}, {"poolBytes", std::to_string(pool.pool_bytes())}});
}

Error PageSpiller::nothing_to_spill() const {
    const PagePool& pool = rows_.pool();
    return Error(ErrorCode::kBudgetTooSmall,
                 "the page pool of " + std::to_string(pool.pool_bytes() >> 10) + " KiB (pages of " +
                     std::to_string(pool.page_bytes() >> 10) + " KiB) is exhausted by the open pages of " +
                     std::to_string(rows_.partition_count()) + " partitions; raise the option 'memory.host'",
                 {{"tier", "host"},
                  {"poolBytes", std::to_string(pool.pool_bytes())},
                  {"pageBytes", std::to_string(pool.page_bytes())},
                  {"option", "memory.host"}});
}

}  // namespace spillway
