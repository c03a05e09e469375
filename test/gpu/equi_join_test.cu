// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "equi_join/equi_join.hpp"
#include "gpu_test.hpp"
#include "support/join_check.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::EquiJoin;
using cuda::JoinEmit;
using cuda::JoinKind;

struct NamedKind {
    const char* name;
    JoinKind kind;
};

// The build side is the left one.
constexpr NamedKind kKinds[] = {{"inner", {}},
                                {"build outer", {JoinEmit::kPairs, false, true, false}},
                                {"probe outer", {JoinEmit::kPairs, false, false, true}},
                                {"full outer", {JoinEmit::kPairs, false, true, true}},
                                {"build semi", {JoinEmit::kBuildOnce, false, false, false}},
                                {"build anti", {JoinEmit::kBuildOnce, true, false, false}},
                                {"probe semi", {JoinEmit::kProbeOnce, false, false, false}},
                                {"probe anti", {JoinEmit::kProbeOnce, true, false, false}}};

using RowPairs = std::vector<std::pair<uint64_t, uint64_t>>;

RowPairs pairs_of(const HostTable& build, const HostTable& probe, const JoinKind& kind) {
    if (kind.emit == JoinEmit::kPairs) {
        const JoinType type = kind.keep_unmatched_build
                                  ? (kind.keep_unmatched_probe ? JoinType::kFull : JoinType::kLeft)
                              : kind.keep_unmatched_probe ? JoinType::kRight
                                                          : JoinType::kInner;
        return reference_pairs(build, probe, {0}, {0}, type);
    }
    const JoinType type = kind.anti ? JoinType::kAnti : JoinType::kSemi;
    if (kind.emit == JoinEmit::kBuildOnce) return reference_pairs(build, probe, {0}, {0}, type);
    RowPairs pairs = reference_pairs(probe, build, {0}, {0}, type);
    for (auto& pair : pairs) std::swap(pair.first, pair.second);
    return pairs;
}

// Key, presence, columns of the build side, of the probe side; zeros where a row is missing.
HostTable expected_table(const KeyedRelation& build, const KeyedRelation& probe, const JoinKind& kind) {
    const RowPairs pairs = pairs_of(build.host(), probe.host(), kind);
    HostTable table;
    HostColumn key;
    HostColumn presence;
    key.width = build.host().columns[0].width;
    presence.width = 1;
    const std::vector<uint8_t> zeros(16);
    for (const auto& [b, p] : pairs) {
        const HostColumn& from = p != kNoRow ? probe.host().columns[0] : build.host().columns[0];
        const uint64_t row = p != kNoRow ? p : b;
        const bool keyed = from.is_valid(row);
        key.push_bytes(keyed ? from.bytes.data() + row * from.width : zeros.data());
        presence.push(static_cast<uint8_t>((b != kNoRow ? cuda::kBuildPresent : 0) |
                                           (p != kNoRow ? cuda::kProbePresent : 0) | (keyed ? cuda::kKeyPresent : 0)));
    }
    table.columns = {key, presence};
    const auto append = [&](const HostTable& side, bool of_build) {
        for (size_t c = 1; c < side.columns.size(); ++c) {
            HostColumn out;
            out.width = side.columns[c].width;
            for (const auto& pair : pairs) {
                const uint64_t row = of_build ? pair.first : pair.second;
                out.push_bytes(row == kNoRow ? zeros.data() : side.columns[c].bytes.data() + row * out.width);
            }
            table.columns.push_back(std::move(out));
        }
    };
    append(build.host(), true);
    append(probe.host(), false);
    return table;
}

void check_kinds(const KeyedRelation& build, const KeyedRelation& probe, int radix_bits, const std::string& what) {
    for (const NamedKind& named : kKinds) {
        EquiJoin join;
        join.kind = named.kind;
        join.radix_bits = radix_bits;
        join.output = all_columns(build, probe);
        join.output.insert(join.output.begin() + 1, {OutputSide::kPresence, 0});
        const HostTable expected = expected_table(build, probe, named.kind);
        const std::string text = what + ", " + named.name;
        CHECK_EQ(cuda::equi_join_count(test_device(), build.device(), probe.device(), join), expected.rows());
        for (const uint64_t expected_rows : {expected.rows(), uint64_t{0}}) {
            join.expected_rows = expected_rows;
            check_result(cuda::equi_join(test_device(), build.device(), probe.device(), join), expected, text);
        }
    }
}

}  // namespace

