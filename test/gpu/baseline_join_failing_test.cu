// SPDX-License-Identifier: Apache-2.0
// Joins to compare with that end early or refuse what they cannot join: all memory comes back, the next join is right.
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "support/baseline_join_check.hpp"
#include "support/error_of.hpp"
#include "support/failing_allocations.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::ErrorCode;
using cuda::Tier;

struct FarRefusal : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Dense keys, so that every algorithm joins them; rows of the result take several buffers.
class FarFailing {
  public:
    explicit FarFailing(uint64_t rows)
        : rows_(rows),
          keys_(dense_permutation(rows, test_seed())),
          build_(keys_, 8, {8}, test_seed()),
          probe_(foreign_keys(keys_, 2 * rows, 0.7, test_seed()), 8, {8}, test_seed() + 1),
          check_(build_, probe_) {}

    const BaselineCheck& check() const { return check_; }
    BaselineSpec spec(JoinResultKind result = JoinResultKind::kRows) const {
        return check_.spec(result, least_sizes(2, rows_ / 4));
    }
    void expect_good(BaselineAlgorithm algorithm) const { check_.expect(algorithm, spec(), "a join after a failure"); }

  private:
    const uint64_t rows_;
    const std::vector<uint64_t> keys_;
    const KeyedRelation build_;
    const KeyedRelation probe_;
    const BaselineCheck check_;
};

std::vector<uint64_t> memory_in_use(cuda::Device& device) {
    return {device.memory().blocks(), device.memory().used_bytes(), device.staging().blocks(),
            device.staging().used_bytes()};
}

// Returns the error with which the join fails, and checks that all memory is back.
cuda::Error far_error(cuda::Device& device, BaselineAlgorithm algorithm, const BaselineCheck& check,
                      const BaselineSpec& spec) {
    const std::vector<uint64_t> before = memory_in_use(device);
    const cuda::Error error = error_of([&] { check.run(device, algorithm, spec); });
    CHECK(memory_in_use(device) == before);
    return error;
}

// Which algorithms a run of the small suite takes.
bool is_turn(size_t algorithm) {
    return full_suite() || algorithm % 3 == test_seed() % 3;
}

}  // namespace

GPU_TEST("baseline join: device memory that fails, one allocation after the other") {
    const FarFailing join(small_or_full(600, 1000));
    for (size_t a = 1; a < std::size(cuda::kBaselineNames); ++a) {
        if (!is_turn(a)) continue;
        const BaselineAlgorithm algorithm = cuda::kBaselineNames[a].algorithm;
        check_failing_allocations(
            cuda::kBaselineNames[a].name, [&] { return join.check().run(test_device(), algorithm, join.spec()); },
            [&](const BaselineOutcome& outcome) { join.check().check(join.spec(), outcome, "between failures"); });
    }
}

GPU_TEST("baseline join: device memory that fails in a second pass of both sides") {
    const FarFailing join(small_or_full(600, 1000));
    const BaselineSpec spec = join.spec(JoinResultKind::kSums);
    check_failing_allocations(
        "triton, sums", [&] { return join.check().run(test_device(), BaselineAlgorithm::kTriton, spec); },
        [&](const BaselineOutcome& outcome) { join.check().check(spec, outcome, "between failures"); });
}

GPU_TEST("baseline join: pinned memory that fails, one allocation after the other") {
    const FarFailing join(small_or_full(600, 1000));
    cuda::Device& device = test_device();
    for (size_t a = 1; a < std::size(cuda::kBaselineNames); ++a) {
        if (!is_turn(a)) continue;
        const BaselineAlgorithm algorithm = cuda::kBaselineNames[a].algorithm;
        const std::vector<uint64_t> before = memory_in_use(device);
        const auto run = [&] { join.check().run(device, algorithm, join.spec()); };
        const uint64_t allocations = allocations_of(device.staging(), run);
        const uint64_t step = full_suite() ? 1 : allocations / 5 + 1;
        for (uint64_t n = 1 + test_seed() % step; n <= allocations; n += step) {
            fails_at(device.staging(), n, run, cuda::kBaselineNames[a].name, Tier::kHost);
            CHECK(memory_in_use(device) == before);
        }
        join.expect_good(algorithm);
    }
}

