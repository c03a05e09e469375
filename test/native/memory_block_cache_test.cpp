// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "memory/block_cache.hpp"
#include "memory/mapped_block.hpp"
#include "support/failing_new.hpp"
#include "support/test.hpp"

namespace spillway {

namespace {

using test::kKiB;
using test::kMiB;

// Mappings that a block lies in, as the system lists them.
int mappings_of(const MappedBlock& block) {
    std::ifstream maps("/proc/self/maps");
    const auto first = reinterpret_cast<uint64_t>(block.data);
    int count = 0;
    for (std::string line; std::getline(maps, line);) {
        uint64_t begin = 0;
        uint64_t end = 0;
        if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64, &begin, &end) != 2) continue;
        count += begin < first + block.bytes && first < end;
    }
    return count;
}

void fill(const MappedBlock& block) {
    for (uint64_t i = 0; i < block.bytes; i += 4093) block.data[i] = static_cast<uint8_t>(i * 7);
}

void expect_filled(const MappedBlock& block, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; i += 4093) EXPECT_EQ(block.data[i], static_cast<uint8_t>(i * 7));
    EXPECT(std::all_of(block.data + bytes, block.data + block.bytes, [](uint8_t byte) { return byte == 0; }));
}

bool overlap(const MappedBlock& a, const MappedBlock& b) {
    return a.data < b.data + b.bytes && b.data < a.data + a.bytes;
}

}  // namespace

TEST(memory_block_capacity_wastes_at_most_an_eighth) {
    EXPECT_EQ(block_capacity(1), 64u);
    EXPECT_EQ(block_capacity(kMappedBytesMin - 64), kMappedBytesMin - 64);
    EXPECT_EQ(block_capacity(kMappedBytesMin - 63), kMappedBytesMin);
    for (uint64_t bytes = kMappedBytesMin; bytes < 100 * kMiB; bytes += bytes / 37 + 1) {
        const uint64_t capacity = block_capacity(bytes);
        EXPECT(capacity >= bytes);
        EXPECT_EQ(capacity % system_page_bytes(), 0u);
        EXPECT(capacity - bytes <= std::max(bytes / 8, system_page_bytes()));
        EXPECT_EQ(block_capacity(capacity), capacity);
        if (capacity >= 16 * kMiB) EXPECT_EQ(capacity % kHugeBytes, 0u);
    }
}

TEST(memory_mapped_blocks_are_zero_and_huge_aligned) {
    for (const uint64_t bytes : {64 * kKiB, 2 * kMiB, 2 * kMiB + 256 * kKiB, 34 * kMiB}) {
        const MappedBlock block = map_block(bytes);
        EXPECT(block.data != nullptr);
        if (bytes >= kHugeBytes) EXPECT_EQ(reinterpret_cast<uintptr_t>(block.data) % kHugeBytes, 0u);
        EXPECT(std::all_of(block.data, block.data + bytes, [](uint8_t byte) { return byte == 0; }));
        unmap_block(block);
    }
    EXPECT(map_block(uint64_t{1} << 60).data == nullptr);
}

// One mapping each time: before Linux 6.17 several cannot be moved at once, so the second growth would fail there.
TEST(memory_mapped_block_extends_with_its_contents) {
    MappedBlock block = map_block(4 * kMiB);
    for (const uint64_t bytes : {10 * kMiB, 16 * kMiB, 18 * kMiB, 64 * kMiB}) {
        fill(block);
        const MappedBlock longer = extend_block(block, bytes);
        EXPECT_EQ(longer.bytes, bytes);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(longer.data) % kHugeBytes, 0u);
        expect_filled(longer, block.bytes);
        fill(longer);
        EXPECT_EQ(mappings_of(longer), 1);
        block = longer;
    }
    unmap_block(block);
}

TEST(memory_mapped_block_of_several_mappings_extends) {
    for (const uint64_t bytes : {4 * kMiB, 5 * kMiB}) {
        const MappedBlock block = map_block(bytes);
        fill(block);
        EXPECT_EQ(madvise(block.data + 2 * kMiB, kMiB, MADV_DONTFORK), 0);  // what differs is a mapping of its own
        EXPECT_EQ(mappings_of(block), 3);
        const MappedBlock longer = extend_block(block, 10 * kMiB);
        EXPECT_EQ(longer.bytes, 10 * kMiB);
        expect_filled(longer, bytes);
        unmap_block(longer);
    }
}

