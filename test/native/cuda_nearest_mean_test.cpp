// SPDX-License-Identifier: Apache-2.0
// Means as the GPU makes them of exact sums, on the host: the same as the CPU engine's.
#include <random>

#include "base/nearest_mean.hpp"
#include "block.hpp"
#include "primitive/nearest_mean.cuh"
#include "support/test.hpp"

namespace spillway::test {

TEST(cuda_means_of_integers_are_those_of_the_cpu_engine) {
    std::mt19937_64 random(20261127);
    EXPECT_EQ(cuda::nearest_mean(__int128{3} * 9007199254740993, 3), 9007199254740992.0);
    for (int i = 0; i < 100000; ++i) {
        // Sums of up to 96 bits, as those of at most 2^32 values of 8 bytes are.
        const auto bits = static_cast<unsigned __int128>(random()) << 64 | random();
        const __int128 sum = static_cast<__int128>(bits) >> (32 + random() % 95);
        const uint64_t count = (random() >> (31 + random() % 33)) + 1;
        EXPECT_EQ(cuda::nearest_mean(sum, count), nearest_mean(sum, count, 0));
    }
}

TEST(cuda_means_of_decimals_are_those_of_the_cpu_engine) {
    std::mt19937_64 random(20261128);
    for (int i = 0; i < 20000; ++i) {
        const uint64_t high = static_cast<uint64_t>(static_cast<int64_t>(random()) >> (32 + random() % 32));
        const uint64_t words[3] = {random(), random(), high};
        const uint64_t count = (random() >> (31 + random() % 33)) + 1;
        const auto scale = static_cast<int32_t>(random() % 153) - 76;
        EXPECT_EQ(cuda::nearest_decimal_mean(words, count, scale), nearest_decimal_mean(words, count, scale));
    }
    const uint64_t none[3] = {};
    EXPECT_EQ(cuda::nearest_decimal_mean(none, 3, 40), 0.0);
}

}  // namespace spillway::test
