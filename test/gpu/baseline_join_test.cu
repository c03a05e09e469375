// SPDX-License-Identifier: Apache-2.0
// Joins that the one beyond GPU memory is compared with: results of each. What they do with memory and errors is in
// baseline_join_failing_test.cu, the CPU's partitioner in baseline_join_partition_test.cu.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "support/baseline_join_check.hpp"

namespace spillway::gpu_test {

namespace {

// Those that take any keys.
constexpr BaselineAlgorithm kFarGeneral[] = {BaselineAlgorithm::kStagedUncached, BaselineAlgorithm::kStreamProbe,
                                             BaselineAlgorithm::kNpjFar, BaselineAlgorithm::kCpuPartitioned};

// Dense keys around `first`, shuffled, and a probe side of which a part finds partners.
void check_dense(uint64_t build_rows, uint64_t probe_rows, uint64_t first, uint32_t key_width,
                 const std::vector<uint32_t>& build_widths, const std::string& what) {
    std::vector<uint64_t> keys = dense_permutation(build_rows, test_seed());
    for (uint64_t& key : keys) key += first;
    const std::vector<uint64_t> foreign = foreign_keys(keys, probe_rows, 0.8, test_seed());
    const KeyedRelation build(keys, key_width, build_widths, test_seed());
    const KeyedRelation probe(foreign, key_width, {4}, test_seed() + 1, probe_rows > 2 ? 0.05 : 0);
    BaselineCheck check(build, probe);
    check.first_key = first;
    check.all(BaselineAlgorithm::kNpjFarPerfect, ample_sizes(build_rows, 0), what);
}

void check_general(const KeyedRelation& build, const KeyedRelation& probe, int radix_bits, const std::string& what) {
    const BaselineCheck check(build, probe);
    for (const BaselineAlgorithm algorithm : kFarGeneral) {
        check.all(algorithm, ample_sizes(build.host().rows(), radix_bits), what);
    }
}

}  // namespace

GPU_TEST("baseline join: every name opens its algorithm") {
    const std::vector<uint64_t> keys = dense_permutation(1001, test_seed());
    const KeyedRelation build(keys, 8, {8}, test_seed());
    const KeyedRelation probe(foreign_keys(keys, 1500, 0.8, test_seed()), 8, {8}, test_seed() + 1);
    const BaselineCheck check(build, probe);
    for (const cuda::BaselineName& named : cuda::kBaselineNames) {
        check.all(named.algorithm, ample_sizes(1001, 2), "by its name");
    }
}

GPU_TEST("baseline join: none, one, two and odd numbers of rows") {
    const std::vector<uint64_t> all_rows =
        full_suite() ? std::vector<uint64_t>{0, 1, 2, 31, 499, 500, 501, 3001} : std::vector<uint64_t>{0, 1, 777};
    for (const uint64_t build_rows : all_rows) {
        for (const uint64_t probe_rows : all_rows) {
            const std::vector<uint64_t> keys = sparse_keys(build_rows, test_seed());
            const KeyedRelation build(keys, 8, {8}, test_seed());
            const KeyedRelation probe(foreign_keys(keys, probe_rows, 0.8, test_seed()), 8, {8}, test_seed() + 1);
            const std::string what = std::to_string(build_rows) + " x " + std::to_string(probe_rows) + " rows";
            check_general(build, probe, 2, what);
            check_dense(build_rows, probe_rows, 0, 8, {8}, what);
        }
    }
}

GPU_TEST("baseline join: widths of keys and columns, NULL keys, keys that come twice") {
    const std::vector<std::vector<uint32_t>> all_widths = {{}, {4}, {8}, {8, 2}, {16, 8}, {1, 4, 4}};
    const uint64_t rows = small_or_full(900, 9000);
    size_t turn = test_seed();
    for (const uint32_t key_width : {4U, 8U}) {
        for (size_t w = 0; w < all_widths.size(); ++w) {
            if (!full_suite() && ++turn % 3 != 0) continue;
            const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
            std::vector<uint64_t> build_keys = keys;
            build_keys.insert(build_keys.end(), keys.begin(), keys.begin() + static_cast<int64_t>(rows / 5));
            const KeyedRelation build(build_keys, key_width, all_widths[w], test_seed(), 0.1);
            const KeyedRelation probe(foreign_keys(keys, 2 * rows, 0.6, test_seed()), key_width,
                                      all_widths[all_widths.size() - 1 - w], test_seed() + 1, 0.1);
            check_general(build, probe, 3,
                          "widths of kind " + std::to_string(w) + ", keys of " + std::to_string(key_width) + " bytes");
        }
    }
}

GPU_TEST("baseline join: keys at both ends of signed and unsigned numbers, m:n, a hot key") {
    const uint64_t rows = small_or_full(1000, 10000);
    for (const uint32_t key_width : {4U, 8U}) {
        const uint64_t sign = key_width == 4 ? 1ULL << 31 : 1ULL << 63;
        std::vector<uint64_t> ends;
        for (uint64_t row = 0; row < rows; ++row) ends.push_back((row % 3) * sign + row / 6 - rows / 12);
        const KeyedRelation build(ends, key_width, {8}, test_seed());
        const KeyedRelation probe(foreign_keys(ends, 2 * rows, 0.9, test_seed()), key_width, {4}, test_seed() + 1);
        check_general(build, probe, 4, "both ends, keys of " + std::to_string(key_width) + " bytes");
        const std::vector<uint64_t> keys = sparse_keys(rows / 6, test_seed());
        const KeyedRelation many(repeated_keys(keys, 6, test_seed()), key_width, {4}, test_seed());
        const KeyedRelation more(repeated_keys(keys, 5, test_seed() + 1), key_width, {8}, test_seed() + 1);
        check_general(many, more, 4, "m:n, keys of " + std::to_string(key_width) + " bytes");
        const std::vector<uint64_t> hot = one_hot_key(rows, 0.05, test_seed());
        const KeyedRelation hot_build(hot, key_width, {8}, test_seed());
        const KeyedRelation hot_probe(foreign_keys(hot, rows, 0.9, test_seed()), key_width, {8}, test_seed() + 1);
        check_general(hot_build, hot_probe, 0, "a hot key of " + std::to_string(key_width) + " bytes");
    }
}

GPU_TEST("baseline join: chunks of one row, of none, of all") {
    const std::vector<uint64_t> keys = sparse_keys(1000, test_seed());
    const KeyedRelation build(keys, 8, {4, 8}, test_seed(), 0.02);
    const KeyedRelation probe(foreign_keys(keys, 1300, 0.7, test_seed()), 8, {8}, test_seed() + 1, 0.02);
    BaselineCheck check(build, probe);
    check.cuts[0] = {1, 500, 0, 0, 37};
    check.cuts[1] = {31, 0, 32, 1};
    for (const BaselineAlgorithm algorithm : kFarGeneral) check.all(algorithm, ample_sizes(1000, 3), "odd chunks");
}

GPU_TEST("baseline join: perfect hashing of keys that begin anywhere") {
    const uint64_t rows = small_or_full(700, 50000);
    for (const uint32_t key_width : {4U, 8U}) {
        const uint64_t last = key_width == 4 ? UINT32_MAX : UINT64_MAX;
        size_t turn = test_seed();
        for (const uint64_t first : {uint64_t{1}, last / 2 - 5, last - rows / 2, last - rows + 1}) {
            if (!full_suite() && ++turn % 2 != 0) continue;
            for (const std::vector<uint32_t>& widths : {std::vector<uint32_t>{8}, {}, {16, 4}}) {
                check_dense(rows, 2 * rows, first, key_width, widths,
                            "keys of " + std::to_string(key_width) + " bytes from " + std::to_string(first) + " on, " +
                                std::to_string(widths.size()) + " columns");
            }
        }
    }
}

// Two stripes of either tier at least, and rows that lie across none of their borders.
GPU_TEST("baseline join: tables over stripes of both tiers") {
    const uint64_t rows = small_or_full(3000, 400000);
    const std::vector<uint64_t> keys = dense_permutation(rows, test_seed());
    const KeyedRelation build(keys, 8, {8}, test_seed());
    const KeyedRelation probe(foreign_keys(keys, rows, 0.9, test_seed()), 8, {8}, test_seed() + 1);
    const BaselineCheck check(build, probe);
    for (const cuda::StripeShares shares : {far_shares(1, 1), far_shares(3, 1), far_shares(0, 1), far_shares(1, 0)}) {
        for (const uint32_t load_percent : {1U, 50U, 90U}) {
            BaselineSpec spec = check.spec(JoinResultKind::kSums, ample_sizes(rows, 0, rows / 5 + 7));
            spec.shares = shares;
            // At 1 % a hundredth of the slots is taken, so that a few rows need several stripes: 3,000 rows of 16 bytes
            // need three of them.
            spec.load_percent = load_percent == 1 && full_suite() ? 20 : load_percent;
            const std::string what = std::to_string(shares.device) + ":" + std::to_string(shares.host) + " stripes, " +
                                     std::to_string(spec.load_percent) + " % of slots";
            check.expect(BaselineAlgorithm::kNpjFar, spec, what);
            spec.key_range = rows * small_or_full(100, 10);
            check.expect(BaselineAlgorithm::kNpjFarPerfect, spec, what);
        }
    }
    // Shares that the join chooses: all of it fits the device.
    BaselineSpec chosen = check.spec(JoinResultKind::kRows, ample_sizes(rows, 0, rows / 5 + 7));
    chosen.shares = {};
    check.expect(BaselineAlgorithm::kNpjFar, chosen, "stripes by what is free");
}

GPU_TEST("baseline join: partitions of the CPU that are larger than the pages, or than a chunk") {
    const uint64_t rows = small_or_full(1500, 8000);  // one thread or five of the host, twelve times
    const std::vector<uint64_t> keys = one_hot_key(rows, 0.03, test_seed());
    const KeyedRelation build(keys, 8, {8}, test_seed());
    const KeyedRelation probe(foreign_keys(keys, 2 * rows, 0.8, test_seed()), 8, {4}, test_seed() + 1);
    BaselineCheck check(build, probe);
    for (const int radix_bits : {0, 2, 7}) {
        for (const uint32_t threads : {1U, 5U}) {
            if (!full_suite() && (radix_bits == 2) == (threads == 5)) continue;
            BaselineSpec spec = check.spec(JoinResultKind::kRows, least_sizes(radix_bits));
            spec.threads = threads;
            const std::string what = std::to_string(radix_bits) + " bits, " + std::to_string(threads) + " threads";
            check.cuts[0] = check.cuts[1] = {};
            check.expect(BaselineAlgorithm::kCpuPartitioned, spec, "chunks as planned, " + what);
            // All rows are one chunk, and one run of the partitioner.
            check.cuts[0] = check.cuts[1] = {2 * rows};
            check.expect(BaselineAlgorithm::kCpuPartitioned, spec, "one chunk, " + what);
        }
    }
}

// Partitions of the working set are kept, the others come afterwards; probe rows are of both, of one kind, or none.
GPU_TEST("baseline join: the build side comes in while the CPU partitions the probe side") {
    const uint64_t rows = small_or_full(3000, 40000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    const KeyedRelation build(keys, 8, {8}, test_seed(), 0.05);
    const KeyedRelation probe(foreign_keys(keys, 2 * rows, 0.8, test_seed()), 8, {8}, test_seed() + 1, 0.05);
    const KeyedRelation one({keys.front()}, 8, {8}, test_seed() + 1);
    for (const bool few_rows : {false, true}) {
        BaselineCheck check(build, few_rows ? one : probe);
        // As chunks are planned, and all rows in one, beside which the whole ring is filled again and again.
        for (const bool one_chunk : {false, true}) {
            if (one_chunk) check.cuts[1] = {2 * rows};
            for (const uint64_t share : {1, 2, 8}) {
                BaselineSpec spec = check.spec(JoinResultKind::kRows, ample_sizes(rows, 4));
                spec.join.sizes.pages /= share;
                spec.threads = 3;
                std::vector<uint64_t> kept;
                for (const bool overlap : {true, false}) {
                    spec.overlap = overlap;
                    const std::string what = std::to_string(share) + ", overlap " + std::to_string(overlap);
                    const BaselineOutcome outcome = check.run(test_device(), BaselineAlgorithm::kCpuPartitioned, spec);
                    check.check(spec, outcome, "working set of 1 / " + what);
                    kept.push_back(outcome.report.resident_partitions);
                }
                CHECK_EQ(kept[0], kept[1]);
                spec.join.sizes.resident_partitions = 3;
                const BaselineOutcome fewer = check.run(test_device(), BaselineAlgorithm::kCpuPartitioned, spec);
                check.check(spec, fewer, "a working set of three partitions at most");
                CHECK_EQ(fewer.report.resident_partitions, std::min<uint64_t>(3, kept[0]));
                CHECK_EQ(kept[0] == 16, share == 1);
                CHECK(share != 2 || kept[0] > 0);
            }
        }
    }
}

GPU_TEST("baseline join: the uncached join spills all rows in all their bytes") {
    const uint64_t rows = small_or_full(3000, 30000);
    const std::vector<uint64_t> keys = dense_permutation(rows, test_seed());
    const KeyedRelation build(keys, 8, {8, 2}, test_seed());
    const KeyedRelation probe(foreign_keys(keys, 2 * rows, 1, test_seed()), 8, {4}, test_seed() + 1);
    const BaselineCheck check(build, probe);
    const BaselineSpec spec = check.spec(JoinResultKind::kSums, ample_sizes(rows, 2));
    const BaselineOutcome outcome = check.run(test_device(), BaselineAlgorithm::kStagedUncached, spec);
    check.check(spec, outcome, "uncached");
    CHECK_EQ(outcome.report.resident_partitions, 0);
    CHECK_EQ(outcome.report.spilled_rows[0], rows);
    CHECK_EQ(outcome.report.spilled_rows[1], 2 * rows);
    CHECK(outcome.report.spilled_bytes[0] >= rows * 18);
    CHECK(outcome.report.spilled_bytes[1] >= 2 * rows * 12);
    const BaselineOutcome packed = check.run(test_device(), BaselineAlgorithm::kStaged, [&] {
        BaselineSpec staged = spec;
        staged.join.sizes.resident_partitions = 0;
        return staged;
    }());
    CHECK(packed.report.spilled_bytes[1] < outcome.report.spilled_bytes[1]);
}

}  // namespace spillway::gpu_test
