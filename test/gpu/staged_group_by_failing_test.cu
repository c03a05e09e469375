// SPDX-License-Identifier: Apache-2.0
// Group-bys beyond GPU memory that end early: without memory of either tier, cancelled, by a source or a sink that
// throws, for what cannot work. All memory comes back, and the next group-by is right.
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "memory_model/staged_memory.hpp"
#include "support/error_of.hpp"
#include "support/failing_allocations.hpp"
#include "support/staged_group_by_check.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::ErrorCode;
using cuda::Tier;

struct Refusal : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Memory of both tiers that is in use.
class MemoryInUse {
  public:
    explicit MemoryInUse(cuda::Device& device) : device_(device), before_(now()) {}
    bool is_back() const { return now() == before_; }

  private:
    std::vector<uint64_t> now() const {
        return {device_.memory().blocks(), device_.memory().used_bytes(), device_.staging().blocks(),
                device_.staging().used_bytes()};
    }

    cuda::Device& device_;
    const std::vector<uint64_t> before_;
};

// A group-by with resident and spilled partitions and rows without a key.
class FailingGroupBy {
  public:
    explicit FailingGroupBy(uint64_t rows)
        : check_(keyed_values(drawn_keys(rows, rows / 4 * 3, test_seed()), 8, 0.02),
                 {{Aggregate::kSum, 1}, {Aggregate::kCountRows}}, true),
          spec_(check_.spec(sizes(rows))) {}

    const StagedGroupByCheck& check() const { return check_; }
    const StagedGroupBySpec& spec() const { return spec_; }
    StreamReport run(cuda::Device& device, const StagedGroupBySpec& spec) const {
        return check_.run(device, spec, "a group-by between failures");
    }
    void expect_good(cuda::Device& device) const {
        const StreamReport report = run(device, spec_);
        CHECK(report.spilled_rows[0] > 0);
        CHECK(report.resident_partitions > 0);
    }

  private:
    static StreamSizes sizes(uint64_t rows) {
        StreamSizes sizes = least_group_sizes(2, rows / 4);
        sizes.pages += 3;
        return sizes;
    }

    StagedGroupByCheck check_;
    StagedGroupBySpec spec_;
};

// spoil(source, sink) arranges for the failure, of which fails(run) makes sure; then another group-by.
template <class Spoil, class Fails>
void check_failure(const FailingGroupBy& group_by, const std::string& what, const Spoil& spoil, const Fails& fails,
                   bool good_run) {
    cuda::Device& device = test_device();
    const MemoryInUse memory(device);
    PinnedChunks source = group_by.check().chunks(group_by.spec().sizes);
    CollectingSink sink = group_by.check().sink(group_by.spec());
    spoil(source, sink);
    try {
        fails([&] { group_by.check().run(device, group_by.spec(), source, sink, what); });
    } catch (const Failure& failure) {
        device.set_cancelled(false);
        throw Failure(what + ": " + failure.what());
    }
    device.set_cancelled(false);
    if (!memory.is_back()) fail(what + ": memory was not given back", __FILE__, __LINE__);
    if (good_run) group_by.expect_good(device);
}

// On a device of its own.
cuda::Error error_with(uint64_t memory_bytes, uint64_t staging_bytes, const FailingGroupBy& group_by,
                       const StagedGroupBySpec& spec) {
    cuda::Device device(test_device().ordinal(), memory_bytes, staging_bytes);
    const cuda::Error error = error_of([&] { group_by.run(device, spec); });
    CHECK_EQ(device.memory().blocks(), 0);
    CHECK_EQ(device.memory().used_bytes(), 0);
    CHECK_EQ(device.staging().blocks(), 0);
    return error;
}

}  // namespace

GPU_TEST("staged group-by: device memory that fails, one allocation after the other") {
    const FailingGroupBy group_by(small_or_full(600, 1000));
    check_failing_allocations(
        "out-of-core group-by", [&] { return group_by.run(test_device(), group_by.spec()); },
        [](const StreamReport&) {}, {6, 32});
}

