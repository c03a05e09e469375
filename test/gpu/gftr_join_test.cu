// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "gftr_join/gftr_join.hpp"
#include "gftr_join/partitioned_side.hpp"
#include "gpu_test.hpp"
#include "support/pair_join_cases.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::JoinAlgorithm;

void check_gftr(const KeyedRelation& build, const KeyedRelation& probe, const std::vector<int>& radix_bits,
                const JoinKind& kind, const std::string& what) {
    const HostTable expected = expected_table(build, probe, kind);
    const auto output = all_columns_and_presence(build, probe);
    const uint64_t blocks = test_device().memory().blocks();
    for (const int bits : radix_bits) {
        for (const bool wide : {false, true}) {
            if (!full_suite() && wide != (build.device().key.width == 8)) continue;
            PairJoinOptions options = with_radix_bits(bits);
            options.wide_row_numbers = wide;
            options.plan = wide ? OutputPlan::kCountFirst : OutputPlan::kOnePass;
            options.expected_rows = bits % 2 == 0 ? expected.rows() : 0;
            const std::string text = what + ", bits " + std::to_string(bits) + (wide ? ", 64-bit row numbers" : "");
            check_result(cuda::gftr_join(test_device(), build.device(), probe.device(), kind, output, options),
                         expected, text);
            CHECK_EQ(cuda::gftr_count(test_device(), build.device(), probe.device(), kind, options), expected.rows());
        }
    }
    CHECK_EQ(test_device().memory().blocks(), blocks);
}

const JoinKind kInnerKind = kNamedJoinKinds[0].kind;
const JoinKind kFullKind = kNamedJoinKinds[3].kind;

std::vector<uint32_t> widths_of(uint64_t columns) {
    constexpr uint32_t kWidths[] = {4, 8, 1, 16, 2, kRowNumber4, 4, kRowNumber8};
    std::vector<uint32_t> widths;
    for (uint64_t c = 0; c < columns; ++c) widths.push_back(kWidths[(c + test_seed()) % 8]);
    return widths;
}

uint64_t number_at(const std::vector<uint8_t>& bytes, uint32_t width, uint64_t row) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + row * width, width);
    return value;
}

}  // namespace

GPU_TEST("gftr join: every kind by name, payloads of every width") {
    check_kinds_and_payloads(JoinAlgorithm::kGftrColumns);
}

