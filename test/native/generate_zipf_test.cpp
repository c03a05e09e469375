// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <map>
#include <vector>

#include "generate/relation_generator.hpp"
#include "generate/zipf.hpp"
#include "support/output_columns.hpp"
#include "support/test.hpp"

using namespace spillway;
using namespace spillway::test::batches;

namespace {

double harmonic(uint64_t n, double exponent) {
    double sum = 0;
    for (uint64_t k = n; k >= 1; --k) sum += std::pow(static_cast<double>(k), -exponent);
    return sum;
}

constexpr double kExponents[] = {0.0, 0.25, 0.5, 0.99, 1.0, 1.000001, 1.25, 2.0, 5.0};

}  // namespace

TEST(zipf_cumulative_weights_match_the_sum) {
    for (const double exponent : kExponents) {
        const ZipfDistribution zipf(1000000, exponent);
        for (const uint64_t k : {uint64_t{1}, uint64_t{10}, uint64_t{1024}, uint64_t{1025}, uint64_t{1000000}}) {
            const double expected = harmonic(k, exponent);
            EXPECT(std::fabs(zipf.cumulative(k) - expected) < 1e-10 * expected);
        }
    }
}

TEST(zipf_samples_have_the_right_frequencies) {
    constexpr int64_t kDraws = test::fewer_if_sanitized(400000);
    for (const double exponent : kExponents) {
        for (const uint64_t n : {uint64_t{1}, uint64_t{2}, uint64_t{10}, uint64_t{100000}}) {
            const ZipfDistribution zipf(n, exponent);
            const double total = harmonic(n, exponent);
            std::vector<int64_t> counts(n + 1, 0);
            for (int64_t i = 0; i < kDraws; ++i) {
                RandomSequence random(random_stream(42, n), static_cast<uint64_t>(i));
                ++counts[zipf.sample(random)];
            }
            // Head ranks one by one, then the lower half of all ranks together.
            for (uint64_t k = 1; k <= std::min<uint64_t>(n, 8); ++k) {
                const double p = std::pow(static_cast<double>(k), -exponent) / total;
                const double deviation = std::sqrt(kDraws * p * (1 - p));
                EXPECT(std::fabs(static_cast<double>(counts[k]) - kDraws * p) <= 5 * deviation + 1);
            }
            int64_t lower = 0;
            for (uint64_t k = 1; k <= n / 2; ++k) lower += counts[k];
            const double p = std::min(1.0, harmonic(n / 2, exponent) / total);
            EXPECT(std::fabs(static_cast<double>(lower) - kDraws * p) <= 5 * std::sqrt(kDraws * p * (1 - p)) + 1);
        }
    }
}

TEST(zipf_quantiles_rise_and_match_the_distribution) {
    for (const double exponent : kExponents) {
        for (const uint64_t n : {uint64_t{1}, uint64_t{5}, uint64_t{1025}, uint64_t{100000}, uint64_t{1} << 50}) {
            const ZipfDistribution zipf(n, exponent);
            uint64_t last = 1;
            for (int i = 0; i <= 20000; ++i) {
                const double u = i == 20000 ? 1 - 0x1p-53 : i / 20000.0;
                const uint64_t rank = zipf.quantile(u);
                EXPECT(rank >= last && rank <= n);
                last = rank;
                const double target = u * zipf.cumulative(n);
                const double slack = zipf.cumulative(n) * 1e-6;  // the 0.5 % steps
                EXPECT(zipf.cumulative(rank) >= target - slack);
                if (rank > 1) EXPECT(zipf.cumulative(rank - 1) <= target + slack);
            }
        }
    }
}

TEST(zipf_hot_keys_are_scattered_and_repeatable) {
    GenerateSpec spec;
    spec.rows = 200000;
    spec.seed = 5;
    spec.key = {"k", 8, KeyRole::kForeign, 1000000};
    spec.key.zipf = 1;
    spec.batch_rows = 10000;
    MemoryBudget budget(uint64_t{64} << 20);
    JobControl control;
    BatchCollector sink;
    generate_relation(spec, budget, control, sink);
    std::map<int64_t, int64_t> counts;
    for (const int64_t key : sink.values<int64_t>(0)) {
        EXPECT(key >= 0 && key < 1000000);
        ++counts[key];
    }
    std::vector<std::pair<int64_t, int64_t>> by_count;
    for (const auto& [key, count] : counts) by_count.emplace_back(count, key);
    std::sort(by_count.rbegin(), by_count.rend());
    const double total = harmonic(1000000, 1);
    int64_t low_keys = 0;
    for (int rank = 1; rank <= 4; ++rank) {
        const auto [count, key] = by_count[static_cast<size_t>(rank - 1)];
        const double p = 1 / (rank * total);
        EXPECT(std::fabs(static_cast<double>(count) - 200000 * p) < 5 * std::sqrt(200000 * p));
        low_keys += key < 1000 ? 1 : 0;
    }
    EXPECT(low_keys <= 1);
}