GPU_TEST("staged group-by: pinned memory that fails, one allocation after the other") {
    const FailingGroupBy group_by(small_or_full(600, 1000));
    cuda::Device& device = test_device();
    const MemoryInUse memory(device);
    const auto run = [&] { group_by.run(device, group_by.spec()); };
    const uint64_t allocations = allocations_of(device.staging(), run);
    const uint64_t step = full_suite() ? 1 : allocations / 6 + 1;
    CHECK(allocations > 0);
    for (uint64_t n = 1 + test_seed() % step; n <= allocations; n += step) {
        const std::string place = "pinned memory, allocation " + std::to_string(n);
        const bool failed = fails_at(device.staging(), n, run, place, Tier::kHost);
        // What grows with its use may grow less.
        if (!failed && n <= allocations / 2) fail(place + " did not come about", __FILE__, __LINE__);
        if (!memory.is_back()) fail(place + ": memory was not given back", __FILE__, __LINE__);
    }
    group_by.expect_good(device);
}

GPU_TEST("staged group-by: cancelled at any chunk, at any block of the result") {
    const FailingGroupBy group_by(small_or_full(600, 3000));
    cuda::Device& device = test_device();
    const auto is_cancelled = [](const auto& run) { CHECK_THROWS(run(), ErrorCode::kCancelled); };
    const uint64_t chunks = group_by.check().chunks(group_by.spec().sizes).chunks();
    for (uint64_t n = 0; n < chunks; ++n) {
        check_failure(
            group_by, "cancelled at chunk " + std::to_string(n),
            [&](PinnedChunks& source, CollectingSink&) {
                source.on_next = [&device, n](uint64_t chunk) {
                    if (chunk == n) device.set_cancelled(true);
                };
            },
            is_cancelled, full_suite() || n == 0);
    }
    check_failure(
        group_by, "cancelled at the first block",
        [&](PinnedChunks&, CollectingSink& sink) {
            sink.on_open = [&device](uint64_t) { device.set_cancelled(true); };
        },
        is_cancelled, true);
}

GPU_TEST("staged group-by: sources and sinks that throw") {
    const FailingGroupBy group_by(small_or_full(600, 3000));
    const auto throws_own = [](const auto& run) {
        bool own = false;
        try {
            run();
        } catch (const Refusal&) {
            own = true;
        }
        CHECK(own);
    };
    const auto refuse_at = [](uint64_t at) {
        return [at](uint64_t number) {
            if (number == at) throw Refusal("no more");
        };
    };
    const uint64_t chunks = group_by.check().chunks(group_by.spec().sizes).chunks();
    for (const uint64_t n : {uint64_t{0}, chunks / 2, chunks}) {
        check_failure(
            group_by, "a source that throws at chunk " + std::to_string(n),
            [&](PinnedChunks& source, CollectingSink&) { source.on_next = refuse_at(n); }, throws_own, n == 0);
    }
    for (const uint64_t n : {0, 1}) {
        check_failure(
            group_by, "a sink that has no block " + std::to_string(n),
            [&](PinnedChunks&, CollectingSink& sink) { sink.on_open = refuse_at(n); }, throws_own, n == 0);
        check_failure(
            group_by, "a sink that does not take block " + std::to_string(n),
            [&](PinnedChunks&, CollectingSink& sink) { sink.on_close = refuse_at(n); }, throws_own, n == 0);
    }
}

GPU_TEST("staged group-by: too little memory of either tier") {
    const FailingGroupBy group_by(small_or_full(2000, 20000));
    constexpr uint64_t kAmple = 1ULL << 30;
    // The plan's limit of spilled rows.
    for (const uint64_t blocks : {0, 1}) {
        StagedGroupBySpec spec = group_by.spec();
        spec.sizes.spill_block_bytes = 2048;
        spec.sizes.spill_bytes = blocks * spec.sizes.spill_block_bytes;
        const cuda::Error error = error_with(kAmple, kAmple, group_by, spec);
        CHECK_EQ(error.code(), ErrorCode::kOutOfMemory);
        CHECK(error.tier == Tier::kHost);
        CHECK(error.limit_reached);
        CHECK_EQ(error.limit_bytes, spec.sizes.spill_bytes);
    }
    // Device memory for the plan's sizes: half of it, and all of it.
    StagedGroupBySpec large = group_by.spec();
    large.sizes.pages = (128ULL << 20) / (large.sizes.page_rows * 24);
    const uint64_t device_bytes = cuda::staged_group_by_memory(large).device_bytes;
    const cuda::Error error = error_with(device_bytes / 2, kAmple, group_by, large);
    CHECK_EQ(error.code(), ErrorCode::kOutOfMemory);
    CHECK(error.tier == Tier::kDevice);
    cuda::Device enough(test_device().ordinal(), device_bytes + device_bytes / 256 + (16ULL << 20));
    group_by.run(enough, large);
}