GPU_TEST("equi join: every kind, NULL keys, radix bits that chains hold keys for and others") {
    const uint64_t rows = small_or_full(150, 20000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    const auto foreign = foreign_keys(keys, 2 * rows, 0.5, test_seed());
    for (const uint32_t key_width : {4U, 8U}) {
        const KeyedRelation build(keys, key_width, {4, 1, 8}, test_seed(), 0.1);
        const KeyedRelation probe(foreign, key_width, {4, 4}, test_seed() + 1, 0.2);
        for (const int bits : {-1, 5, 15}) {
            if (!full_suite() && bits == -1) continue;
            check_kinds(build, probe, bits, "bits " + std::to_string(bits));
        }
    }
}

GPU_TEST("equi join: every kind with repeated keys, one hot key, empty and tiny sides") {
    const uint64_t distinct = small_or_full(100, 3000);
    const std::vector<uint64_t> keys = sparse_keys(distinct, test_seed());
    const auto others = foreign_keys(keys, distinct, 0.6, test_seed());
    check_kinds(KeyedRelation(repeated_keys(keys, 5, test_seed()), 4, {2, 4}, test_seed()),
                KeyedRelation(repeated_keys(others, 3, test_seed()), 4, {8}, test_seed()), 14, "m:n");
    const std::vector<uint64_t> hot(small_or_full(9000, 40000), 7);
    const std::vector<uint64_t> few = {7, 8, 7, 9};
    check_kinds(KeyedRelation(hot, 4, {4}, test_seed()), KeyedRelation(few, 4, {4}, test_seed()), 3, "hot build key");
    check_kinds(KeyedRelation(few, 8, {4}, test_seed()), KeyedRelation(hot, 8, {4}, test_seed()), 3, "hot probe key");
    for (const uint64_t build_rows : {0, 1, 3}) {
        for (const uint64_t probe_rows : {0, 1, 40}) {
            check_kinds(KeyedRelation(dense_permutation(build_rows, test_seed()), 4, {4}, test_seed()),
                        KeyedRelation(dense_permutation(probe_rows, test_seed()), 4, {4}, test_seed()), -1, "tiny");
        }
    }
}

GPU_TEST("equi join: columns twice, bytes in one word, no-partitioning joins by name") {
    const std::vector<uint64_t> keys = dense_permutation(small_or_full(500, 5000), test_seed());
    const KeyedRelation build(keys, 4, {1, 2, 1, 4}, test_seed());
    const KeyedRelation probe(keys, 4, {1, 1, 1, 1, 2, 8}, test_seed() + 1);
    check_kinds(build, probe, 4, "narrow columns");
    EquiJoin join;
    join.output = all_columns(build, probe);
    join.expected_rows = keys.size();
    for (const auto algorithm : {cuda::JoinAlgorithm::kNoPartitioning, cuda::JoinAlgorithm::kPerfectHash}) {
        join.algorithm = algorithm;
        join.key_range = keys.size();
        check_result(cuda::equi_join(test_device(), build.device(), probe.device(), join), expected_rows(build, probe),
                     "by name");
        CHECK_EQ(cuda::equi_join_count(test_device(), build.device(), probe.device(), join), keys.size());
    }
    join.kind.keep_unmatched_build = true;
    CHECK_THROWS(cuda::equi_join(test_device(), build.device(), probe.device(), join), cuda::ErrorCode::kInvalid);
    join = {};
    join.output = {{OutputSide::kBuild, 3}, {OutputSide::kKey, 0}, {OutputSide::kBuild, 3}, {OutputSide::kProbe, 5}};
    const cuda::JoinResult twice = cuda::equi_join(test_device(), build.device(), probe.device(), join);
    CHECK_EQ(twice.rows, keys.size());
    CHECK(download(twice.columns[0].as<uint32_t>(), twice.rows) ==
          download(twice.columns[2].as<uint32_t>(), twice.rows));
}

}  // namespace spillway::gpu_test