GPU_TEST("baseline join: cancelled, by a source or a sink that throws") {
    const FarFailing join(small_or_full(600, 3000));
    cuda::Device& device = test_device();
    for (size_t a = 1; a < std::size(cuda::kBaselineNames); ++a) {
        if (!is_turn(a)) continue;
        const BaselineAlgorithm algorithm = cuda::kBaselineNames[a].algorithm;
        for (int way = 0; way < 5; ++way) {
            const std::vector<uint64_t> before = memory_in_use(device);
            PinnedChunks build = join.check().chunks(0, join.spec().join.sizes);
            PinnedChunks probe = join.check().chunks(1, join.spec().join.sizes);
            CollectingSink sink = join.check().relations().sink();
            const auto refuse = [](uint64_t number) {
                if (number == 1) throw FarRefusal("no more");
            };
            if (way < 2) {
                (way == 0 ? build : probe).on_next = [&](uint64_t chunk) { device.set_cancelled(chunk == 1); };
            } else if (way < 4) {
                (way == 2 ? build : probe).on_next = refuse;
            } else {
                sink.on_open = refuse;
            }
            const auto run = [&] { run_baseline_join(device, algorithm, join.spec(), build, probe, &sink); };
            bool refused = false;
            bool cancelled = false;
            try {
                run();
            } catch (const FarRefusal&) {
                refused = true;
            } catch (const cuda::Error& error) {
                cancelled = error.code() == ErrorCode::kCancelled;
            }
            device.set_cancelled(false);
            if (refused != (way >= 2) || cancelled != (way < 2) || memory_in_use(device) != before) {
                fail(std::string(cuda::kBaselineNames[a].name) + ", way " + std::to_string(way), __FILE__, __LINE__);
            }
        }
        join.expect_good(algorithm);
    }
}

GPU_TEST("baseline join: build sides that a table refuses") {
    cuda::Device& device = test_device();
    const std::vector<uint64_t> keys = dense_permutation(1000, test_seed());
    const KeyedRelation build(keys, 8, {8}, test_seed());
    const KeyedRelation probe(keys, 8, {8}, test_seed() + 1);
    BaselineCheck check(build, probe);
    const auto refusal_of = [&](BaselineAlgorithm algorithm, const BaselineSpec& spec) {
        return far_error(device, algorithm, check, spec).code();
    };
    const BaselineSpec good = check.spec(JoinResultKind::kCount, ample_sizes(1000, 0));
    BaselineSpec spec = good;
    spec.key_range = 999;  // the key 999 is outside
    CHECK_EQ(refusal_of(BaselineAlgorithm::kNpjFarPerfect, spec), ErrorCode::kInvalid);
    spec.key_range = 1000;
    spec.first_key = 1;  // 0 is
    CHECK_EQ(refusal_of(BaselineAlgorithm::kNpjFarPerfect, spec), ErrorCode::kInvalid);
    spec.key_range = ~0ULL;
    CHECK_EQ(refusal_of(BaselineAlgorithm::kNpjFarPerfect, spec), ErrorCode::kInvalid);
    for (const BaselineAlgorithm algorithm : {BaselineAlgorithm::kNpjFar, BaselineAlgorithm::kStreamProbe}) {
        spec = good;
        spec.build_rows = 999;
        CHECK_EQ(refusal_of(algorithm, spec), ErrorCode::kInvalid);
        for (const uint32_t load_percent : {0U, 91U, 100U}) {
            spec = good;
            spec.load_percent = load_percent;
            CHECK_EQ(refusal_of(algorithm, spec), ErrorCode::kInvalid);
        }
        check.expect(algorithm, good, "after refusals");
    }
    std::vector<uint64_t> twice = keys;
    twice[17] = twice[400];
    const KeyedRelation repeated(twice, 8, {8}, test_seed());
    const BaselineCheck other(repeated, probe);
    CHECK_EQ(far_error(device, BaselineAlgorithm::kNpjFarPerfect, other, good).code(), ErrorCode::kInvalid);
    check.expect(BaselineAlgorithm::kNpjFarPerfect, good, "after refusals");
    if (!full_suite()) return;
    const KeyedRelation hot(std::vector<uint64_t>(20000, 7), 8, {8}, test_seed());
    const KeyedRelation one({7}, 8, {8}, test_seed() + 1);
    const BaselineCheck walks(hot, one);
    const BaselineSpec long_walks = walks.spec(JoinResultKind::kCount, ample_sizes(20000, 0));
    CHECK_EQ(far_error(device, BaselineAlgorithm::kStreamProbe, walks, long_walks).code(), ErrorCode::kInvalid);
}