GPU_TEST("staged group-by: what cannot work is refused") {
    const StagedGroupByCheck check(keyed_values(sparse_keys(300, test_seed())), {{Aggregate::kSum, 1}});
    const uint64_t blocks = test_device().memory().blocks();
    const auto refused = [&](const char* what, const auto& change) {
        StagedGroupBySpec spec = check.spec(ample_group_sizes(300, 2, 100));
        change(spec);
        const cuda::Error error = error_of([&] { const StagedGroupBy unused(test_device(), spec); });
        if (error.code() != ErrorCode::kInvalid) fail(std::string(what) + " was not refused", __FILE__, __LINE__);
        CHECK_EQ(test_device().memory().blocks(), blocks);
    };
    using Spec = StagedGroupBySpec;
    refused("13 radix bits", [](Spec& spec) { spec.sizes.radix_bits = 13; });
    refused("chunks of no rows", [](Spec& spec) { spec.sizes.chunk_rows = 0; });
    refused("one chunk on its way", [](Spec& spec) { spec.sizes.chunk_slots = 1; });
    refused("pages of 48 rows", [](Spec& spec) { spec.sizes.page_rows = 48; });
    refused("a page too few", [](Spec& spec) { spec.sizes.pages = fewest_group_pages(spec.sizes) - 1; });
    refused("less than a chunk at once", [](Spec& spec) { spec.sizes.merge_rows = spec.sizes.chunk_rows - 1; });
    refused("blocks of no bytes", [](Spec& spec) { spec.sizes.spill_block_bytes = 0; });
    refused("no result buffer", [](Spec& spec) { spec.sizes.result_slots = 0; });
    refused("keys of 2 bytes", [](Spec& spec) { spec.key_bytes = 2; });
    refused("columns of 16 bytes", [](Spec& spec) { spec.widths[0] = 16; });
    refused("a column that is not there", [](Spec& spec) { spec.aggregates[0].column = 1; });
    refused("first values that nothing decides",
            [](Spec& spec) { spec.aggregates[0].kind = cuda::GroupAggregateKind::kFirst; });
    refused("sums that a column decides", [](Spec& spec) { spec.aggregates[0].decided_by = 0; });
    const auto decided = [](Spec& spec, uint32_t by) {
        spec.aggregates[0].kind = cuda::GroupAggregateKind::kMin;
        spec.aggregates[0].value_kind = cuda::ValueKind::kUnsigned;
        spec.aggregates[0].decided_by = by;
    };
    refused("a decision by a column that is not there", [&](Spec& spec) { decided(spec, 1); });
    refused("a decision by a column that is no aggregate", [&](Spec& spec) { decided(spec, 0); });
    refused("low words with a sign", [&](Spec& spec) {
        decided(spec, 0);
        spec.aggregates[0].value_kind = cuda::ValueKind::kSigned;
    });
    // Chunks larger than the plan says.
    StagedGroupByCheck large(keyed_values(sparse_keys(300, test_seed())), {{Aggregate::kSum, 1}});
    large.cuts = {100, 101};
    CHECK_THROWS(large.run(ample_group_sizes(300, 2, 100), "large chunks"), ErrorCode::kInvalid);
    CHECK_EQ(test_device().memory().blocks(), blocks);
    check.run(ample_group_sizes(300, 2, 100), "after what was refused");
}

}  // namespace spillway::gpu_test
