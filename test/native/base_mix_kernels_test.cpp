// SPDX-License-Identifier: Apache-2.0
// Whatever instructions the kernels use, they are mix64 and unmix64.
#include <random>
#include <vector>

#include "base/hash.hpp"
#include "base/mix_kernels.hpp"
#include "support/test.hpp"

namespace spillway::test {

TEST(base_mix_kernels_agree_with_the_scalar_functions) {
    std::mt19937_64 random(3);
    for (uint64_t count : {0, 1, 7, 8, 9, 63, 64, 1000}) {
        std::vector<uint64_t> words(count);
        for (uint64_t i = 0; i < count; ++i) words[i] = i % 5 == 0 ? i : random();
        if (count > 0) words[0] = ~0ULL;
        std::vector<uint64_t> mixed(count);
        mix_words(words.data(), count, mixed.data());
        for (uint64_t i = 0; i < count; ++i) EXPECT_EQ(mixed[i], mix64(words[i]));
        unmix_words(mixed.data(), count, mixed.data());
        EXPECT(mixed == words);
    }
}

TEST(base_mix_kernels_change_the_first_word_of_each_row_only) {
    for (uint32_t row_bytes : {8u, 16u, 40u}) {
        for (uint64_t count : {0, 1, 511, 512, 513, 1500}) {
            std::vector<uint64_t> rows(count * row_bytes / 8);
            for (uint64_t i = 0; i < rows.size(); ++i) rows[i] = i * 77;
            const std::vector<uint64_t> before = rows;
            auto* bytes = reinterpret_cast<uint8_t*>(rows.data());
            mix_first_words(bytes, count, row_bytes);
            for (uint64_t i = 0; i < rows.size(); ++i) {
                EXPECT_EQ(rows[i], i % (row_bytes / 8) == 0 ? mix64(before[i]) : before[i]);
            }
            unmix_first_words(bytes, count, row_bytes);
            EXPECT(rows == before);
        }
    }
}

}  // namespace spillway::test
