// SPDX-License-Identifier: Apache-2.0
// The join by kernels that read and write far memory themselves: results for every partitioner, mix of tiers and shape
// of keys, bytes that pass the link, refusals. That all memory comes back from every failing allocation is in
// baseline_join_failing_test.cu.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "coherent_join/coherent_join.hpp"
#include "gpu_test.hpp"
#include "support/coherent_check.hpp"
#include "support/error_of.hpp"
#include "support/join_kinds.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::ErrorCode;
using cuda::FarPartitioner;
using cuda::Tier;

// Where the partitioner's buffers have room for so many partitions.
int bits_of(FarPartitioner partitioner, int wanted) {
    return std::min(wanted, cuda::far_bits_max(test_device().properties(), partitioner, 8));
}

}  // namespace

GPU_TEST("coherent join: every partitioner, from no radix bits to 12") {
    const uint64_t rows = small_or_full(1001, 30011);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    const CoherentCheck check(keys, foreign_keys(keys, 2 * rows, 0.7, test_seed()));
    size_t turn = test_seed();
    for (int p = 0; p < cuda::kFarPartitioners; ++p) {
        for (const int wanted : {0, 1, 6, 12}) {
            if (!full_suite() && ++turn % 3 != 0) continue;
            const auto partitioner = static_cast<FarPartitioner>(p);
            // With 12 bits most partitions have one row, and a page.
            const uint64_t group_rows = wanted == 12 ? rows * kCoherentPageRows / 3 : rows / 3;
            BaselineSpec spec = check.spec(JoinResultKind::kRows, bits_of(partitioner, wanted), group_rows, kMixed);
            spec.coherent.partitioner = partitioner;
            check.all(spec, std::string(cuda::kFarPartitionerNames[p]) + ", " + std::to_string(wanted) + " bits");
        }
    }
}

GPU_TEST("coherent join: none, one, a page and a group of rows, one less and one more") {
    constexpr uint64_t kGroupRows = 4 * kCoherentPageRows;
    const std::vector<uint64_t> all_rows = full_suite()
                                               ? std::vector<uint64_t>{0,
                                                                       1,
                                                                       2,
                                                                       kCoherentPageRows - 1,
                                                                       kCoherentPageRows,
                                                                       kCoherentPageRows + 1,
                                                                       kGroupRows - 1,
                                                                       kGroupRows,
                                                                       kGroupRows + 1,
                                                                       1777}
                                               : std::vector<uint64_t>{0, 1, kCoherentPageRows, kGroupRows + 1};
    for (const uint64_t build_rows : all_rows) {
        for (const uint64_t probe_rows : all_rows) {
            const std::vector<uint64_t> keys = sparse_keys(build_rows, test_seed());
            const CoherentCheck check(keys, foreign_keys(keys, probe_rows, 0.8, test_seed()));
            const int radix_bits = static_cast<int>(build_rows + probe_rows) % 2 * 2;
            check.all(check.spec(JoinResultKind::kRows, radix_bits, kGroupRows, kMixed),
                      std::to_string(build_rows) + " x " + std::to_string(probe_rows) + " rows");
        }
    }
}

GPU_TEST("coherent join: m:n, a hot key, partitions larger than a group, keys of 4 and 8 bytes") {
    const uint64_t rows = small_or_full(1200, 12000);
    for (const uint32_t width : {4U, 8U}) {
        const std::string what = "keys of " + std::to_string(width) + " bytes";
        const std::vector<uint64_t> keys = sparse_keys(rows / 6, test_seed());
        const CoherentCheck many(repeated_keys(keys, 6, test_seed()), repeated_keys(keys, 5, test_seed() + 1), width);
        many.all(many.spec(JoinResultKind::kRows, 4, rows / 5, kMixed), "m:n, " + what);
        // Most partitions have rows of one side alone.
        const std::vector<uint64_t> seven(keys.begin(), keys.begin() + 7);
        const std::vector<uint64_t> others = foreign_keys(seven, rows, 0.3, test_seed());
        for (const CoherentCheck& few : {CoherentCheck(seven, others, width), CoherentCheck(others, seven, width)}) {
            few.all(few.spec(JoinResultKind::kRows, 6, rows / 5, kMixed), "seven keys, " + what);
        }
        const std::vector<uint64_t> hot = one_hot_key(rows, 0.1, test_seed());
        const CoherentCheck large(hot, foreign_keys(hot, rows, 0.9, test_seed()), width);
        // The partition of the hot key comes in parts, between others that fit a group.
        large.all(large.spec(JoinResultKind::kRows, 5, rows / 20, kMixed), "a hot key, " + what);
        large.all(large.spec(JoinResultKind::kRows, 0, rows / 3, kFarOnly), "one partition in parts, " + what);
        // With 12 radix bits so much of a 4-byte key is known that the chains of a block's table hold the rest.
        BaselineSpec fine =
            many.spec(JoinResultKind::kSums, bits_of(FarPartitioner::kLinear, 12), rows * kCoherentPageRows, kMixed);
        fine.coherent.partitioner = FarPartitioner::kLinear;
        many.expect(fine, "12 bits, " + what);
    }
}

