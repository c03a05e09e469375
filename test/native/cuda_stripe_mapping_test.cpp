// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "cuda/tier/stripe_mapping.hpp"
#include "support/fake_mapping_driver.hpp"
#include "support/test.hpp"

namespace spillway {

namespace {

using cuda::StripeMapping;
using cuda::StripePool;
using test::FakeMappingDriver;

constexpr uint64_t kStripe = uint64_t{2} << 20;

}  // namespace

TEST(cuda_stripe_mapping_maps_the_pattern) {
    FakeMappingDriver driver;
    StripePool pool(driver, kStripe);
    for (const cuda::StripeShares shares : {cuda::StripeShares{1, 0, 1}, {1, 2, 3}, {1, 0, 0}, {0, 0, 1}}) {
        const cuda::StripePattern pattern(shares);
        for (const uint64_t bytes : {uint64_t{1}, kStripe - 1, kStripe, kStripe + 1, 13 * kStripe}) {
            const StripeMapping mapping(driver, pool, pattern, bytes);
            const uint64_t stripes = (bytes + kStripe - 1) / kStripe;
            EXPECT_EQ(mapping.bytes(), stripes * kStripe);
            EXPECT_EQ(mapping.stripes(), stripes);
            EXPECT_EQ(driver.mappings.size(), stripes);
            for (uint64_t i = 0; i < stripes; ++i) {
                const FakeMappingDriver::Mapping& mapped = driver.mappings.at(mapping.address() + i * kStripe);
                const auto tier = driver.handles.at(mapped.handle).tier;
                EXPECT(tier == pattern.tier_of(i));
                EXPECT(mapped.device);
                EXPECT_EQ(mapped.host, tier == cuda::PageTier::kHost);
            }
        }
        EXPECT_EQ(driver.mappings.size(), 0u);
        EXPECT_EQ(driver.ranges.size(), 0u);
    }
    EXPECT(!driver.handles.empty());  // kept
    pool.trim();
    EXPECT_EQ(driver.handles.size(), 0u);
    EXPECT_EQ(driver.mistakes, 0);
}

TEST(cuda_stripe_mapping_of_nothing) {
    FakeMappingDriver driver;
    StripePool pool(driver, kStripe);
    const StripeMapping empty(driver, pool, cuda::StripePattern({1, 0, 1}), 0);
    EXPECT_EQ(empty.bytes(), 0u);
    const StripeMapping none(driver, pool, cuda::StripePattern({}), 0);
    bool thrown = false;
    try {
        const StripeMapping impossible(driver, pool, cuda::StripePattern({}), 1);
    } catch (const std::invalid_argument&) {
        thrown = true;
    }
    EXPECT(thrown);
    EXPECT_EQ(driver.created, 0);
    EXPECT_EQ(driver.mistakes, 0);
}

TEST(cuda_stripe_mapping_uses_its_stripes_again) {
    FakeMappingDriver driver;
    StripePool pool(driver, kStripe);
    const cuda::StripePattern pattern({1, 0, 3});
    StripeMapping first(driver, pool, pattern, 8 * kStripe);
    EXPECT_EQ(driver.created, 8);
    EXPECT_EQ(pool.stripes_in_use(cuda::PageTier::kDevice), 2u);
    EXPECT_EQ(pool.stripes_in_use(cuda::PageTier::kHost), 6u);
    StripeMapping moved(std::move(first));
    EXPECT_EQ(first.bytes(), 0u);
    moved = StripeMapping(driver, pool, pattern, 4 * kStripe);  // both live for a moment
    EXPECT_EQ(driver.created, 12);
    EXPECT_EQ(moved.stripes(), 4u);
    const StripeMapping second(driver, pool, pattern, 8 * kStripe);
    EXPECT_EQ(driver.created, 12);
    moved.reset();
    EXPECT_EQ(pool.stripes_in_use(cuda::PageTier::kHost), 6u);
    EXPECT_EQ(pool.stripes(cuda::PageTier::kHost), 9u);
    pool.trim();
    EXPECT_EQ(pool.stripes(cuda::PageTier::kHost), 6u);
    EXPECT_EQ(driver.mistakes, 0);
}

TEST(cuda_stripe_mapping_ends_at_a_limit_and_gives_all_back) {
    FakeMappingDriver driver;
    driver.limit_bytes = {2 * kStripe, 0, 3 * kStripe};
    StripePool pool(driver, kStripe);
    const cuda::StripePattern pattern({1, 0, 1});
    bool thrown = false;
    try {
        const StripeMapping mapping(driver, pool, pattern, 6 * kStripe);
    } catch (const FakeMappingDriver::Exhausted&) {
        thrown = true;
    }
    EXPECT(thrown);
    EXPECT_EQ(pool.stripes_in_use(cuda::PageTier::kDevice) + pool.stripes_in_use(cuda::PageTier::kHost), 0u);
    const StripeMapping mapping(driver, pool, pattern, 5 * kStripe);
    EXPECT_EQ(driver.used_bytes[0], 2 * kStripe);
    EXPECT_EQ(driver.used_bytes[2], 3 * kStripe);
    EXPECT_EQ(driver.mistakes, 0);
}

TEST(cuda_stripe_mapping_with_each_call_failing) {
    FakeMappingDriver driver;
    int call = 0;
    for (bool failed = true; failed;) {
        StripePool pool(driver, kStripe);
        driver.fail_at(++call);
        failed = false;
        try {
            const StripeMapping mapping(driver, pool, cuda::StripePattern({1, 1, 2}), 7 * kStripe);
        } catch (const FakeMappingDriver::Injected&) {
            failed = true;
        }
        EXPECT_EQ(driver.failure_is_due(), !failed);
        EXPECT_EQ(driver.mappings.size(), 0u);
        EXPECT_EQ(driver.ranges.size(), 0u);
        EXPECT_EQ(driver.mistakes, 0);
        pool.trim();
        EXPECT_EQ(driver.handles.size(), 0u);
    }
    EXPECT(call > 7 + 1 + 7 + 1 + 1);  // each call of the whole has failed once
}

}  // namespace spillway
