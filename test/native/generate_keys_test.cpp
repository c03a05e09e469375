// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include "support/generated_relation.hpp"

using namespace spillway;
using namespace spillway::test::batches;

TEST(generate_primary_keys_are_a_shuffle) {
    for (const int64_t rows : {1, 2, 3, 7, 1000, 4097, 50000}) {
        const auto keys = Generated(primary(rows)).keys();
        const auto in_order = sorted(keys);
        for (int64_t i = 0; i < rows; ++i) EXPECT_EQ(in_order[static_cast<size_t>(i)], i);
        if (rows >= 1000) EXPECT(keys != in_order);
    }
    EXPECT(Generated(primary(1000, 1)).keys() != Generated(primary(1000, 2)).keys());
}

TEST(generate_shuffle_has_no_pattern) {
    // Rows against keys in a 16 x 16 grid: chi-square with 225 degrees of freedom has mean 225 and deviation 21.2.
    const int64_t rows = 1 << 16;
    const auto keys = Generated(primary(rows)).keys();
    std::vector<double> cells(256, 0);
    int64_t neighbours = 0;
    for (int64_t i = 0; i < rows; ++i) {
        cells[static_cast<size_t>(i >> 12 << 4 | keys[static_cast<size_t>(i)] >> 12)] += 1;
        if (i > 0 && std::abs(keys[static_cast<size_t>(i)] - keys[static_cast<size_t>(i - 1)]) < 8) ++neighbours;
    }
    double chi_square = 0;
    for (const double count : cells) chi_square += (count - 256) * (count - 256) / 256;
    EXPECT(chi_square > 100 && chi_square < 350);
    EXPECT(neighbours < 60);  // 14 expected
}

TEST(generate_stride_offset_and_widths) {
    GenerateSpec spec = primary(5000);
    spec.key.width = 4;
    spec.key.stride = 16;
    spec.key.offset = -100;
    const Generated narrow(spec);
    auto keys = narrow.sink.values<int32_t>(0);
    std::sort(keys.begin(), keys.end());
    for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(keys[i], static_cast<int32_t>(i) * 16 - 100);
    spec.key.stride = 1 << 20;
    EXPECT_ERROR(kInvalidArgument, check_spec(spec));
    spec.key.width = 8;
    check_spec(spec);
}

TEST(generate_sparse_keys_stay_unique_and_find_their_partners) {
    for (const int32_t width : {4, 8}) {
        GenerateSpec spec = primary(20000);
        spec.key.sparse = true;
        spec.key.width = width;
        GenerateSpec other = foreign(20000, 20000);
        other.key.sparse = true;
        other.key.width = width;
        other.key.match_ratio = 0.5;
        std::set<int64_t> keys;
        int64_t matches = 0;
        const Generated left(spec);
        const Generated right(other);
        const auto widen = [width](const Generated& g) {
            if (width == 8) return g.keys();
            const auto values = g.sink.values<int32_t>(0);
            return std::vector<int64_t>(values.begin(), values.end());
        };
        for (const int64_t key : widen(left)) keys.insert(key);
        EXPECT_EQ(keys.size(), size_t{20000});
        EXPECT(*keys.rbegin() > (width == 8 ? int64_t{1} << 60 : int64_t{1} << 28));
        for (const int64_t key : widen(right)) matches += static_cast<int64_t>(keys.count(key));
        EXPECT(std::abs(matches - 10000) < 400);  // 5 deviations are 354
    }
}

TEST(generate_duplicates) {
    GenerateSpec spec = primary(9001);
    spec.key.duplicates = 9;
    std::map<int64_t, int64_t> counts;
    for (const int64_t key : Generated(spec).keys()) ++counts[key];
    EXPECT_EQ(counts.size(), size_t{1001});
    for (int64_t key = 0; key < 1000; ++key) EXPECT_EQ(counts[key], int64_t{9});
    EXPECT_EQ(counts[1000], int64_t{1});
}

TEST(generate_uniform_foreign_keys) {
    const auto keys = Generated(foreign(64000, 64)).keys();
    std::vector<int64_t> counts(64, 0);
    for (const int64_t key : keys) ++counts[static_cast<size_t>(key)];
    for (const int64_t count : counts) EXPECT(std::abs(count - 1000) < 170);  // deviation 31
}

TEST(generate_match_ratio) {
    for (const double ratio : {0.0, 0.03, 0.5, 0.97, 1.0}) {
        GenerateSpec spec = foreign(50000, 1000);
        spec.key.match_ratio = ratio;
        for (const auto order : {KeyOrder::kShuffled, KeyOrder::kSorted}) {
            spec.key.order = order;
            const auto keys = Generated(spec).keys();
            const auto matches = std::count_if(keys.begin(), keys.end(), [](int64_t key) { return key < 1000; });
            const double deviation = std::sqrt(50000 * ratio * (1 - ratio));
            EXPECT(std::abs(static_cast<double>(matches) - 50000 * ratio) <= 5 * deviation);
            for (const int64_t key : keys) EXPECT(key >= 0 && key < 2000);
        }
    }
    // The keys fill the width: no value is left for rows without a partner.
    GenerateSpec spec = foreign(10, int64_t{1} << 31);
    spec.key.width = 4;
    check_spec(spec);
    spec.key.match_ratio = 0.5;
    EXPECT_ERROR(kInvalidArgument, check_spec(spec));
}

TEST(generate_sorted_keys) {
    GenerateSpec spec = primary(10000);
    spec.key.order = KeyOrder::kSorted;
    spec.key.duplicates = 4;
    spec.workers = 3;
    const auto keys = Generated(spec).keys();
    for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(keys[i], static_cast<int64_t>(i / 4));
    for (const double zipf : {0.0, 1.0}) {
        GenerateSpec other = foreign(40000, 10000);
        other.key.order = KeyOrder::kSorted;
        other.key.match_ratio = 0.75;
        other.key.zipf = zipf;
        const auto foreign_keys = Generated(other).keys();
        EXPECT(std::is_sorted(foreign_keys.begin(), foreign_keys.end()));
        EXPECT_EQ(foreign_keys[29999] < 10000, true);
        EXPECT_EQ(foreign_keys[30000] >= 10000, true);
        EXPECT(foreign_keys.back() < 20000);
    }
    spec.key.sparse = true;
    EXPECT_ERROR(kInvalidArgument, check_spec(spec));
}
