// SPDX-License-Identifier: Apache-2.0
// The passes over columns of every instruction set that this processor has, against plain loops.
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/bitmap.hpp"
#include "cpu/group_by/column_kernels.hpp"
#include "support/test.hpp"

namespace spillway::test {

namespace {

std::vector<const ColumnKernels*> all_kernels() {
    std::vector<const ColumnKernels*> all{&portable_column_kernels(), &column_kernels()};
    for (const ColumnKernels* kernels : {avx2_column_kernels(), avx512_column_kernels()}) {
        if (kernels != nullptr) all.push_back(kernels);
    }
    return all;
}

// Words behind an odd address.
struct Unaligned {
    std::vector<uint8_t> bytes;
    explicit Unaligned(const std::vector<uint64_t>& words) : bytes(words.size() * 8 + 1) {
        if (!words.empty()) std::memcpy(bytes.data() + 1, words.data(), words.size() * 8);
    }
    const uint8_t* data() const { return bytes.data() + 1; }
};

constexpr int64_t kCounts[] = {1, 2, 7, 8, 15, 16, 17, 31, 33, 100, 1024, 1027};

}  // namespace

TEST(group_by_kernels_of_words) {
    std::mt19937_64 random(1);
    for (const ColumnKernels* kernels : all_kernels()) {
        for (const int64_t count : kCounts) {
            for (const int shift : {0, 1, 40}) {
                std::vector<uint64_t> words(static_cast<size_t>(count));
                for (uint64_t& word : words) word = static_cast<uint64_t>(static_cast<int64_t>(random()) >> shift);
                const Unaligned data(words);
                uint64_t sum = 0;
                uint64_t magnitude = 0;
                int64_t least = INT64_MAX;
                int64_t most = INT64_MIN;
                for (const uint64_t word : words) {
                    sum += word;
                    magnitude |= static_cast<int64_t>(word) < 0 ? ~word : word;
                    least = std::min(least, static_cast<int64_t>(word));
                    most = std::max(most, static_cast<int64_t>(word));
                }
                EXPECT_EQ(kernels->sum_signed(data.data(), count).sum, sum);
                EXPECT_EQ(kernels->sum_unsigned(data.data(), count).sum, sum);
                EXPECT_EQ(kernels->sum_signed(data.data(), count).magnitude, magnitude);
                const WordExtremes found = kernels->extremes_signed(data.data(), count);
                EXPECT_EQ(static_cast<int64_t>(found.min), least);
                EXPECT_EQ(static_cast<int64_t>(found.max), most);
                const WordExtremes plain = kernels->extremes_unsigned(data.data(), count);
                EXPECT_EQ(plain.min, *std::min_element(words.begin(), words.end()));
                EXPECT_EQ(plain.max, *std::max_element(words.begin(), words.end()));
            }
        }
    }
}

TEST(group_by_kernels_of_decimals) {
    std::mt19937_64 random(2);
    for (const ColumnKernels* kernels : all_kernels()) {
        for (const int64_t count : kCounts) {
            std::vector<uint64_t> words;
            std::vector<uint64_t> low;
            uint64_t sum = 0;
            for (int64_t i = 0; i < count; ++i) {
                const auto value = static_cast<int64_t>(random()) >> 8;
                low.push_back(static_cast<uint64_t>(value));
                words.push_back(static_cast<uint64_t>(value));
                words.push_back(static_cast<uint64_t>(value >> 63));
                sum += static_cast<uint64_t>(value);
            }
            std::vector<uint64_t> kept(low.size());
            const Unaligned data(words);
            EXPECT_EQ(kernels->sum_decimals(data.data(), count).wide, 0u);
            EXPECT_EQ(kernels->sum_decimals(data.data(), count).sum, sum);
            EXPECT_EQ(kernels->narrow_decimals(data.data(), count, kept.data()).sum, sum);
            EXPECT(kept == low);
            words[static_cast<size_t>(random() % static_cast<uint64_t>(count)) * 2 + 1] ^= 1;
            EXPECT(kernels->sum_decimals(Unaligned(words).data(), count).wide != 0);
            EXPECT(kernels->narrow_decimals(Unaligned(words).data(), count, kept.data()).wide != 0);
        }
    }
}

TEST(group_by_kernels_of_doubles_are_compensated) {
    for (const ColumnKernels* kernels : all_kernels()) {
        for (const int64_t count : kCounts) {
            // Large values that cancel, with small ones between: a plain sum loses all of these.
            std::vector<double> values;
            for (int64_t i = 0; i < count; ++i) values.push_back(i % 3 == 0 ? 1e17 : i % 3 == 1 ? 1.0 : -1e17);
            const double rest = count % 3 == 0 ? 0 : 1e17;
            const double expected = static_cast<double>((count + 1) / 3);
            std::vector<uint64_t> words(values.size());
            std::memcpy(words.data(), values.data(), values.size() * 8);
            const CompensatedSum sum = kernels->sum_doubles(Unaligned(words).data(), count);
            EXPECT_EQ((sum.sum - rest) + sum.compensation, expected);
        }
        const double infinite[] = {1.0, HUGE_VAL, 2.0};
        const CompensatedSum sum = kernels->sum_doubles(reinterpret_cast<const uint8_t*>(infinite), 3);
        EXPECT(std::isinf(sum.sum) && !std::isfinite(sum.compensation));
    }
}

TEST(group_by_kernels_choose_by_validity) {
    std::mt19937_64 random(3);
    for (const ColumnKernels* kernels : all_kernels()) {
        for (const int64_t count : kCounts) {
            for (const int64_t first_bit : {0, 1, 5, 8, 13}) {
                std::vector<uint64_t> words(static_cast<size_t>(count));
                for (uint64_t& word : words) word = random();
                std::vector<uint8_t> bits(static_cast<size_t>(bitmap_bytes(first_bit + count)));
                for (uint8_t& byte : bits) byte = static_cast<uint8_t>(random());
                std::vector<uint64_t> chosen(words.size());
                int64_t set = 0;
                const int64_t found =
                    kernels->choose_words(Unaligned(words).data(), bits.data(), first_bit, count, 42, chosen.data());
                for (int64_t i = 0; i < count; ++i) {
                    const bool valid = get_bit(bits.data(), first_bit + i);
                    set += valid ? 1 : 0;
                    EXPECT_EQ(chosen[static_cast<size_t>(i)], valid ? words[static_cast<size_t>(i)] : 42);
                }
                EXPECT_EQ(found, set);
            }
        }
    }
}

namespace {

// Four columns, each behind an odd address.
struct Columns {
    std::vector<std::vector<uint64_t>> words;
    std::vector<Unaligned> data;
    const uint8_t* columns[4];
    template <class Make>
    Columns(int64_t count, Make make) : words(4, std::vector<uint64_t>(static_cast<size_t>(count))) {
        for (auto& column : words) {
            for (uint64_t& word : column) word = make();
            data.emplace_back(column);
        }
        for (size_t lane = 0; lane < 4; ++lane) columns[lane] = data[lane].data();
    }
};

std::vector<uint32_t> random_places(int64_t count, uint32_t places, std::mt19937_64& random) {
    std::vector<uint32_t> result(static_cast<size_t>(count));
    for (uint32_t& place : result) place = static_cast<uint32_t>(random() % places);
    return result;
}

}  // namespace

TEST(group_by_kernels_of_four_columns) {
    constexpr uint32_t kPlaces = 3;
    const uint64_t flips[] = {0, ~uint64_t{0}, uint64_t{1} << 63, ~(uint64_t{1} << 63)};
    std::mt19937_64 random(4);
    for (const ColumnKernels* kernels : all_kernels()) {
        for (const int64_t count : kCounts) {
            const Columns columns(count, [&] { return random(); });
            const std::vector<uint32_t> places = random_places(count, kPlaces, random);
            std::vector<uint64_t> sums(4 * kPlaces, 7);
            std::vector<uint64_t> best(4 * kPlaces, uint64_t{1} << 63);
            std::vector<uint64_t> expected_sums = sums;
            std::vector<uint64_t> expected_best = best;
            for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
                for (size_t lane = 0; lane < 4; ++lane) {
                    const uint64_t word = columns.words[lane][i];
                    const size_t at = places[i] * 4 + lane;
                    expected_sums[at] += word;
                    const auto flipped = static_cast<int64_t>(word ^ flips[lane]);
                    if (flipped > static_cast<int64_t>(expected_best[at])) {
                        expected_best[at] = static_cast<uint64_t>(flipped);
                    }
                }
            }
            kernels->add_quads(columns.columns, places.data(), count, sums.data());
            EXPECT(sums == expected_sums);
            kernels->choose_quads(columns.columns, flips, places.data(), count, best.data());
            EXPECT(best == expected_best);
        }
    }
}

