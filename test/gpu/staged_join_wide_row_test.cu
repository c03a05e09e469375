// SPDX-License-Identifier: Apache-2.0
// Joins beyond GPU memory of rows that are wider than what kernels keep in registers, up to kJoinWordsMax words.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "support/error_of.hpp"
#include "support/group_by_check.hpp"
#include "support/staged_join_check.hpp"

namespace spillway::gpu_test {

namespace {

using Widths = std::vector<uint32_t>;

KeyedRelation relation_of(uint64_t rows, uint64_t keys, const Widths& widths, uint64_t seed) {
    HostTable table;
    table.columns.push_back(column_of(drawn_keys(rows, keys, seed), null_mask(rows, 0.05, seed)));
    for (size_t c = 0; c < widths.size(); ++c) table.columns.push_back(payload_column(rows, widths[c], seed, c + 1));
    return KeyedRelation(std::move(table));
}

}  // namespace

GPU_TEST("staged join of wide rows: every kind, 9 to 32 words a row") {
    const Widths eights(15, 8);
    const Widths fours(28, 4);
    const Widths mixed = {16, 1, 8, 2, 16, 4, 1, 16, 8};
    const Widths one_more = {8, 8, 8, 1};
    const std::vector<std::pair<Widths, Widths>> shapes = {
        {one_more, {}}, {mixed, one_more}, {fours, mixed}, {{8}, eights}, {eights, fours}};
    const uint64_t rows = small_or_full(700, 3000);
    size_t turn = test_seed();
    for (const auto& [build_widths, probe_widths] : shapes) {
        const KeyedRelation build = relation_of(rows, rows / 2, build_widths, test_seed() + turn);
        const KeyedRelation probe = relation_of(2 * rows, rows / 2, probe_widths, test_seed() + turn + 1);
        for (const NamedJoinKind& named : kNamedJoinKinds) {
            if (++turn % (full_suite() ? 2 : 4) != 0) continue;
            const StagedJoinCheck check(build, probe, named.kind);
            const std::string of = std::string(named.name) + ", " + std::to_string(build_widths.size()) + " and " +
                                   std::to_string(probe_widths.size()) + " columns";
            check.all(ample_sizes(rows, 3), of + ", all resident");
            check.all(spilled_sizes(rows, 3, 3), of + ", some partitions resident");
            check.all(least_sizes(2), of + ", least pages");
        }
    }
}

// Regions of the index are larger than what a block holds of such rows in shared memory.
GPU_TEST("staged join of wide rows: one key, and large partitions") {
    const Widths eights(15, 8);
    const uint64_t rows = small_or_full(20'000, 300'000);
    const KeyedRelation build = relation_of(rows, rows, eights, test_seed());
    const KeyedRelation probe = relation_of(rows, rows, eights, test_seed() + 1);
    const cuda::JoinKind inner = kNamedJoinKinds[0].kind;
    StagedJoinCheck(build, probe, inner).all(ample_sizes(rows, 0, 8192, 1024), "no partitions");
    StagedJoinCheck(build, probe, inner).all(ample_sizes(rows, 9, 8192, 64), "two passes");
    const KeyedRelation hot = relation_of(300, 1, eights, test_seed());
    StagedJoinCheck(hot, hot, inner).all(least_sizes(2), "one key");
}

GPU_TEST("staged join of wide rows: wider ones are refused") {
    StagedJoinSpec spec;
    spec.key_bytes = 8;
    for (int i = 0; i < 15; ++i) spec.widths[0].push_back(8);
    spec.result = JoinResultKind::kCount;
    spec.sizes = ample_sizes(100, 2);
    { StagedJoin join(test_device(), spec); }
    spec.widths[0].push_back(1);
    CHECK_EQ(error_of([&] { StagedJoin join(test_device(), spec); }).code(), cuda::ErrorCode::kInvalid);
}

}  // namespace spillway::gpu_test
