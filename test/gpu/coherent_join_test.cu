// SPDX-License-Identifier: Apache-2.0
// The join by kernels that read and write far memory themselves: results for every partitioner, mix of tiers and shape
// of keys, bytes that pass the link, refusals. That all memory comes back from every failing allocation is in
// far_join_failing_test.cu.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "coherent_join/coherent_join.hpp"
#include "gpu_test.hpp"
#include "support/error_of.hpp"
#include "support/far_join_check.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::ErrorCode;
using cuda::FarPartitioner;
using cuda::Tier;

constexpr auto kCoherent = FarJoinAlgorithm::kTritonCoherent;
constexpr uint64_t kPageRows = 16;
constexpr uint64_t kAmpleBytes = 1ULL << 30;

constexpr cuda::StripeShares kFarOnly{0, 0, 1};
constexpr cuda::StripeShares kMixed{1, 0, 1};
constexpr cuda::StripeShares kNearOnly{1, 0, 0};

// Relations of one key and one payload of its width, joined as one chunk each.
class CoherentCheck {
  public:
    CoherentCheck(const std::vector<uint64_t>& build_keys, const std::vector<uint64_t>& probe_keys, uint32_t width = 8)
        : build_(build_keys, width, {width}, test_seed()),
          probe_(probe_keys, width, {width}, test_seed() + 1),
          check_(build_, probe_) {}

    FarJoinSpec spec(OutOfCoreResult result, int radix_bits, uint64_t group_rows, cuda::StripeShares shares) const {
        const uint64_t rows = std::max(build_.host().rows(), probe_.host().rows());
        FarJoinSpec spec = check_.spec(result, ample_sizes(rows, radix_bits, rows + 1));
        spec.join.sizes.result_rows = 500;
        spec.shares = shares;
        spec.coherent.page_rows = kPageRows;
        spec.coherent.group_rows = group_rows;
        spec.coherent.chunks = 1;
        return spec;
    }
    void expect(const FarJoinSpec& spec, const std::string& what) const { check_.expect(kCoherent, spec, what); }
    // Rows, and one of sums and count; all in the full suite.
    void all(FarJoinSpec spec, const std::string& what) const {
        for (const auto result : {OutOfCoreResult::kRows, OutOfCoreResult::kSums, OutOfCoreResult::kCount}) {
            const bool odd = check_.relations().expected_rows() % 2 != 0;
            const bool left_out = odd ? result == OutOfCoreResult::kSums : result == OutOfCoreResult::kCount;
            if (left_out && !full_suite()) continue;
            spec.join.result = result;
            spec.join.output = check_.spec(result, spec.join.sizes).join.output;
            expect(spec, what);
            if (result == OutOfCoreResult::kRows || !full_suite()) continue;
            FarJoinSpec indexed = spec;
            indexed.coherent.second_pass = false;
            expect(indexed, what + ", indexed");
        }
    }
    FarJoinOutcome run(const FarJoinSpec& spec, cuda::Device& device = test_device()) const {
        return check_.run(device, kCoherent, spec);
    }
    const FarJoinCheck& check() const { return check_; }

  private:
    const KeyedRelation build_;
    const KeyedRelation probe_;
    const FarJoinCheck check_;
};

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
            const uint64_t group_rows = wanted == 12 ? rows * kPageRows / 3 : rows / 3;
            FarJoinSpec spec = check.spec(OutOfCoreResult::kRows, bits_of(partitioner, wanted), group_rows, kMixed);
            spec.coherent.partitioner = partitioner;
            check.all(spec, std::string(cuda::kFarPartitionerNames[p]) + ", " + std::to_string(wanted) + " bits");
        }
    }
}