GPU_TEST("coherent join: pages of either tier, of both in turns, of what is free") {
    const uint64_t rows = small_or_full(2000, 100000);
    const std::vector<uint64_t> keys = dense_permutation(rows, test_seed());
    const CoherentCheck check(keys, foreign_keys(keys, rows, 0.9, test_seed()));
    for (const cuda::StripeShares shares : {kFarOnly, kMixed, cuda::StripeShares{1, 0, 3}, kNearOnly, {}}) {
        const std::string what = std::to_string(shares.device) + ":" + std::to_string(shares.host);
        BaselineSpec spec = check.spec(JoinResultKind::kSums, 3, rows / 3, shares);
        spec.coherent.page_rows = full_suite() ? 1024 : 64;
        const BaselineOutcome outcome = check.run(spec);
        check.check().check(spec, outcome, what);
        const uint64_t far_rows = outcome.report.spilled_rows[0] + outcome.report.spilled_rows[1];
        if (shares.host == 0) CHECK_EQ(far_rows, 0);
        if (shares.device == 0 && shares.host > 0) CHECK_EQ(far_rows, 2 * rows);
        if (shares.device > 0 && shares.host > 0) {
            CHECK(far_rows > 0);
            CHECK(far_rows < 2 * rows);
        }
        // Every row passes the link once each way, and what is far once more.
        CHECK_EQ(outcome.report.h2d_bytes, (2 * rows + far_rows) * 16);
        CHECK_EQ(outcome.report.d2h_bytes, far_rows * 16);
    }
}

