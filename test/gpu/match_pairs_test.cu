// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "materialize/gather_rows.hpp"
#include "materialize/match_pairs.hpp"
#include "materialize/row_list.hpp"
#include "support/join_kinds.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::MatchPairs;
using cuda::MatchWish;

// A finder that knows the answer: pairs and marks from the reference join.
class KnownMatches {
  public:
    KnownMatches(const KeyedRelation& build, const KeyedRelation& probe, uint32_t row_width)
        : pairs_(pairs_of(build.host(), probe.host(), {})), row_width_(row_width) {}

    MatchPairs operator()(const MatchWish& wish) const {
        std::vector<uint64_t> rows[2];
        for (const auto& [b, p] : pairs_) {
            rows[0].push_back(b);
            rows[1].push_back(p);
        }
        MatchPairs found;
        found.count = pairs_.size();
        found.build_width = row_width_;
        found.probe_width = row_width_;
        cuda::Allocation numbers[2] = {numbers_of(rows[0]), numbers_of(rows[1])};
        uint32_t* const marks[2] = {wish.build_marks, wish.probe_marks};
        for (int side = 0; side < 2; ++side) {
            if (marks[side] == nullptr) continue;
            cuda::mark_rows(test_device(), {numbers[side].as(), row_width_, found.count}, marks[side]);
        }
        if (wish.pairs) {
            found.build_rows = std::move(numbers[0]);
            found.probe_rows = std::move(numbers[1]);
        }
        return found;
    }

  private:
    cuda::Allocation numbers_of(const std::vector<uint64_t>& rows) const {
        cuda::Allocation numbers = test_device().memory().allocate(rows.size() * row_width_, "pairs of a test");
        test_device().synchronize();  // nobody uses the block any more
        const std::vector<uint32_t> narrow(rows.begin(), rows.end());
        const void* const from = row_width_ == 4 ? static_cast<const void*>(narrow.data()) : rows.data();
        copy_to_device(numbers.as(), from, rows.size() * row_width_);
        return numbers;
    }

    const RowPairs pairs_;
    const uint32_t row_width_;
};

void check_pairs(const KeyedRelation& build, const KeyedRelation& probe, uint32_t row_width, const std::string& what) {
    const KnownMatches match(build, probe, row_width);
    for (const NamedJoinKind& named : kNamedJoinKinds) {
        const uint64_t blocks = test_device().memory().blocks();
        const HostTable expected = expected_table(build, probe, named.kind);
        CHECK_EQ(cuda::count_pairs(test_device(), build.device(), probe.device(), named.kind, match), expected.rows());
        check_result(cuda::materialize_pairs(test_device(), build.device(), probe.device(), named.kind,
                                             all_columns_and_presence(build, probe), match),
                     expected, what + ", " + named.name);
        CHECK_EQ(test_device().memory().blocks(), blocks);
    }
}

}  // namespace

GPU_TEST("match pairs: every kind, columns of every width, row numbers of both widths, NULL keys") {
    const uint64_t rows = small_or_full(700, 20000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    const auto foreign = foreign_keys(keys, 2 * rows, 0.5, test_seed());
    for (const uint32_t key_width : {4U, 8U}) {
        const KeyedRelation build(keys, key_width, {1, 2, 4, 8, 16, kRowNumber4}, test_seed(), 0.2);
        const KeyedRelation probe(foreign, key_width, {16, kRowNumber8, 1}, test_seed() + 1, 0.1);
        check_pairs(build, probe, 12 - key_width, "wide columns");
        check_pairs(KeyedRelation(keys, key_width, {4}, test_seed()),
                    KeyedRelation(foreign, key_width, {}, test_seed()), key_width, "no NULL keys");
    }
    for (const uint64_t build_rows : {0, 1, 33}) {
        for (const uint64_t probe_rows : {0, 1, 32}) {
            check_pairs(KeyedRelation(dense_permutation(build_rows, test_seed()), 4, {2}, test_seed()),
                        KeyedRelation(dense_permutation(probe_rows, test_seed()), 4, {4}, test_seed()), 4, "tiny");
        }
    }
}

GPU_TEST("match pairs: no more is asked for than a kind needs, and bad arguments are refused") {
    const KeyedRelation build({1, 2, 3}, 4, {4}, test_seed());
    const KeyedRelation probe({2, 3, 4, 5}, 4, {8}, test_seed());
    for (const NamedJoinKind& named : kNamedJoinKinds) {
        const bool pairs = named.kind.emit == JoinEmit::kPairs;
        int asked = 0;
        const KnownMatches known(build, probe, 4);
        cuda::materialize_pairs(
            test_device(), build.device(), probe.device(), named.kind, {}, [&](const MatchWish& wish) {
                ++asked;
                CHECK_EQ(wish.pairs, pairs);
                CHECK_EQ(wish.build_marks != nullptr,
                         named.kind.keep_unmatched_build || named.kind.emit == JoinEmit::kBuildOnce);
                CHECK_EQ(wish.probe_marks != nullptr,
                         named.kind.keep_unmatched_probe || named.kind.emit == JoinEmit::kProbeOnce);
                return known(wish);
            });
        CHECK_EQ(asked, 1);
    }
    const auto refused = [&](const cuda::DeviceRelation& left, const std::vector<JoinOutputColumn>& output) {
        cuda::materialize_pairs(test_device(), left, probe.device(), {}, output, KnownMatches(build, probe, 4));
    };
    CHECK_THROWS(refused(build.device(), {{OutputSide::kBuild, 1}}), cuda::ErrorCode::kInvalid);
    cuda::DeviceRelation bad = build.device();
    bad.columns[0] = {nullptr, 2};
    CHECK_THROWS(refused(bad, {{OutputSide::kBuild, 0}}), cuda::ErrorCode::kInvalid);
    bad.key.width = 8;
    CHECK_THROWS(refused(bad, {}), cuda::ErrorCode::kInvalid);
}

GPU_TEST("match pairs: rows are listed in their order by either value of their bits") {
    for (const uint64_t rows : {0, 1, 31, 32, 33, 1023, 1024, 1025, 9000}) {
        std::vector<uint8_t> bits = null_mask(rows, 0.3, test_seed());
        bits.resize((bits.size() + 3) / 4 * 4, 0xff);
        const DeviceArray<uint8_t> words = upload(bits);
        for (const bool set : {false, true}) {
            std::vector<uint64_t> expected;
            for (uint64_t row = 0; row < rows; ++row) {
                if (get_bit(bits.data(), static_cast<int64_t>(row)) == set) expected.push_back(row);
            }
            const cuda::RowBits chosen{reinterpret_cast<const uint32_t*>(words.data()), rows, set};
            CHECK_EQ(cuda::count_rows(test_device(), chosen), expected.size());
            const cuda::RowList wide = cuda::list_rows(test_device(), chosen, 8);
            CHECK(download(wide.rows.as<uint64_t>(), wide.count) == expected);
            const cuda::RowList narrow = cuda::list_rows(test_device(), chosen, 4);
            CHECK(download(narrow.rows.as<uint32_t>(), narrow.count) ==
                  std::vector<uint32_t>(expected.begin(), expected.end()));
        }
    }
}

}  // namespace spillway::gpu_test
