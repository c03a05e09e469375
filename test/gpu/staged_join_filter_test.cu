// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "stream/bloom_filter.hpp"
#include "support/device_array.hpp"
#include "support/generators.hpp"
#include "support/staged_join_check.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::BloomFilter;
using cuda::DeviceRelation;
using cuda::JoinEmit;
using cuda::JoinKind;

// How many of the keys asked for pass a filter of the members.
template <class Key>
uint64_t passing(uint64_t words, const std::vector<Key>& members, const std::vector<Key>& asked,
                 const std::vector<uint32_t>& asked_valid = {}) {
    BloomFilter filter(test_device(), words);
    const DeviceArray<Key> in = upload(members);
    const DeviceArray<Key> out = upload(asked);
    const DeviceArray<uint32_t> valid = upload(asked_valid);
    DeviceRelation build;
    build.rows = members.size();
    build.key = {in.data(), sizeof(Key)};
    filter.add(build);
    DeviceRelation probe;
    probe.rows = asked.size();
    probe.key = {out.data(), sizeof(Key)};
    if (!asked_valid.empty()) probe.key_valid = valid.data();
    const DeviceArray<uint32_t> passes((asked.size() + 31) / 32);
    filter.test(probe, passes.data());
    test_device().synchronize();
    uint64_t count = 0;
    for (const uint32_t word : download(passes)) count += static_cast<uint64_t>(__builtin_popcount(word));
    return count;
}

}  // namespace

GPU_TEST("staged join filter: members pass, few others do") {
    const uint64_t members = small_or_full(4096, 1 << 20);
    std::vector<uint64_t> in;
    std::vector<uint64_t> other;
    for (uint64_t i = 0; i < members; ++i) {
        in.push_back(i * 3 + test_seed());
        other.push_back(i * 3 + 1 + test_seed());
    }
    CHECK_EQ(passing(members / 8, in, in), members);
    // Bits of 8 keys of 4 bits each in a word of 64: some 4 % of other keys pass, with 4 keys to a word 0.6 %.
    CHECK(passing(members / 8, in, other) < members * 7 / 100);
    CHECK(passing(members / 4, in, other) < members * 15 / 1000);
    CHECK(passing(members / 8, in, other) > 0);
    const std::vector<uint32_t> narrow_in(in.begin(), in.end());
    const std::vector<uint32_t> narrow_other(other.begin(), other.end());
    CHECK_EQ(passing(members / 8, narrow_in, narrow_in), members);
    CHECK(passing(members / 8, narrow_in, narrow_other) < members * 7 / 100);
    // Rows without a key do not pass.
    CHECK_EQ(passing(members / 8, in, in, std::vector<uint32_t>((members + 31) / 32, 0)), 0);
    CHECK_EQ(passing<uint64_t>(2, {}, in), 0);
    CHECK_EQ(passing<uint64_t>(2, in, {}), 0);
}

GPU_TEST("staged join filter: words that it cannot have") {
    for (const uint64_t words : {0ULL, 1ULL, 3ULL, 1000ULL, 1ULL << 41}) {
        CHECK_THROWS(BloomFilter(test_device(), words), cuda::ErrorCode::kInvalid);
    }
}

GPU_TEST("staged join filter: joins of every kind with a filter, full and sparse") {
    const uint64_t rows = small_or_full(700, 20000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    const KeyedRelation build(keys, 8, {8}, test_seed(), 0.05);
    const KeyedRelation probe(foreign_keys(keys, 3 * rows, 0.2, test_seed()), 8, {4}, test_seed() + 1, 0.05);
    for (const NamedJoinKind& named : kNamedJoinKinds) {
        const StagedJoinCheck check(build, probe, named.kind);
        for (const uint64_t words : {uint64_t{2}, uint64_t{4096}}) {
            StreamSizes sizes = spilled_sizes(rows, 3, 3);
            sizes.filter_words = words;
            check.all(sizes, std::string(named.name) + ", a filter of " + std::to_string(words) + " words");
        }
    }
}

GPU_TEST("staged join filter: rows that it drops are not spilled") {
    const uint64_t rows = small_or_full(700, 20000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    const KeyedRelation build(keys, 8, {8}, test_seed());
    const KeyedRelation probe(foreign_keys(keys, 3 * rows, 0.2, test_seed()), 8, {4}, test_seed() + 1);
    const StagedJoinCheck check(build, probe);
    StreamSizes sizes = spilled_sizes(rows, 3, 0);
    const auto spilled = [&](uint64_t words) {
        sizes.filter_words = words;
        const StagedJoinSpec spec = check.spec(JoinResultKind::kRows, sizes);
        const StagedJoinOutcome outcome = check.run(test_device(), spec);
        check.check(spec, outcome, "a filter of " + std::to_string(words) + " words");
        CHECK_EQ(outcome.report.spilled_rows[1] + outcome.report.dropped_rows, 3 * rows);
        return outcome.report.spilled_rows[1];
    };
    CHECK_EQ(spilled(0), 3 * rows);
    CHECK(spilled(65536) < rows);
}

}  // namespace spillway::gpu_test