GPU_TEST("coherent join: none, one, a page and a group of rows, one less and one more") {
    constexpr uint64_t kGroupRows = 4 * kPageRows;
    const std::vector<uint64_t> all_rows = full_suite() ? std::vector<uint64_t>{0,
                                                                                1,
                                                                                2,
                                                                                kPageRows - 1,
                                                                                kPageRows,
                                                                                kPageRows + 1,
                                                                                kGroupRows - 1,
                                                                                kGroupRows,
                                                                                kGroupRows + 1,
                                                                                1777}
                                                        : std::vector<uint64_t>{0, 1, kPageRows, kGroupRows + 1};
    for (const uint64_t build_rows : all_rows) {
        for (const uint64_t probe_rows : all_rows) {
            const std::vector<uint64_t> keys = sparse_keys(build_rows, test_seed());
            const CoherentCheck check(keys, foreign_keys(keys, probe_rows, 0.8, test_seed()));
            const int radix_bits = static_cast<int>(build_rows + probe_rows) % 2 * 2;
            check.all(check.spec(OutOfCoreResult::kRows, radix_bits, kGroupRows, kMixed),
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
        many.all(many.spec(OutOfCoreResult::kRows, 4, rows / 5, kMixed), "m:n, " + what);
        const std::vector<uint64_t> hot = one_hot_key(rows, 0.1, test_seed());
        const CoherentCheck large(hot, foreign_keys(hot, rows, 0.9, test_seed()), width);
        // The partition of the hot key comes in parts, between others that fit a group.
        large.all(large.spec(OutOfCoreResult::kRows, 5, rows / 20, kMixed), "a hot key, " + what);
        large.all(large.spec(OutOfCoreResult::kRows, 0, rows / 3, kFarOnly), "one partition in parts, " + what);
        // Of keys of 4 bytes so many bits are known then that chains of a block's table hold the others.
        FarJoinSpec fine =
            many.spec(OutOfCoreResult::kSums, bits_of(FarPartitioner::kLinear, 12), rows * kPageRows, kMixed);
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
        FarJoinSpec spec = check.spec(OutOfCoreResult::kSums, 3, rows / 3, shares);
        spec.coherent.page_rows = full_suite() ? 1024 : 64;
        const FarJoinOutcome outcome = check.run(spec);
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

GPU_TEST("coherent join: shares of multiprocessors, chunks, times of stages") {
    const uint64_t rows = small_or_full(1500, 20000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    const CoherentCheck check(keys, foreign_keys(keys, 2 * rows, 0.8, test_seed()));
    for (const uint32_t grid : {1U, 7U, 1000U}) {
        FarJoinSpec spec = check.spec(OutOfCoreResult::kRows, 3, rows / 4, kMixed);
        spec.coherent.partition_grid = spec.coherent.gather_grid = grid;
        spec.coherent.gather_alone = grid == 7;
        spec.coherent.gather_probe = grid == 7;
        check.all(spec, std::to_string(grid) + " blocks");
    }
    FarJoinCheck chunks = check.check();
    chunks.cuts[0] = {1, 500, 0, 37};
    chunks.cuts[1] = {31, 0, 1000};
    FarJoinSpec spec = check.spec(OutOfCoreResult::kRows, 2, rows / 4, kMixed);
    spec.coherent.chunks = static_cast<uint32_t>(rows / 50);
    chunks.expect(kCoherent, spec, "odd chunks");

    FarJoinSpec sums = check.spec(OutOfCoreResult::kSums, 3, rows / 4, kFarOnly);
    for (const bool second_pass : {true, false}) {
        sums.coherent.second_pass = second_pass;
        PinnedChunks build = check.check().chunks(0, sums.join.sizes);
        PinnedChunks probe = check.check().chunks(1, sums.join.sizes);
        const auto join = cuda::open_far_join(test_device(), kCoherent, sums);
        join->build(build);
        join->probe(probe, nullptr);
        std::vector<std::string> names;
        for (const cuda::PhaseTimer::Phase& stage : join->stages()) {
            names.push_back(stage.name);
            CHECK(stage.milliseconds >= 0);
        }
        CHECK(names == (second_pass ? std::vector<std::string>{"gather", "wait", "partition", "join"}
                                    : std::vector<std::string>{"gather", "wait", "index", "probe"}));
    }
}

GPU_TEST("coherent join: pages of a peer") {
    const auto peer = open_peer(kAmpleBytes, "coherent join: pages of a peer");
    if (peer == nullptr) return;
    const uint64_t rows = small_or_full(2000, 100000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    const CoherentCheck check(keys, foreign_keys(keys, rows, 0.9, test_seed()));
    for (const cuda::StripeShares shares : {cuda::StripeShares{0, 1, 0}, {1, 1, 0}, {1, 1, 1}}) {
        FarJoinSpec spec = check.spec(OutOfCoreResult::kRows, 3, rows / 3, shares);
        spec.peer = peer.get();
        check.all(spec, std::to_string(shares.device) + ":1:" + std::to_string(shares.host));
    }
    CHECK_EQ(peer->memory().blocks(), 0);
}

GPU_TEST("coherent join: too little memory of either tier, more rows than it was made for") {
    const std::vector<uint64_t> keys = sparse_keys(2000, test_seed());
    const CoherentCheck check(keys, foreign_keys(keys, 2000, 0.9, test_seed()));
    cuda::Device device(test_device().ordinal(), 64 << 20, kAmpleBytes);
    const auto refusal_of = [&](const FarJoinSpec& spec) {
        const cuda::Error error = error_of([&] { check.run(spec, device); });
        CHECK_EQ(device.memory().blocks(), 0);
        CHECK_EQ(device.staging().used_bytes(), 0);
        return error;
    };
    const FarJoinSpec good = check.spec(OutOfCoreResult::kSums, 3, 512, kMixed);
    FarJoinSpec spec = good;
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

GPU_TEST("coherent join: NULL keys and payloads of other widths are refused") {
    const std::vector<uint64_t> keys = sparse_keys(500, test_seed());
    const KeyedRelation plain(keys, 8, {8}, test_seed());
    const KeyedRelation nulls(keys, 8, {8}, test_seed(), 0.1);
    const KeyedRelation narrow(keys, 8, {4}, test_seed());
    const KeyedRelation two(keys, 8, {8, 8}, test_seed());
    for (const KeyedRelation* other : {&nulls, &narrow, &two}) {
        const FarJoinCheck check(*other, plain);
        const FarJoinSpec spec = check.spec(OutOfCoreResult::kCount, ample_sizes(500, 2));
        const cuda::Error error = error_of([&] { check.run(test_device(), kCoherent, spec); });
        CHECK_EQ(error.code(), ErrorCode::kInvalid);
    }
}

}  // namespace spillway::gpu_test
