// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "cuda/device/block_allocator.hpp"
#include "support/test.hpp"

namespace spillway {

namespace {

using cuda::BlockAllocator;
using cuda::BlockBacking;
using cuda::BlockSizes;
using Refusal = BlockAllocator::Refusal;

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr BlockSizes kSizes{512, 2 * kMiB, kMiB, 16 * kMiB};

// Hands out addresses that nobody touches, so that blocks may be as large as a GPU's.
class FakeBacking final : public BlockBacking {
  public:
    explicit FakeBacking(uint64_t capacity_bytes = std::numeric_limits<uint64_t>::max())
        : capacity_bytes_(capacity_bytes) {}
    void* acquire(uint64_t bytes) override {
        ++acquired;
        if (bytes > capacity_bytes_ - held_bytes) return nullptr;
        held_bytes += bytes;
        const uint64_t address = next_address_;
        next_address_ += bytes;  // the next segment is a neighbour, with which no block may be merged
        segments[address] = bytes;
        return reinterpret_cast<void*>(address);
    }
    void settle() noexcept override { ++settled; }
    void release(void* data, uint64_t bytes) noexcept override {
        const auto segment = segments.find(reinterpret_cast<uint64_t>(data));
        if (segment == segments.end() || segment->second != bytes) {
            ++wrong_releases;
            return;
        }
        held_bytes -= bytes;
        segments.erase(segment);
    }

    std::map<uint64_t, uint64_t> segments;
    uint64_t held_bytes = 0;
    int acquired = 0;
    int wrong_releases = 0;
    int settled = 0;

