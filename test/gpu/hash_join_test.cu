// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "hash_join/hash_join.hpp"
#include "support/join_check.hpp"
#include "support/keyed_relation.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::OutputPlan;
using cuda::PartitionedRows;

struct JoinCase {
    int radix_bits = 6;
    uint64_t expected = 0;  // rows that memory is taken for at first
    OutputPlan plan = OutputPlan::kOnePass;
};

void check(const KeyedRelation& build, const KeyedRelation& probe, const JoinCase& with, const std::string& what) {
    cuda::Device& device = test_device();
    const PartitionedRows build_rows = cuda::radix_partition(device, build.device(), with.radix_bits);
    const PartitionedRows probe_rows = cuda::radix_partition(device, probe.device(), with.radix_bits);
    const HostTable expected = expected_rows(build, probe);
    CHECK_EQ(cuda::count_matches(device, build_rows, probe_rows), expected.rows());
    const cuda::JoinResult result =
        cuda::join_partitions(device, build_rows, probe_rows, all_columns(build, probe), with.expected, with.plan);
    check_result(result, expected, what);
}

void check_plans(const KeyedRelation& build, const KeyedRelation& probe, int radix_bits, const std::string& what) {
    check(build, probe, {radix_bits, probe.host().rows(), OutputPlan::kOnePass}, what);
    check(build, probe, {radix_bits, 0, OutputPlan::kOnePass}, what + ", more rows than expected");
    check(build, probe, {radix_bits, 0, OutputPlan::kCountFirst}, what + ", counted first");
}

}  // namespace

GPU_TEST("hash join: primary and foreign keys, match ratios, radix bits") {
    const uint64_t rows = small_or_full(300, 30000);
    const std::vector<uint64_t> primary = sparse_keys(rows, test_seed());
    for (const double share : {0.0, 0.25, 1.0}) {
        if (!full_suite() && share == 0) continue;
        const auto foreign = foreign_keys(primary, 2 * rows, share, test_seed());
        for (const uint32_t key_width : {4U, 8U}) {
            const KeyedRelation build(primary, key_width, {4, 4}, test_seed());
            const KeyedRelation probe(foreign, key_width, {4, 4}, test_seed() + 1);
            for (const int bits : {0, 3, 8, 12, 14}) {
                if (!full_suite() && (bits + key_width / 4) % 2 != 0) continue;
                check_plans(build, probe, bits,
                            "match ratio " + std::to_string(share) + ", bits " + std::to_string(bits));
            }
        }
    }
}

GPU_TEST("hash join: payloads of every width on both sides") {
    const uint64_t rows = small_or_full(200, 20000);
    uint64_t turn = 0;
    const std::vector<uint64_t> keys = dense_permutation(rows, test_seed());
    const auto foreign = foreign_keys(keys, rows, 0.9, test_seed());
    const std::vector<std::vector<uint32_t>> layouts = {
        {}, {1}, {2}, {4}, {8}, {16}, {1, 2, 4, 8}, {16, 1}, {kRowNumber4}, {kRowNumber8}, {4, 4, 4, 4, 4}, {8, 8, 8}};
    for (const auto& build_widths : layouts) {
        for (const auto& probe_widths : layouts) {
            if (build_widths.empty() && probe_widths.empty()) continue;
            if (!full_suite() && ++turn % 5 != 0) continue;
            const uint32_t key_width = build_widths.size() % 2 == 0 ? 8 : 4;
            check(KeyedRelation(keys, key_width, build_widths, test_seed()),
                  KeyedRelation(foreign, key_width, probe_widths, test_seed() + 1), {5, rows, OutputPlan::kOnePass},
                  "widths");
        }
    }
}

GPU_TEST("hash join: empty and tiny sides") {
    for (const uint64_t build_rows : {0, 1, 40}) {
        for (const uint64_t probe_rows : {0, 1, 33}) {
            const KeyedRelation build(dense_permutation(build_rows, test_seed()), 4, {4}, test_seed());
            const KeyedRelation probe(dense_permutation(probe_rows, test_seed() + 1), 4, {8}, test_seed());
            for (const int bits : {0, 4}) check_plans(build, probe, bits, "tiny sides");
        }
    }
}

GPU_TEST("hash join: m:n, NULL keys, Zipf foreign keys, extreme keys") {
    const uint64_t distinct = small_or_full(200, 5000);
    const std::vector<uint64_t> keys = sparse_keys(distinct, test_seed());
    for (const uint64_t multiplicity : {2, 7, 33}) {
        const KeyedRelation build(repeated_keys(keys, multiplicity, test_seed()), 8, {8}, test_seed());
        const KeyedRelation probe(repeated_keys(keys, 3, test_seed() + 1), 8, {4, 4}, test_seed());
        check_plans(build, probe, 5, "m:n, " + std::to_string(multiplicity) + " x 3");
    }
    const auto dense = dense_permutation(distinct * 4, test_seed());
    check_plans(KeyedRelation(dense, 4, {4}, test_seed(), 0.2), KeyedRelation(dense, 4, {4}, test_seed() + 1, 0.4), 4,
                "NULL keys");
    for (const double exponent : {0.5, 1.0, 2.0}) {
        check_plans(KeyedRelation(dense, 4, {4, 4}, test_seed()),
                    KeyedRelation(zipf_keys(distinct * 20, distinct * 4, exponent, test_seed()), 4, {4}, test_seed()),
                    6, "Zipf " + std::to_string(exponent));
    }
    const std::vector<uint64_t> extremes = {0, ~0ULL, 1, 0x80000000ULL, 0x7fffffffULL, 0xffffffffULL, 1ULL << 63};
    check_plans(KeyedRelation(extremes, 8, {4}, test_seed()), KeyedRelation(extremes, 8, {4}, test_seed()), 2,
                "extremes");
    check_plans(KeyedRelation({0, 0xffffffffULL, 5}, 4, {4}, test_seed()),
                KeyedRelation({0xffffffffULL, 0, 0, 7}, 4, {4}, test_seed()), 2, "extremes of 4 bytes");
}