TEST(memory_block_cache_splits_and_coalesces) {
    BlockCache cache;
    const MappedBlock whole = map_block(16 * kMiB);
    cache.put({whole.data + 4 * kMiB, 4 * kMiB});
    cache.put({whole.data, 4 * kMiB});
    cache.put({whole.data + 12 * kMiB, 4 * kMiB});
    EXPECT(cache.take(12 * kMiB).data == nullptr);
    cache.put({whole.data + 8 * kMiB, 4 * kMiB});
    EXPECT_EQ(cache.bytes(), 16 * kMiB);
    const MappedBlock again = cache.take(16 * kMiB);  // only when the four have become one
    EXPECT(again.data == whole.data);
    EXPECT_EQ(cache.bytes(), 0u);
    cache.put(again);
    EXPECT_EQ(cache.take(6 * kMiB).bytes, 6 * kMiB);
    cache.put({whole.data, 6 * kMiB});
}

TEST(memory_block_cache_reuses_other_sizes_exactly) {
    BlockCache cache;
    const MappedBlock block = map_block(block_capacity(300 * kKiB));
    cache.put(block);
    EXPECT(cache.take(block.bytes + system_page_bytes()).data == nullptr);
    EXPECT(cache.take(kHugeBytes).data == nullptr);
    EXPECT(cache.take(block.bytes).data == block.data);
    EXPECT(cache.take(block.bytes).data == nullptr);
    cache.put(block);
    EvictedBlocks evicted;
    cache.evict(1, evicted);
    EXPECT_EQ(evicted.blocks.size(), 1u);
    EXPECT_EQ(cache.bytes(), 0u);
}

// Random puts, takes and evictions: no block is ever handed out twice and no byte gets lost.
// The owner of the block frees it otherwise then: the cache must not have half of it.
TEST(memory_block_cache_without_memory_for_a_node_changes_nothing) {
    for (const uint64_t bytes : {kHugeBytes, 64 * kKiB}) {
        int failures = 0;
        for (int64_t allocation = 0; failures == allocation; ++allocation) {
            BlockCache cache;
            const MappedBlock block = map_block(bytes);
            try {
                const test::FailingNew failing(allocation);
                cache.put(block);
            } catch (const std::bad_alloc&) {
                ++failures;
                EXPECT_EQ(cache.bytes(), 0u);
                EXPECT(cache.take(bytes).data == nullptr);
                cache.put(block);
            }
            EXPECT_EQ(cache.bytes(), bytes);
            EXPECT(cache.take(bytes).data == block.data);
            unmap_block(block);
        }
        EXPECT_EQ(failures, 2);  // an extent is in two lists, another block in a list of its size
    }
}

TEST(memory_block_cache_keeps_every_byte) {
    std::mt19937_64 random(7);
    BlockCache cache;
    std::vector<MappedBlock> held;
    uint64_t mapped = 0;
    for (int step = 0; step < 4000; ++step) {
        const uint64_t choice = random() % 8;
        if (choice < 4) {
            const uint64_t bytes =
                random() % 3 == 0 ? block_capacity(64 * kKiB + random() % (3 * kMiB)) : (1 + random() % 8) * kHugeBytes;
            MappedBlock block = cache.take(bytes);
            if (block.data == nullptr) {
                block = map_block(bytes);
                mapped += bytes;
            }
            EXPECT_EQ(block.bytes, bytes);
            for (const MappedBlock& other : held) EXPECT(!overlap(block, other));
            held.push_back(block);
        } else if (choice < 7 && !held.empty()) {
            std::swap(held[random() % held.size()], held.back());
            cache.put(held.back());
            held.pop_back();
        } else {
            EvictedBlocks evicted;
            const uint64_t wanted = random() % (9 * kMiB);
            const uint64_t before = cache.bytes();
            cache.evict(wanted, evicted);
            EXPECT(before - cache.bytes() >= std::min(wanted, before));
            for (const MappedBlock& block : evicted.blocks) {
                for (const MappedBlock& other : held) EXPECT(!overlap(block, other));
            }
            mapped -= before - cache.bytes();
        }
        uint64_t held_bytes = 0;
        for (const MappedBlock& block : held) held_bytes += block.bytes;
        EXPECT_EQ(held_bytes + cache.bytes(), mapped);
    }
    for (const MappedBlock& block : held) unmap_block(block);
}

}  // namespace spillway