GPU_TEST("baseline join: what no baseline does") {
    cuda::Device& device = test_device();
    const FarFailing join(500);
    for (const cuda::BaselineName& named : cuda::kBaselineNames) {
        if (named.algorithm == BaselineAlgorithm::kStaged) continue;
        BaselineSpec outer = join.spec();
        outer.join.kind.keep_unmatched_probe = true;
        const bool makes_all = named.algorithm == BaselineAlgorithm::kTriton;
        if (!makes_all) CHECK_EQ(far_error(device, named.algorithm, join.check(), outer).code(), ErrorCode::kInvalid);
        // A sink without rows, and rows without a sink.
        PinnedChunks build = join.check().chunks(0, outer.join.sizes);
        PinnedChunks probe = join.check().chunks(1, outer.join.sizes);
        CHECK_THROWS(run_baseline_join(device, named.algorithm, join.spec(), build, probe, nullptr),
                     ErrorCode::kInvalid);
    }
}

GPU_TEST("baseline join: too little memory of either tier") {
    constexpr uint64_t kAmple = 1ULL << 30;
    const FarFailing join(2000);
    BaselineSpec large = join.spec();
    large.build_rows = 4 << 20;  // 128 MiB of slots
    cuda::Device device(test_device().ordinal(), 64 << 20, kAmple);
    const cuda::Error slots = far_error(device, BaselineAlgorithm::kStreamProbe, join.check(), large);
    CHECK_EQ(slots.code(), ErrorCode::kOutOfMemory);
    CHECK(slots.tier == Tier::kDevice);
    // The same table over both tiers, as much in the device's as is free beside the rest.
    if (far_shares(0, 1).host > 0) {
        large.shares = {};
        join.check().check(large, join.check().run(device, BaselineAlgorithm::kNpjFar, large), "spread");
        CHECK_EQ(device.memory().blocks(), 0);
        CHECK_EQ(device.staging().used_bytes(), 0);
        cuda::Device poor(test_device().ordinal(), 64 << 20, 16 << 20);
        const cuda::Error spread = far_error(poor, BaselineAlgorithm::kNpjFar, join.check(), large);
        CHECK_EQ(spread.code(), ErrorCode::kOutOfMemory);
        CHECK(spread.tier == Tier::kHost);
    }
    BaselineSpec tight = join.spec();
    tight.join.sizes.spill_bytes = 2000 * 16 - 1;
    const cuda::Error runs = far_error(device, BaselineAlgorithm::kCpuPartitioned, join.check(), tight);
    CHECK_EQ(runs.code(), ErrorCode::kOutOfMemory);
    CHECK(runs.tier == Tier::kHost);
    CHECK_EQ(runs.limit_bytes, tight.join.sizes.spill_bytes);
}

}  // namespace spillway::gpu_test
