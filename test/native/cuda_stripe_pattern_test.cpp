// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/tier/stripe_pattern.hpp"
#include "support/test.hpp"

namespace spillway {

namespace {

using cuda::PageTier;
using cuda::StripePattern;
using cuda::StripeShares;

constexpr PageTier kTiersOfMemory[] = {PageTier::kDevice, PageTier::kPeer, PageTier::kHost};

std::string letters(const StripeShares& shares, uint64_t stripes) {
    const StripePattern pattern(shares);
    std::string text;
    for (uint64_t i = 0; i < stripes; ++i) text += "DPH-"[cuda::index_of(pattern.tier_of(i))];
    return text;
}

}  // namespace

TEST(cuda_stripe_pattern_spreads_evenly) {
    EXPECT_EQ(letters({1, 0, 1}, 8), "HDHDHDHD");
    EXPECT_EQ(letters({1, 0, 3}, 8), "HHHDHHHD");
    EXPECT_EQ(letters({3, 0, 1}, 8), "HDDDHDDD");
    EXPECT_EQ(letters({2, 0, 3}, 10), "HHDHDHHDHD");
    EXPECT_EQ(letters({1, 0, 0}, 4), "DDDD");
    EXPECT_EQ(letters({0, 0, 7}, 4), "HHHH");
    EXPECT_EQ(letters({0, 1, 0}, 4), "PPPP");
    EXPECT_EQ(letters({1, 1, 0}, 4), "PDPD");
    EXPECT_EQ(letters({1, 1, 2}, 8), "HPHDHPHD");
    EXPECT_EQ(letters({2, 0, 6}, 8), letters({1, 0, 3}, 8));
}

// Every beginning of the range has the shares, and has them exactly where its length is a multiple of the sum of the
// weights.
TEST(cuda_stripe_pattern_keeps_the_shares) {
    for (const StripeShares shares : {StripeShares{1, 0, 1},
                                      {1, 0, 3},
                                      {3, 0, 1},
                                      {5, 3, 7},
                                      {0, 2, 9},
                                      {1, 1, 1},
                                      {1000, 0, 1},
                                      {1, 0, 1000},
                                      {13, 0, 0},
                                      {4, 5, 0}}) {
        const StripePattern pattern(shares);
        const uint64_t weights[] = {shares.device, shares.peer, shares.host};
        const uint64_t total = weights[0] + weights[1] + weights[2];
        uint64_t counted[] = {0, 0, 0};
        for (uint64_t stripes = 0; stripes <= 3 * total; ++stripes) {
            for (size_t tier = 0; tier < 3; ++tier) {
                EXPECT_EQ(pattern.stripes_before(stripes, kTiersOfMemory[tier]), counted[tier]);
                const auto owed = static_cast<double>(stripes * weights[tier]) / static_cast<double>(total);
                const double difference = static_cast<double>(counted[tier]) - owed;
                EXPECT(difference > -2 && difference < 2);
                if (stripes % total == 0) EXPECT_EQ(counted[tier] * total, stripes * weights[tier]);
            }
            // Never more of the GPUs than their share, rounded down.
            EXPECT((counted[0] + counted[1]) * total <= stripes * (weights[0] + weights[1]));
            ++counted[cuda::index_of(pattern.tier_of(stripes))];
        }
    }
}

TEST(cuda_stripe_pattern_runs_cover_the_range) {
    for (const StripeShares shares : {StripeShares{1, 0, 1}, {1, 2, 3}, {0, 0, 1}, {7, 0, 2}}) {
        const StripePattern pattern(shares);
        for (const uint64_t stripes : {0, 1, 2, 3, 17, 100}) {
            uint64_t next = 0;
            PageTier before = PageTier::kDisk;
            for (const cuda::StripeRun& run : pattern.runs(stripes)) {
                EXPECT_EQ(run.first, next);
                EXPECT(run.stripes > 0 && run.tier != before);
                for (uint64_t i = 0; i < run.stripes; ++i) EXPECT(pattern.tier_of(run.first + i) == run.tier);
                next += run.stripes;
                before = run.tier;
            }
            EXPECT_EQ(next, stripes);
        }
    }
}

TEST(cuda_stripe_pattern_of_nothing_and_of_very_much) {
    const StripePattern none(StripeShares{});
    EXPECT(none.empty());
    EXPECT(none.runs(5).empty());
    EXPECT_EQ(none.stripes_before(5, PageTier::kHost), 0u);
    // Weights as large as they can be, far into the range: the products of both do not fit 64 bits.
    constexpr uint32_t kMost = 0xFFFFFFFF;
    const StripePattern wide(StripeShares{kMost, kMost, kMost});
    const uint64_t far = uint64_t{3} << 40;
    EXPECT_EQ(wide.stripes_before(far, PageTier::kHost), far / 3);
    EXPECT_EQ(wide.stripes_before(far, PageTier::kDevice), far / 3);
    EXPECT_EQ(wide.stripes_before(far, PageTier::kPeer), far / 3);
}

}  // namespace spillway
