// SPDX-License-Identifier: Apache-2.0
// Build sides and arguments that the no-partitioning join refuses, and memory that it does not get.
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "no_partitioning_join/npj_policy.hpp"
#include "support/no_partitioning_join_check.hpp"

namespace spillway::gpu_test {

using cuda::ErrorCode;

namespace {

// The text of the kInvalid that a join throws; both that counts and that materializes must.
std::string refusal(const KeyedRelation& build, const KeyedRelation& probe, const NpjOptions& options) {
    cuda::Device& device = test_device();
    const uint64_t blocks = device.memory().blocks();
    CHECK_THROWS(cuda::no_partitioning_count(device, build.device(), probe.device(), options), ErrorCode::kInvalid);
    std::string text;
    try {
        cuda::no_partitioning_join(device, build.device(), probe.device(), all_columns(build, probe), options);
    } catch (const cuda::Error& error) {
        CHECK(error.code() == ErrorCode::kInvalid);
        text = error.what();
    }
    CHECK_EQ(device.memory().blocks(), blocks);
    return text;
}

bool contains(const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

GPU_TEST("no-partitioning join: one hot key, up to the limit and beyond") {
    const uint64_t others = small_or_full(12000, 50000);
    std::vector<uint64_t> keys = sparse_keys(others, test_seed());
    const uint64_t hot = keys[0];
    for (const uint32_t key_width : {4U, 8U}) {
        // On the probe side any share is fine: all of its rows have one place to look at.
        const KeyedRelation primary(keys, key_width, {4}, test_seed());
        check(primary, KeyedRelation(one_hot_key(others, 0.9, test_seed()), key_width, {4}, test_seed()), {},
              "a hot key that is not there");
        check(primary, KeyedRelation(std::vector<uint64_t>(others, hot), key_width, {4}, test_seed()), {},
              "a hot key that is there");
        std::vector<uint64_t> build_keys = keys;
        build_keys.resize(others + cuda::kWalkStepsMax / 4, hot);
        check(KeyedRelation(build_keys, key_width, {4}, test_seed()), KeyedRelation({hot, 1, 2}, key_width, {4}, 1), {},
              "a hot build key");
        // All walks together stay below their own limit, 2^23 and 64 per row, so that it is certain which one is told.
        build_keys.resize(others + cuda::kWalkStepsMax + 64, hot);
        const std::string text = refusal(KeyedRelation(build_keys, key_width, {4}, test_seed()), primary, NpjOptions{});
        CHECK(contains(text, "a run of more than"));
    }
}

GPU_TEST("no-partitioning join: many hot keys are refused before they take long") {
    // 3,000 rows per key make 1,500 steps per row, none of them alone too long.
    const uint64_t multiplicity = cuda::kWalkStepsMax / 4 * 3;
    const auto keys = repeated_keys(sparse_keys(small_or_full(10, 1000), test_seed()), multiplicity, test_seed());
    const KeyedRelation probe({1, 2, 3}, 4, {4}, test_seed());
    const std::string text = refusal(KeyedRelation(keys, 4, {4}, test_seed()), probe, NpjOptions{});
    CHECK(contains(text, "linear probing: "));
}

GPU_TEST("no-partitioning join: perfect hashing finds repeated keys and keys outside of the range") {
    const uint64_t rows = small_or_full(1000, 50000);
    auto keys = dense_permutation(rows, test_seed());
    for (const uint32_t key_width : {4U, 8U}) {
        const KeyedRelation dense(keys, key_width, {4}, test_seed());
        const KeyedRelation same(keys, key_width, {4}, test_seed() + 1);
        CHECK(contains(refusal(dense, same, perfect(0, rows - 1)), "outside of the key range"));
        CHECK(contains(refusal(dense, same, perfect(1, rows)), "outside of the key range"));
        auto repeated = keys;
        repeated[rows / 2] = repeated[rows / 3];
        CHECK(contains(refusal(KeyedRelation(repeated, key_width, {4}, test_seed()), same, perfect(0, rows)),
                       "comes twice"));
        const KeyedRelation one_key(std::vector<uint64_t>(rows, 7), key_width, {4}, test_seed());
        CHECK(contains(refusal(one_key, same, perfect(0, rows)), "comes twice"));
    }
}

GPU_TEST("no-partitioning join: arguments that no caller may give") {
    cuda::Device& device = test_device();
    const KeyedRelation narrow({1, 2, 3}, 4, {4}, test_seed());
    const KeyedRelation other({1, 2, 3}, 8, {4}, test_seed());
    const auto join = [&](const cuda::DeviceRelation& build, const std::vector<JoinOutputColumn>& output,
                          const NpjOptions& options) {
        cuda::no_partitioning_join(device, build, narrow.device(), output, options);
    };
    CHECK_THROWS(join(other.device(), {}, {}), ErrorCode::kInvalid);
    CHECK_THROWS(join(narrow.device(), {{OutputSide::kBuild, 1}}, {}), ErrorCode::kInvalid);
    CHECK_THROWS(join(narrow.device(), std::vector<JoinOutputColumn>(57), {}), ErrorCode::kInvalid);
    CHECK_THROWS(join(narrow.device(), {}, perfect(0, (1ULL << 32) + 1)), ErrorCode::kInvalid);
    cuda::DeviceRelation bad = narrow.device();
    bad.columns[0].width = 3;
    CHECK_THROWS(join(bad, {}, {}), ErrorCode::kInvalid);
    bad.columns[0] = {nullptr, 2};
    CHECK_THROWS(join(bad, {}, {}), ErrorCode::kInvalid);
    bad = narrow.device();
    bad.key.data = static_cast<const uint8_t*>(bad.key.data) + 4;
    CHECK_THROWS(join(bad, {}, {}), ErrorCode::kInvalid);
    NpjOptions greedy;
    greedy.expected_rows = 1ULL << 62;
    CHECK_THROWS(join(narrow.device(), {}, greedy), ErrorCode::kInvalid);
}

GPU_TEST("no-partitioning join: no allocation that fails leaves a block behind") {
    cuda::Device& device = test_device();
    const auto keys = dense_permutation(small_or_full(3000, 30000), test_seed());
    const KeyedRelation unique(keys, 8, {4, 16}, test_seed());
    const KeyedRelation repeated(repeated_keys(keys, 10, test_seed()), 8, {4, 16}, test_seed());
    const KeyedRelation probe(repeated_keys(keys, 2, test_seed()), 8, {8}, test_seed());
    const auto output = all_columns(unique, probe);
    const uint64_t blocks = device.memory().blocks();
    for (NpjOptions options : {NpjOptions{}, perfect(0, keys.size()), perfect(0, 0)}) {
        const bool is_unique = options.scheme == HashingScheme::kPerfect;
        const KeyedRelation& build = is_unique ? unique : repeated;
        for (const OutputPlan plan : {OutputPlan::kOnePass, OutputPlan::kCountFirst}) {
            options.plan = plan;
            uint64_t failures = 0;
            for (bool done = false; !done;) {
                device.memory().fail_after(failures + 1);
                try {
                    const auto result =
                        cuda::no_partitioning_join(device, build.device(), probe.device(), output, options);
                    CHECK_EQ(result.rows, (is_unique ? 2 : 20) * keys.size());
                    done = true;
                } catch (const cuda::Error& error) {
                    // The array over a range that was found may be more than another algorithm needs.
                    const bool is_array = is_unique && options.key_range == 0 && failures == 1;
                    CHECK(error.code() == (is_array ? ErrorCode::kInvalid : ErrorCode::kOutOfMemory));
                    ++failures;
                }
                CHECK_EQ(device.memory().blocks(), blocks);
            }
            device.memory().fail_after(0);
            // Table, counters, holes and four columns. Chunks of all warps hold four matches per probe row, so that ten
            // and nothing expected take a second run, with holes and columns once more.
            CHECK(failures >= (!is_unique && plan == OutputPlan::kOnePass ? 12 : 7));
        }
    }
}

}  // namespace spillway::gpu_test