  private:
    const uint64_t capacity_bytes_;
    uint64_t next_address_ = 1 << 20;
};

uint64_t address_of(const BlockAllocator::Grant& grant) {
    return reinterpret_cast<uint64_t>(grant.data);
}

}  // namespace

TEST(cuda_block_allocator_rounds_and_counts) {
    FakeBacking backing;
    BlockAllocator allocator(backing, kSizes, 10 * kMiB);
    const auto one = allocator.take(1);
    EXPECT_EQ(one.bytes, 512u);
    EXPECT_EQ(allocator.used_bytes(), 512u);
    const auto two = allocator.take(513);
    EXPECT_EQ(allocator.used_bytes(), 512u + 1024);
    EXPECT_EQ(address_of(one) % 512, 0u);
    EXPECT_EQ(address_of(two) % 512, 0u);
    allocator.give_back(two.data);
    EXPECT_EQ(allocator.used_bytes(), 512u);
    EXPECT_EQ(allocator.peak_bytes(), 512u + 1024);
    allocator.reset_peak();
    EXPECT_EQ(allocator.peak_bytes(), 512u);
    EXPECT_EQ(allocator.blocks(), 1u);
}

TEST(cuda_block_allocator_limit_is_hard) {
    FakeBacking backing;
    BlockAllocator allocator(backing, kSizes, 8 * kMiB);
    EXPECT(allocator.take(std::numeric_limits<uint64_t>::max()).refusal == Refusal::kLimit);
    EXPECT(allocator.take(8 * kMiB + 1).refusal == Refusal::kLimit);
    const auto all = allocator.take(8 * kMiB);
    EXPECT(all.refusal == Refusal::kNone);
    EXPECT(allocator.take(1).refusal == Refusal::kLimit);
    allocator.give_back(all.data);
    EXPECT(allocator.take(8 * kMiB - 511).refusal == Refusal::kNone);
    EXPECT(backing.held_bytes <= 8 * kMiB);
}

TEST(cuda_block_allocator_reuses_without_the_backing) {
    FakeBacking backing;
    BlockAllocator allocator(backing, kSizes, 1024 * kMiB);
    const auto first = allocator.take(64 * kMiB);
    allocator.give_back(first.data);
    // Parts of it, next to each other, and the whole again once they are back in any order.
    const auto a = allocator.take(16 * kMiB);
    const auto b = allocator.take(16 * kMiB);
    const auto c = allocator.take(32 * kMiB);
    EXPECT_EQ(backing.acquired, 1);
    allocator.give_back(a.data);
    allocator.give_back(c.data);
    allocator.give_back(b.data);
    const auto whole = allocator.take(64 * kMiB);
    EXPECT_EQ(address_of(whole), address_of(first));
    EXPECT_EQ(backing.acquired, 1);
}

TEST(cuda_block_allocator_takes_the_best_fit) {
    FakeBacking backing;
    BlockAllocator allocator(backing, kSizes, 1024 * kMiB);
    const auto large = allocator.take(100 * kMiB);
    const auto fitting = allocator.take(10 * kMiB);
    allocator.give_back(large.data);
    allocator.give_back(fitting.data);
    EXPECT_EQ(address_of(allocator.take(9 * kMiB)), address_of(fitting));
    EXPECT_EQ(address_of(allocator.take(100 * kMiB)), address_of(large));
}

TEST(cuda_block_allocator_keeps_small_blocks_apart) {
    FakeBacking backing;
    BlockAllocator allocator(backing, kSizes, 1024 * kMiB);
    const auto large = allocator.take(256 * kMiB);
    allocator.give_back(large.data);
    const auto counter = allocator.take(8);
    allocator.trim();
    // The counter pins its shared segment and not the large one.
    EXPECT_EQ(allocator.reserved_bytes(), 16 * kMiB);
    EXPECT_EQ(allocator.segments(), 1u);
    allocator.give_back(counter.data);
    allocator.trim();
    EXPECT_EQ(allocator.reserved_bytes(), 0u);
    EXPECT_EQ(backing.held_bytes, 0u);
}

TEST(cuda_block_allocator_never_merges_segments) {
    FakeBacking backing;
    BlockAllocator allocator(backing, kSizes, 1024 * kMiB);
    const auto a = allocator.take(4 * kMiB);
    const auto b = allocator.take(4 * kMiB);
    EXPECT_EQ(address_of(b), address_of(a) + 4 * kMiB);
    allocator.give_back(a.data);
    allocator.give_back(b.data);
    const auto wide = allocator.take(8 * kMiB);
    EXPECT(address_of(wide) != address_of(a));
    allocator.trim();
    EXPECT_EQ(backing.wrong_releases, 0);
    EXPECT_EQ(allocator.reserved_bytes(), 8 * kMiB);
}

TEST(cuda_block_allocator_segments_stay_within_the_limit) {
    FakeBacking backing;
    BlockAllocator allocator(backing, kSizes, 100 * kMiB);
    const auto a = allocator.take(60 * kMiB);
    allocator.give_back(a.data);
    const auto b = allocator.take(70 * kMiB);  // the cached 60 MiB make room
    EXPECT(b.refusal == Refusal::kNone);
    EXPECT_EQ(allocator.reserved_bytes(), 70 * kMiB);
    // Unless what is free lies in pieces: what fits the limit is granted.
    const auto c = allocator.take(30 * kMiB);
    allocator.give_back(b.data);
    const auto pin = allocator.take(2 * kMiB);
    const auto d = allocator.take(40 * kMiB);
    const auto e = allocator.take(28 * kMiB);
    EXPECT(d.refusal == Refusal::kNone && e.refusal == Refusal::kNone);
    EXPECT_EQ(allocator.used_bytes(), 100 * kMiB);
    allocator.give_back(c.data);
    allocator.give_back(d.data);
    const auto f = allocator.take(70 * kMiB);
    EXPECT(f.refusal == Refusal::kNone);
    EXPECT_EQ(allocator.used_bytes(), 100 * kMiB);
    EXPECT(allocator.reserved_bytes() <= 140 * kMiB);
    allocator.give_back(pin.data);
    allocator.give_back(e.data);
    allocator.give_back(f.data);
    allocator.trim();
    EXPECT_EQ(backing.held_bytes, 0u);
}

TEST(cuda_block_allocator_trims_when_the_backing_refuses) {
    FakeBacking backing(100 * kMiB);
    BlockAllocator allocator(backing, kSizes, 1024 * kMiB);
    void* const first[] = {allocator.take(30 * kMiB).data, allocator.take(30 * kMiB).data};
    for (void* const block : first) allocator.give_back(block);
    const auto b = allocator.take(80 * kMiB);
    EXPECT(b.refusal == Refusal::kNone);
    EXPECT_EQ(backing.held_bytes, 80 * kMiB);
    EXPECT(allocator.take(40 * kMiB).refusal == Refusal::kBacking);
    EXPECT_EQ(allocator.used_bytes(), 80 * kMiB);
    // No room for a shared segment beside 90 MiB, but for the block itself.
    allocator.give_back(b.data);
    const auto c = allocator.take(90 * kMiB);
    EXPECT(c.refusal == Refusal::kNone);
    EXPECT(allocator.take(4 * kKiB).refusal == Refusal::kNone);
    EXPECT_EQ(backing.wrong_releases, 0);
    EXPECT_EQ(backing.settled, 2);  // before each of the two times that segments went, however many
}

TEST(cuda_block_allocator_small_limits) {
    FakeBacking backing;
    BlockAllocator allocator(backing, kSizes, 4 * kKiB);
    std::vector<void*> blocks;
    for (int i = 0; i < 8; ++i) {
        const auto grant = allocator.take(512);
        EXPECT(grant.refusal == Refusal::kNone);
        blocks.push_back(grant.data);
    }
    EXPECT(allocator.take(1).refusal == Refusal::kLimit);
    EXPECT(backing.held_bytes <= 4 * kKiB);
    for (void* block : blocks) allocator.give_back(block);
    BlockAllocator nothing(backing, kSizes, 0);
    EXPECT(nothing.take(1).refusal == Refusal::kLimit);
}

TEST(cuda_block_allocator_reserves_parts_of_the_limit) {
    FakeBacking backing;
    BlockAllocator allocator(backing, kSizes, 100 * kMiB);
    const auto block = allocator.take(40 * kMiB);
    EXPECT(!allocator.reserve(60 * kMiB + 1));
    EXPECT(!allocator.reserve(std::numeric_limits<uint64_t>::max()));
    EXPECT(allocator.reserve(60 * kMiB));
    EXPECT_EQ(allocator.used_bytes(), 100 * kMiB);
    EXPECT_EQ(allocator.peak_bytes(), 100 * kMiB);
    EXPECT_EQ(allocator.blocks(), 1u);
    EXPECT(allocator.take(1).refusal == Refusal::kLimit);
    allocator.unreserve(60 * kMiB);
    allocator.give_back(block.data);
    EXPECT_EQ(allocator.used_bytes(), 0u);
    // Cached segments go, for what is reserved is memory too; those in use stay.
    const auto pin = allocator.take(10 * kMiB);
    EXPECT_EQ(allocator.reserved_bytes(), 40 * kMiB);
    EXPECT(allocator.reserve(60 * kMiB));
    EXPECT_EQ(allocator.reserved_bytes(), 100 * kMiB);
    EXPECT(allocator.reserve(30 * kMiB));
    allocator.give_back(pin.data);
    EXPECT(allocator.reserve(10 * kMiB));
    EXPECT_EQ(backing.held_bytes, 0u);
    EXPECT_EQ(allocator.reserved_bytes(), 100 * kMiB);
    allocator.unreserve(100 * kMiB);
    EXPECT_EQ(allocator.reserved_bytes(), 0u);
}

TEST(cuda_block_allocator_withholds) {
    FakeBacking backing(std::numeric_limits<uint64_t>::max());
    BlockAllocator allocator(backing, kSizes, 100 * kMiB);
    const auto block = allocator.take(40 * kMiB);
    EXPECT(allocator.take(31 * kMiB, 30 * kMiB).refusal == Refusal::kLimit);
    EXPECT(!allocator.reserve(31 * kMiB, 30 * kMiB));
    EXPECT(allocator.reserve(10 * kMiB, 30 * kMiB));
    EXPECT_EQ(allocator.used_bytes(), 50 * kMiB);
    EXPECT(allocator.take(20 * kMiB, 30 * kMiB).refusal == Refusal::kNone);
    EXPECT(allocator.take(1, 30 * kMiB).refusal == Refusal::kLimit);
    EXPECT(allocator.take(30 * kMiB).refusal == Refusal::kNone);
    EXPECT_EQ(allocator.give_back(block.data), 40 * kMiB);
    EXPECT(allocator.take(40 * kMiB - 1, 1).refusal == Refusal::kLimit);
}

// Sizes of all kinds, freed in any order: no two blocks overlap, each lies in one segment, the counts are right.
TEST(cuda_block_allocator_random) {
    for (uint32_t seed = 0; seed < 20; ++seed) {
        std::mt19937_64 random(seed);
        FakeBacking backing(seed % 2 == 0 ? 600 * kMiB : std::numeric_limits<uint64_t>::max());
        const uint64_t limit_bytes = 512 * kMiB;
        BlockAllocator allocator(backing, kSizes, limit_bytes);
        std::map<uint64_t, uint64_t> live;
        uint64_t used_bytes = 0;
        for (size_t step = 0; step < test::fewer_if_sanitized(3000); ++step) {
            if (live.empty() || random() % 5 < 3) {
                const uint64_t bytes = 1 + random() % (uint64_t{1} << (random() % 28));
                const auto grant = allocator.take(bytes);
                if (grant.refusal != Refusal::kNone) {
                    EXPECT(grant.refusal == Refusal::kBacking || used_bytes + grant.bytes > limit_bytes);
                    continue;
                }
                const uint64_t begin = address_of(grant);
                const auto after = live.lower_bound(begin);
                EXPECT(after == live.end() || begin + grant.bytes <= after->first);
                EXPECT(after == live.begin() || std::prev(after)->first + std::prev(after)->second <= begin);
                const auto segment = std::prev(backing.segments.upper_bound(begin));
                EXPECT(begin + grant.bytes <= segment->first + segment->second);
                live[begin] = grant.bytes;
                used_bytes += grant.bytes;
            } else {
                const auto victim = std::next(live.begin(), static_cast<int64_t>(random() % live.size()));
                allocator.give_back(reinterpret_cast<void*>(victim->first));
                used_bytes -= victim->second;
                live.erase(victim);
            }
            EXPECT_EQ(allocator.used_bytes(), used_bytes);
            EXPECT_EQ(allocator.blocks(), live.size());
            EXPECT_EQ(allocator.reserved_bytes(), backing.held_bytes);
            EXPECT(used_bytes <= limit_bytes && used_bytes <= backing.held_bytes);
            if (random() % 100 == 0) allocator.trim();
        }
        for (const auto& [begin, bytes] : live) allocator.give_back(reinterpret_cast<void*>(begin));
        allocator.trim();
        EXPECT_EQ(allocator.segments(), 0u);
        EXPECT_EQ(backing.held_bytes, 0u);
        EXPECT_EQ(backing.wrong_releases, 0);
    }
}

}  // namespace spillway