// As above, of one range of addresses: a machine whose driver maps no memory of the host has device stripes alone.
GPU_TEST("coherent join: pages of a mapped range") {
    const uint64_t rows = small_or_full(200'000, 2'000'000);  // several stripes of 2 MiB
    const std::vector<uint64_t> keys = dense_permutation(rows, test_seed());
    const CoherentCheck check(keys, foreign_keys(keys, rows, 0.9, test_seed()));
    for (const auto& [device, host] : {std::pair<uint32_t, uint32_t>{1, 1}, {1, 3}, {0, 1}, {1, 0}}) {
        for (const auto result : {JoinResultKind::kRows, JoinResultKind::kSums}) {
            BaselineSpec spec = check.spec(result, 3, rows / 3, host == 0 ? kNearOnly : far_shares(device, host));
            spec.coherent.page_rows = 4096;
            spec.coherent.mapped = true;
            const BaselineOutcome outcome = check.run(spec);
            check.check().check(spec, outcome, std::to_string(device) + ":" + std::to_string(host));
            const uint64_t far_rows = outcome.report.spilled_rows[0] + outcome.report.spilled_rows[1];
            CHECK_EQ(far_rows > 0, spec.shares.host > 0);
            CHECK_EQ(far_rows<2 * rows, spec.shares.device> 0);
        }
    }
    BaselineSpec spec = check.spec(JoinResultKind::kSums, 3, rows / 3, far_shares(0, 1));
    if (spec.shares.host == 0) return;
    spec.coherent.page_rows = 4096;
    spec.coherent.mapped = true;
    spec.join.sizes.spill_bytes = 2 << 20;
    const cuda::Error error = error_of([&] { check.run(spec); });
    CHECK_EQ(error.code(), ErrorCode::kOutOfMemory);
    CHECK(error.tier == Tier::kHost);
}

GPU_TEST("coherent join: shares of multiprocessors, chunks, times of stages") {
    const uint64_t rows = small_or_full(1500, 20000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    const CoherentCheck check(keys, foreign_keys(keys, 2 * rows, 0.8, test_seed()));
    for (const uint32_t grid : {1U, 7U, 1000U}) {
        BaselineSpec spec = check.spec(JoinResultKind::kRows, 3, rows / 4, kMixed);
        spec.coherent.partition_grid = spec.coherent.gather_grid = grid;
        spec.coherent.gather_alone = grid == 7;
        spec.coherent.gather_probe = grid == 7;
        check.all(spec, std::to_string(grid) + " blocks");
    }
    BaselineCheck chunks = check.check();
    chunks.cuts[0] = {1, 500, 0, 37};
    chunks.cuts[1] = {31, 0, 1000};
    BaselineSpec spec = check.spec(JoinResultKind::kRows, 2, rows / 4, kMixed);
    spec.coherent.chunks = static_cast<uint32_t>(rows / 50);
    chunks.expect(kCoherent, spec, "odd chunks");

    BaselineSpec sums = check.spec(JoinResultKind::kSums, 3, rows, kFarOnly);
    for (const bool second_pass : {true, false}) {
        sums.coherent.second_pass = second_pass;
        PinnedChunks build = check.check().chunks(0, sums.join.sizes);
        PinnedChunks probe = check.check().chunks(1, sums.join.sizes);
        const auto join = cuda::open_baseline_join(test_device(), kCoherent, sums);
        join->run(cuda::kBuildSide, build, nullptr);
        join->run(cuda::kProbeSide, probe, nullptr);
        std::vector<std::string> names;
        for (const cuda::PhaseTimer::Phase& stage : join->stages()) {
            names.push_back(stage.name);
            CHECK(stage.milliseconds >= 0);
        }
        CHECK(names == (second_pass ? std::vector<std::string>{"partition", "wait", "join"}
                                    : std::vector<std::string>{"gather", "wait", "index", "probe"}));
    }
}

GPU_TEST("coherent join: too little memory of either tier, more rows than it was made for") {
    const std::vector<uint64_t> keys = sparse_keys(2000, test_seed());
    const CoherentCheck check(keys, foreign_keys(keys, 2000, 0.9, test_seed()));
    cuda::Device device(test_device().ordinal(), 64 << 20, kAmpleBytes);
    const auto refusal_of = [&](const BaselineSpec& spec) {
        const cuda::Error error = error_of([&] { check.run(spec, device); });
        CHECK_EQ(device.memory().blocks(), 0);
        CHECK_EQ(device.staging().used_bytes(), 0);
        return error;
    };
    const BaselineSpec good = check.spec(JoinResultKind::kSums, 3, 512, kMixed);
    BaselineSpec spec = good;
    spec.build_rows = 64 << 20;  // half of 1 GiB and more
    const cuda::Error near = refusal_of(spec);
    CHECK_EQ(near.code(), ErrorCode::kOutOfMemory);
    CHECK(near.tier == Tier::kDevice);
    spec = good;
    spec.shares = kFarOnly;
    spec.join.sizes.spill_bytes = 64 << 10;  // of 4,000 rows of 16 bytes, and of their partitions' last pages
    const cuda::Error far = refusal_of(spec);
    CHECK_EQ(far.code(), ErrorCode::kOutOfMemory);
    CHECK(far.tier == Tier::kHost);
    CHECK_EQ(far.limit_bytes, 64 << 10);
    spec = good;
    spec.build_rows = 1999;
    CHECK_EQ(refusal_of(spec).code(), ErrorCode::kInvalid);
    spec = good;
    spec.probe_rows = 1999;
    CHECK_EQ(refusal_of(spec).code(), ErrorCode::kInvalid);
    for (const uint64_t page_rows : {uint64_t{4}, uint64_t{24}, uint64_t{1} << 18}) {
        spec = good;
        spec.coherent.page_rows = page_rows;
        CHECK_EQ(refusal_of(spec).code(), ErrorCode::kInvalid);
    }
    check.check().check(good, check.run(good, device), "after refusals");
}

GPU_TEST("coherent join: rows without a key, sides without a payload") {
    const uint64_t rows = small_or_full(700, 30000);
    size_t turn = test_seed();
    for (const uint32_t width : {4U, 8U}) {
        const std::vector<uint64_t> keys = repeated_keys(sparse_keys(rows / 3, test_seed()), 3, test_seed());
        const std::vector<uint64_t> foreign = foreign_keys(keys, 2 * rows, 0.9, test_seed());
        for (const std::vector<uint32_t>& of_build : {std::vector<uint32_t>{}, {width}}) {
            for (const double null_share : {0.0, 0.2, 1.0}) {
                const KeyedRelation build(keys, width, of_build, test_seed(), null_share);
                const KeyedRelation probe(foreign, width, {}, test_seed() + 1, null_share == 1 ? 0 : null_share);
                for (const bool swapped : {false, true}) {
                    const BaselineCheck check(swapped ? probe : build, swapped ? build : probe);
                    for (int p = 0; p < cuda::kFarPartitioners; ++p) {
                        if (!full_suite() && ++turn % 7 != 0) continue;
                        const auto result = turn % 2 == 0 ? JoinResultKind::kRows : JoinResultKind::kCount;
                        BaselineSpec spec = check.spec(result, ample_sizes(rows, 4, rows / 2));
                        spec.shares = kMixed;
                        spec.coherent.partitioner = static_cast<FarPartitioner>(p);
                        check.expect(kCoherent, spec,
                                     std::string(cuda::kFarPartitionerNames[p]) + ", " +
                                         std::to_string(of_build.size()) +
                                         " columns, NULLs: " + std::to_string(null_share));
                        if (full_suite()) ++turn;
                    }
                }
            }
        }
    }
}

// Rows without a key and without a partner on both sides, in pages of either tier.
GPU_TEST("coherent join: every kind, with rows that have no key") {
    const uint64_t rows = small_or_full(700, 30000);
    size_t turn = test_seed();
    for (const NamedJoinKind& named : kNamedJoinKinds) {
        for (const uint32_t width : {4U, 8U}) {
            const std::vector<uint64_t> keys = repeated_keys(sparse_keys(rows / 3, test_seed()), 3, test_seed());
            const std::vector<uint64_t> foreign = foreign_keys(keys, 2 * rows, 0.6, test_seed());
            for (const double null_share : {0.0, 0.2, 1.0}) {
                if (!full_suite() && ++turn % 3 != 0) continue;
                const KeyedRelation build(keys, width, {width}, test_seed(), null_share);
                const KeyedRelation probe(foreign, width, {width}, test_seed() + 1, null_share == 1 ? 0 : null_share);
                BaselineCheck check(build, probe, named.kind);
                check.cuts[0] = {rows / 2 + 1, 0, 37};
                check.cuts[1] = {31, rows};
                for (const auto result : {JoinResultKind::kRows, JoinResultKind::kSums, JoinResultKind::kCount}) {
                    BaselineSpec spec = check.spec(result, ample_sizes(2 * rows, 4, rows / 2));
                    spec.shares = kMixed;
                    spec.coherent.group_rows = rows / 5;
                    spec.coherent.chunks = static_cast<uint32_t>(rows);
                    check.expect(kCoherent, spec,
                                 std::string(named.name) + ", NULLs: " + std::to_string(null_share) + ", result " +
                                     std::to_string(static_cast<int>(result)));
                }
            }
        }
    }
}

GPU_TEST("coherent join: every kind of sides of which one has no rows, or none in a partition") {
    const std::vector<uint64_t> keys = sparse_keys(small_or_full(150, 4000), test_seed());
    const std::vector<uint64_t> seven(keys.begin(), keys.begin() + 7);
    for (const NamedJoinKind& named : kNamedJoinKinds) {
        for (const auto& [of_build, of_probe] : {std::pair<std::vector<uint64_t>, std::vector<uint64_t>>{{}, keys},
                                                 {keys, {}},
                                                 {{}, {}},
                                                 {seven, keys},
                                                 {keys, seven}}) {
            const KeyedRelation build(of_build, 8, {8}, test_seed());
            const KeyedRelation probe(of_probe, 8, {8}, test_seed() + 1);
            const BaselineCheck check(build, probe, named.kind);
            // More groups of build rows than are ahead at once, without a probe row between them.
            BaselineSpec spec = check.spec(JoinResultKind::kRows, ample_sizes(4000, 6, 4000));
            spec.coherent.group_rows = 32;
            spec.shares = kMixed;
            check.expect(kCoherent, spec,
                         std::string(named.name) + ", " + std::to_string(of_build.size()) + " x " +
                             std::to_string(of_probe.size()) + " rows");
        }
    }
}

// Build partitions in parts: probe rows are marked by one part after the other, all at once or a slice at a time.
GPU_TEST("coherent join: every kind of a hot key, whose partition comes in parts") {
    const uint64_t rows = small_or_full(600, 9000);
    const std::vector<uint64_t> hot = one_hot_key(rows, 0.1, test_seed());
    const std::vector<uint64_t> foreign = foreign_keys(hot, rows / 3, 0.6, test_seed());
    for (const NamedJoinKind& named : kNamedJoinKinds) {
        const KeyedRelation build(hot, 8, {8}, test_seed(), 0.05);
        const KeyedRelation probe(foreign, 8, {8}, test_seed() + 1, 0.05);
        const BaselineCheck check(build, probe, named.kind);
        for (const int radix_bits : {0, 3}) {
            for (const uint64_t marked_rows : {uint64_t{0}, rows / 20}) {
                for (const auto result : {JoinResultKind::kRows, JoinResultKind::kCount}) {
                    BaselineSpec spec = check.spec(result, ample_sizes(rows, radix_bits, rows / 2));
                    spec.shares = kMixed;
                    spec.coherent.group_rows = rows / 10;
                    spec.coherent.marked_rows = marked_rows;
                    check.expect(kCoherent, spec,
                                 std::string(named.name) + ", " + std::to_string(radix_bits) + " bits, marks of " +
                                     std::to_string(marked_rows) + " rows");
                }
            }
        }
    }
}

// Regions of the second pass of far more rows than a block has room for, 8,448 at most: with many keys, or one in half
// of them; in a partition that fits a group and in one that comes in parts.
GPU_TEST("coherent join: a third pass of counts and sums") {
    const uint64_t rows = small_or_full(100'000, 400'000);
    const std::vector<uint64_t> unique = sparse_keys(rows, test_seed());
    const std::vector<uint64_t> hot = one_hot_key(rows, 0.5, test_seed());
    for (const uint32_t width : {4U, 8U}) {
        for (const bool is_hot : {false, true}) {
            // Each probe row of a hot key has half of the build rows for partners.
            const std::vector<uint64_t>& keys = is_hot ? hot : unique;
            const CoherentCheck check(keys, foreign_keys(keys, is_hot ? 20 : rows, 0.8, test_seed()), width);
            for (const uint64_t group_rows : {2 * rows, rows / 4 * 3}) {
                BaselineSpec spec = check.spec(JoinResultKind::kSums, 0, group_rows, kMixed);
                spec.coherent.page_rows = 256;
                spec.coherent.split_bits = 1;
                check.expect(spec, std::to_string(width) + " bytes, groups of " + std::to_string(group_rows) + " rows");
            }
        }
    }
    const CoherentCheck check(unique, unique);
    BaselineSpec spec = check.spec(JoinResultKind::kCount, 0, 2 * rows, kFarOnly);
    spec.coherent.page_rows = 256;
    spec.coherent.split_bits = 1;
    PinnedChunks build = check.check().chunks(0, spec.join.sizes);
    PinnedChunks probe = check.check().chunks(1, spec.join.sizes);
    const auto join = cuda::open_baseline_join(test_device(), kCoherent, spec);
    join->run(cuda::kBuildSide, build, nullptr);
    join->run(cuda::kProbeSide, probe, nullptr);
    CHECK_EQ(join->report().result_rows, rows);
    const auto is_third = [](const cuda::PhaseTimer::Phase& stage) { return stage.name == std::string("third pass"); };
    const cuda::StageTimes stages = join->stages();
    CHECK(std::any_of(stages.begin(), stages.end(), is_third));
}

GPU_TEST("coherent join: tables of few buckets") {
    const uint64_t rows = small_or_full(30'000, 200'000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    for (const uint32_t width : {4U, 8U}) {
        const CoherentCheck check(repeated_keys(keys, 2, test_seed()), foreign_keys(keys, rows, 0.8, test_seed()),
                                  width);
        for (const uint32_t buckets : {16U, 19U, 2048U, 1U << 30}) {
            BaselineSpec spec = check.spec(JoinResultKind::kSums, 2, 2 * rows, kMixed);
            spec.coherent.page_rows = 256;
            spec.coherent.table_buckets = buckets;
            check.expect(spec, std::to_string(width) + " bytes, " + std::to_string(buckets) + " buckets");
        }
    }
    const CoherentCheck check(keys, keys);
    BaselineSpec spec = check.spec(JoinResultKind::kCount, 2, 2 * rows, kMixed);
    spec.coherent.page_rows = 256;
    spec.coherent.table_buckets = 15;
    CHECK_EQ(error_of([&] { check.run(spec); }).code(), ErrorCode::kInvalid);
}

GPU_TEST("coherent join: as many pages in GPU memory as it may take") {
    const uint64_t rows = small_or_full(20'000, 2'000'000);
    const std::vector<uint64_t> keys = dense_permutation(rows, test_seed());
    const CoherentCheck check(keys, foreign_keys(keys, rows, 0.9, test_seed()));
    BaselineSpec spec = check.spec(JoinResultKind::kCount, 3, 0, {});
    spec.coherent.page_rows = 1024;
    uint64_t far_rows_before = 2 * rows;
    for (const uint64_t device_bytes : {limit_for_half_of_the_pages(spec, rows), kAmpleBytes}) {
        spec.coherent.device_bytes = device_bytes;
        const uint64_t before_bytes = test_device().memory().used_bytes();
        test_device().memory().reset_peak();
        const BaselineOutcome outcome = check.run(spec);
        check.check().check(spec, outcome, std::to_string(device_bytes) + " bytes");
        CHECK(test_device().memory().peak_bytes() <= before_bytes + device_bytes);
        const uint64_t far_rows = outcome.report.spilled_rows[0] + outcome.report.spilled_rows[1];
        CHECK(far_rows < far_rows_before);
        far_rows_before = far_rows;
    }
    CHECK_EQ(far_rows_before, 0);
}

// The formula is an upper bound, as some lists are as long as the rows make them; what it leaves unused is lost to
// pages.
GPU_TEST("coherent join: what it takes beside its pages is what the formula says") {
    const uint64_t rows = small_or_full(200'000, 2'000'000);
    for (const uint32_t width : {4U, 8U}) {
        const std::vector<uint64_t> keys = dense_permutation(rows, test_seed());
        const CoherentCheck check(keys, foreign_keys(keys, rows, 0.9, test_seed()), width);
        for (const auto result : {JoinResultKind::kRows, JoinResultKind::kSums, JoinResultKind::kCount}) {
            BaselineSpec spec = check.spec(result, 5, rows / 8, kFarOnly);
            spec.coherent.page_rows = 1024;
            spec.coherent.second_pass = result == JoinResultKind::kSums;
            spec.coherent.device_bytes = kAmpleBytes;
            cuda::CoherentJoinSpec asked;
            asked.join = spec.join;
            asked.rows[0] = asked.rows[1] = rows;
            asked.options = spec.coherent;
            const cuda::CoherentMemory memory =
                cuda::coherent_join_memory(asked, test_device().properties(), kAmpleBytes);
            const uint64_t before_bytes = test_device().memory().used_bytes();
            test_device().memory().reset_peak();
            const BaselineOutcome outcome = check.run(spec);
            const std::string what =
                std::to_string(width) + " bytes, result " + std::to_string(static_cast<int>(result));
            check.check().check(spec, outcome, what);
            const uint64_t taken_bytes = test_device().memory().peak_bytes() - before_bytes;
            const uint64_t said_bytes = memory.taken_bytes() - memory.reserve_bytes;
            if (taken_bytes > memory.taken_bytes() || said_bytes > taken_bytes + taken_bytes / 2) {
                fail(what + ": the join took " + std::to_string(taken_bytes) + " bytes, the formula says " +
                         std::to_string(said_bytes),
                     __FILE__, __LINE__);
            }
        }
    }
}

GPU_TEST("coherent join: payloads of other widths are refused") {
    const std::vector<uint64_t> keys = sparse_keys(500, test_seed());
    const KeyedRelation plain(keys, 8, {8}, test_seed());
    const KeyedRelation narrow(keys, 8, {4}, test_seed());
    const KeyedRelation two(keys, 8, {8, 8}, test_seed());
    for (const KeyedRelation* other : {&narrow, &two}) {
        const BaselineCheck check(*other, plain);
        const BaselineSpec spec = check.spec(JoinResultKind::kCount, ample_sizes(500, 2));
        const cuda::Error error = error_of([&] { check.run(test_device(), kCoherent, spec); });
        CHECK_EQ(error.code(), ErrorCode::kInvalid);
    }
}

}  // namespace spillway::gpu_test