GPU_TEST("gftr join: match ratios, NULL keys, key widths, radix bits of one pass and of two") {
    const uint64_t rows = small_or_full(1200, 50000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    const std::vector<int> bits = full_suite() ? std::vector<int>{-1, 0, 1, 8, 9, 15, 16} : std::vector<int>{0, 9};
    for (const uint32_t key_width : {4U, 8U}) {
        if (watched_suite() && key_width == 8) continue;
        for (const double share : {0.0, 0.25, 1.0}) {
            const auto foreign = foreign_keys(keys, 2 * rows, share, test_seed());
            const KeyedRelation build(keys, key_width, {4, 16}, test_seed(), share == 0 ? 0 : 0.1);
            const KeyedRelation probe(foreign, key_width, {8}, test_seed() + 1, share == 1.0 ? 0 : 0.3);
            check_gftr(build, probe, bits, kInnerKind, "match ratio " + std::to_string(share));
            check_gftr(build, probe, {9}, kFullKind, "full, match ratio " + std::to_string(share));
        }
        const KeyedRelation nobody(keys, key_width, {4}, test_seed(), 1.0);
        const KeyedRelation some(keys, key_width, {2}, test_seed());
        check_gftr(nobody, some, {3}, kFullKind, "no build key");
        check_gftr(some, nobody, {3}, kFullKind, "no probe key");
    }
    std::vector<uint64_t> extremes = {0, ~0ULL, 1, ~1ULL, 0x80000000ULL, 0x7fffffffULL, 0xffffffffULL, 1ULL << 63};
    extremes = repeated_keys(extremes, 3, test_seed());
    const KeyedRelation special(extremes, 8, {1}, test_seed());
    check_gftr(special, special, {0, 9}, kFullKind, "extremes");
}

GPU_TEST("gftr join: one to twenty-four columns a side") {
    const uint64_t rows = small_or_full(300, 20000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    const auto foreign = foreign_keys(keys, rows, 0.7, test_seed());
    for (const uint64_t columns : {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{5}, uint64_t{9}, uint64_t{24}}) {
        if (!full_suite() && columns != 0 && columns != 9) continue;
        for (const uint32_t key_width : {4U, 8U}) {
            const KeyedRelation build(keys, key_width, widths_of(columns), test_seed(), 0.1);
            const KeyedRelation probe(foreign, key_width, widths_of(24 - columns), test_seed() + 1, 0.1);
            check_gftr(build, probe, {-1, 11}, columns % 2 == 0 ? kInnerKind : kFullKind,
                       std::to_string(columns) + " columns");
        }
    }
}

GPU_TEST("gftr join: repeated keys, Zipf, hot keys on each side and on both") {
    const uint64_t distinct = small_or_full(150, 4000);
    const std::vector<uint64_t> keys = sparse_keys(distinct, test_seed());
    for (const uint32_t key_width : {4U, 8U}) {
        check_gftr(KeyedRelation(repeated_keys(keys, 5, test_seed()), key_width, {4, 2}, test_seed()),
                   KeyedRelation(repeated_keys(keys, 7, test_seed() + 1), key_width, {8, 4}, test_seed()), {-1, 9},
                   kInnerKind, "m:n");
    }
    for (const double exponent : {1.0, 2.0}) {
        const auto skewed = zipf_keys(distinct * 20, distinct, exponent, test_seed());
        check_gftr(KeyedRelation(dense_permutation(distinct, test_seed()), 4, {4}, test_seed()),
                   KeyedRelation(skewed, 4, {4, 4}, test_seed()), {-1, 9}, kFullKind,
                   "Zipf " + std::to_string(exponent));
    }
    const std::vector<uint64_t> few = {7, 8, 7, 9};
    const std::vector<uint64_t> build_hot(2 * cuda::kBuildPartTuples + small_or_full(3, 5000), 7);
    const std::vector<uint64_t> probe_hot(cuda::kProbePartTuples + small_or_full(3, 50000), 7);
    const std::vector<uint64_t> some(small_or_full(20, 300), 7);
    check_gftr(KeyedRelation(build_hot, 4, {4}, test_seed()), KeyedRelation(few, 4, {4}, test_seed()), {0, 9},
               kFullKind, "hot build key");
    check_gftr(KeyedRelation(few, 8, {4}, test_seed()), KeyedRelation(probe_hot, 8, {4}, test_seed()), {9}, kFullKind,
               "hot probe key");
    check_gftr(KeyedRelation(build_hot, 8, {4}, test_seed()), KeyedRelation(some, 8, {4}, test_seed()), {3}, kInnerKind,
               "hot on both sides");
}

GPU_TEST("gftr join: empty and tiny sides") {
    for (const uint64_t build_rows : {0, 1, 33}) {
        for (const uint64_t probe_rows : {0, 1, 70}) {
            const KeyedRelation build(dense_permutation(build_rows, test_seed()), 4, {4}, test_seed());
            const KeyedRelation probe(dense_permutation(probe_rows, test_seed()), 4, {8}, test_seed());
            for (const NamedJoinKind& named : kNamedJoinKinds) {
                check_gftr(build, probe, {-1, 16}, named.kind, std::string("tiny, ") + named.name);
            }
        }
    }
}

GPU_TEST("gftr join: columns come out in one order, whenever they are partitioned, and rows of a partition in theirs") {
    const uint64_t rows = small_or_full(3000, 300000);
    const std::vector<uint64_t> keys = zipf_keys(rows, rows / 8, 0.7, test_seed());
    for (const double null_share : {0.0, 0.2}) {
        for (const uint32_t key_width : {4U, 8U}) {
            const std::vector<uint32_t> widths = {kRowNumber8, 1, 2, 4, 8, 16, kRowNumber4};
            const KeyedRelation relation(keys, key_width, widths, test_seed(), null_share);
            const int bits = null_share > 0 ? 6 : 13;
            cuda::PartitionedSide side(test_device(), relation.device(), 4, true);
            cuda::PartitionedTuples tuples = side.partition(0, bits);
            const uint64_t keyed = tuples.relation_rows;
            const auto begin = download(tuples.begin.as<uint64_t>(), tuples.partitions() + 1);
            const auto sizes = download(tuples.sizes.as<uint64_t>(), tuples.partitions());
            const auto mixed = download(tuples.keys.as<uint8_t>(), keyed * key_width);
            std::vector<std::vector<uint8_t>> columns;
            for (size_t c = 0; c < widths.size(); ++c) {
                const cuda::DeviceColumn column = side.column(static_cast<int>(c));
                test_device().synchronize();
                columns.push_back(download(static_cast<const uint8_t*>(column.data), rows * column.width));
            }
            side.keep_keys(std::move(tuples.keys));
            const void* const plain_keys = side.key().data;
            test_device().synchronize();
            const auto plain = download(static_cast<const uint8_t*>(plain_keys), rows * key_width);
            CHECK_EQ(side.relation().rows, rows);
            CHECK_EQ(begin.back(), keyed);
            for (uint64_t p = 0; p < tuples.partitions(); ++p) {
                CHECK_EQ(begin[p + 1] - begin[p], sizes[p]);
                for (uint64_t at = begin[p]; at < begin[p + 1]; ++at) {
                    CHECK_EQ(number_at(mixed, key_width, at) >> (8 * key_width - bits), p);
                    // Stable: row numbers rise within a partition.
                    if (at > begin[p]) CHECK(number_at(columns[0], 8, at - 1) < number_at(columns[0], 8, at));
                }
            }
            for (uint64_t at = 0; at < rows; ++at) {
                const uint64_t row = number_at(columns[0], 8, at);
                CHECK_EQ(relation.host().columns[0].is_valid(row), at < keyed);
                if (at < keyed) CHECK_EQ(number_at(plain, key_width, at), key_of_row(relation, row));
                for (size_t c = 1; c < columns.size(); ++c) {
                    const HostColumn& from = relation.host().columns[c + 1];
                    CHECK(std::memcmp(columns[c].data() + at * from.width, from.bytes.data() + row * from.width,
                                      from.width) == 0);
                }
            }
        }
    }
}

GPU_TEST("gftr join: the memory of one column at a time, however many there are") {
    const uint64_t rows = small_or_full(20000, 1000000);
    const std::vector<uint64_t> keys = dense_permutation(rows, test_seed());
    const auto peak_less_result = [&](uint64_t columns) {
        cuda::Device device(test_device().ordinal(), 0);
        const KeyedRelation build(keys, 4, std::vector<uint32_t>(columns, 4), test_seed());
        const KeyedRelation probe(keys, 4, std::vector<uint32_t>(columns, 4), test_seed() + 1);
        PairJoinOptions options;
        options.expected_rows = rows;
        device.memory().reset_peak();
        const cuda::JoinResult result =
            cuda::gftr_join(device, build.device(), probe.device(), {}, all_columns(build, probe), options);
        CHECK_EQ(result.rows, rows);
        return device.memory().peak_bytes() - result.columns.size() * rows * 4;
    };
    const uint64_t two = peak_less_result(2);
    const uint64_t twelve = peak_less_result(12);
    // The result is there in part while columns are made, so that less of it adds to the peak than was taken off.
    if (twelve > two + rows * 4) fail("more columns take more memory beside their result", __FILE__, __LINE__);
}

GPU_TEST("gftr join: arguments that no caller may give") {
    const KeyedRelation narrow({1, 2, 3}, 4, {4}, test_seed());
    const KeyedRelation wide({1, 2, 3}, 8, {4}, test_seed());
    const auto join = [&](const cuda::DeviceRelation& build, uint32_t column, const PairJoinOptions& options) {
        cuda::gftr_join(test_device(), build, narrow.device(), {}, {{cuda::OutputSide::kBuild, column}}, options);
    };
    CHECK_THROWS(join(wide.device(), 0, {}), cuda::ErrorCode::kInvalid);
    CHECK_THROWS(join(narrow.device(), 1, {}), cuda::ErrorCode::kInvalid);
    CHECK_THROWS(join(narrow.device(), 0, with_radix_bits(cuda::kTupleRadixBitsMax + 1)), cuda::ErrorCode::kInvalid);
    cuda::DeviceRelation bad = narrow.device();
    bad.columns[0].width = 3;
    CHECK_THROWS(join(bad, 0, {}), cuda::ErrorCode::kInvalid);
    bad = narrow.device();
    bad.columns[0] = {nullptr, 2};
    CHECK_THROWS(join(bad, 0, {}), cuda::ErrorCode::kInvalid);
    bad = narrow.device();
    bad.key.data = nullptr;
    CHECK_THROWS(join(bad, 0, {}), cuda::ErrorCode::kInvalid);
}

}  // namespace spillway::gpu_test