TEST(group_by_kernels_of_four_columns_of_doubles) {
    constexpr uint32_t kPlaces = 5;
    std::mt19937_64 random(5);
    for (const ColumnKernels* kernels : all_kernels()) {
        for (const int64_t count : kCounts) {
            const Columns columns(count, [&] {
                return std::bit_cast<uint64_t>((random() % 2 == 0 ? 1e16 : 1.0) * static_cast<double>(random() % 1000));
            });
            const std::vector<uint32_t> places = random_places(count, kPlaces, random);
            std::vector<double> sums(8 * kPlaces);
            std::vector<__int128> exact(4 * kPlaces);
            for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
                for (size_t lane = 0; lane < 4; ++lane) {
                    exact[places[i] * 4 + lane] += static_cast<__int128>(std::bit_cast<double>(columns.words[lane][i]));
                }
            }
            kernels->add_double_quads(columns.columns, places.data(), count, sums.data());
            for (uint32_t place = 0; place < kPlaces; ++place) {
                for (uint32_t lane = 0; lane < 4; ++lane) {
                    const double* at = sums.data() + place * 8 + lane;
                    EXPECT_EQ(at[0] + at[4], static_cast<double>(exact[place * 4 + lane]));
                }
            }
        }
    }
}

}  // namespace spillway::test