GPU_TEST("hash join: partitions that no block holds, on either side") {
    // One key in more build rows than a block's table, few probe rows with it; and the other way round.
    const uint64_t heavy = small_or_full(16000, 150000);  // a block holds 15,350 rows of 8 bytes
    std::vector<uint64_t> hot(heavy, 42);
    std::vector<uint64_t> few = dense_permutation(60, test_seed());
    check_plans(KeyedRelation(hot, 4, {4}, test_seed()), KeyedRelation(few, 4, {4}, test_seed()), 5,
                "heavy build side");
    check_plans(KeyedRelation(few, 4, {4}, test_seed()), KeyedRelation(hot, 4, {4}, test_seed()), 5,
                "heavy probe side");
    // All rows in one partition, though they have different keys.
    const auto keys = dense_permutation(small_or_full(30000, 200000), test_seed());
    check_plans(KeyedRelation(keys, 8, {4}, test_seed()), KeyedRelation(keys, 8, {2}, test_seed()), 0, "one partition");
}

GPU_TEST("hash join: bad arguments and refused memory") {
    cuda::Device& device = test_device();
    const KeyedRelation build(dense_permutation(1000, test_seed()), 4, {4}, test_seed());
    const PartitionedRows rows = cuda::radix_partition(device, build.device(), 3);
    const PartitionedRows other = cuda::radix_partition(device, build.device(), 4);
    CHECK_THROWS(cuda::count_matches(device, rows, other), cuda::ErrorCode::kInvalid);
    CHECK_THROWS(cuda::join_partitions(device, rows, rows, {{OutputSide::kBuild, 1}}, 10), cuda::ErrorCode::kInvalid);
    cuda::MemoryPool& memory = device.memory();
    const uint64_t before = memory.used_bytes();
    uint64_t failures = 0;
    for (uint64_t n = 1; n < 100; ++n) {
        memory.fail_after(n);
        try {
            cuda::join_partitions(device, rows, rows, {{OutputSide::kKey, 0}, {OutputSide::kBuild, 0}}, 0);
            break;
        } catch (const cuda::Error& error) {
            CHECK_EQ(error.code(), cuda::ErrorCode::kOutOfMemory);
            ++failures;
        }
        CHECK_EQ(memory.used_bytes(), before);
    }
    memory.fail_after(0);
    CHECK(failures > 5);
    CHECK_EQ(cuda::count_matches(device, rows, rows), 1000);
}

GPU_TEST("hash join: seeded trials") {
    const uint64_t trials = small_or_full(3, 60);
    for (uint64_t trial = 0; trial < trials; ++trial) {
        const uint64_t seed = random64(test_seed(), trial);
        RandomSequence random(seed, 0);
        const auto pick = [&](uint64_t below) { return random.next() % below; };
        const uint64_t distinct = 1 + pick(small_or_full(300, 20000));
        const std::vector<uint64_t> domain =
            pick(2) == 0 ? dense_permutation(distinct, seed) : sparse_keys(distinct, seed);
        const auto keys_of = [&](uint64_t rows, uint64_t side) {
            const auto places = zipf_keys(rows, distinct, static_cast<double>(pick(3)) * 0.5, seed + side);
            std::vector<uint64_t> keys(rows);
            for (uint64_t row = 0; row < rows; ++row) keys[row] = domain[places[row]];
            return keys;
        };
        const uint32_t key_width = pick(2) == 0 ? 4 : 8;
        constexpr uint32_t kWidths[] = {1, 2, 4, 8};
        const double nulls = pick(3) == 0 ? 0.1 : 0;
        // Few keys in many rows make more pairs than a reference on the host can list.
        const uint64_t most = std::min<uint64_t>(small_or_full(500, 15000), 4 * distinct + 2);
        const KeyedRelation build(keys_of(pick(most), 1), key_width, {kWidths[pick(4)]}, seed, nulls);
        const KeyedRelation probe(keys_of(pick(most), 2), key_width, {kWidths[pick(4)], 4}, seed);
        const auto bits = static_cast<int>(pick(17));
        check(build, probe, {bits, pick(2000), pick(2) == 0 ? OutputPlan::kOnePass : OutputPlan::kCountFirst},
              "trial " + std::to_string(trial) + " of seed " + std::to_string(test_seed()));
    }
}

}  // namespace spillway::gpu_test
