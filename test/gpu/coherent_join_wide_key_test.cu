// SPDX-License-Identifier: Apache-2.0
// The join by kernels alone of keys with two words: the second one is what stands beside the first in a row, and an
// index compares both. Every kind, rows without a key, one first word, build partitions in parts.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "support/coherent_check.hpp"
#include "support/group_by_check.hpp"
#include "support/join_kinds.hpp"

namespace spillway::gpu_test {

namespace {

// Either word has few values, so that both tell rows apart.
KeyedRelation two_words(uint64_t rows, uint64_t first_words, uint64_t other_words, uint64_t seed, double null_share) {
    std::vector<uint8_t> valid;
    if (null_share > 0) valid = null_mask(rows, null_share, seed);
    HostTable table;
    table.columns.push_back(column_of(drawn_keys(rows, first_words, seed), valid));
    table.columns.push_back(column_of(drawn_keys(rows, other_words, seed + 7)));
    return KeyedRelation(std::move(table));
}

void check_kinds(const KeyedRelation& build, const KeyedRelation& probe, uint64_t group_rows, const std::string& what) {
    const uint64_t rows = build.host().rows() + probe.host().rows();
    size_t turn = test_seed();
    for (const NamedJoinKind& named : kNamedJoinKinds) {
        BaselineCheck check(build, probe, named.kind, 1);
        check.cuts[0] = {rows / 5 + 1, 0, 37};
        for (const auto result : {JoinResultKind::kRows, JoinResultKind::kSums, JoinResultKind::kCount}) {
            if (!full_suite() && ++turn % 3 != 0) continue;
            BaselineSpec spec = check.spec(result, ample_sizes(rows, 4, rows / 2 + 1));
            spec.shares = kMixed;
            spec.coherent.group_rows = group_rows;
            spec.coherent.chunks = static_cast<uint32_t>(rows / 16 + 8);
            check.expect(kCoherent, spec,
                         what + ", " + named.name + ", result " + std::to_string(static_cast<int>(result)));
        }
    }
}

}  // namespace

GPU_TEST("coherent join of two words: every kind, with rows that have no key") {
    const uint64_t rows = small_or_full(900, 6000);
    for (const double null_share : {0.0, 0.1}) {
        const KeyedRelation build = two_words(rows, 30, 40, test_seed(), null_share);
        const KeyedRelation probe = two_words(2 * rows, 33, 40, test_seed() + 1, null_share);
        check_kinds(build, probe, rows / 3, "few values a word, NULLs: " + std::to_string(null_share));
    }
}

// One bucket has all rows, and one partition, which comes in parts.
GPU_TEST("coherent join of two words: one first word") {
    const uint64_t rows = small_or_full(300, 1500);
    for (const uint64_t others : {uint64_t{2}, rows}) {
        const KeyedRelation build = two_words(rows, 1, others, test_seed(), 0);
        const KeyedRelation probe = two_words(rows, 1, others, test_seed() + 1, 0);
        check_kinds(build, probe, rows / 4, std::to_string(others) + " second words");
    }
}

}  // namespace spillway::gpu_test
