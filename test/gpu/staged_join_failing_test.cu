// SPDX-License-Identifier: Apache-2.0
// Joins beyond GPU memory that end early: without memory of either tier, cancelled, by a source or a sink that throws.
// All memory comes back, and the next join is right.
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "memory_model/staged_memory.hpp"
#include "support/error_of.hpp"
#include "support/failing_allocations.hpp"
#include "support/staged_join_check.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::ErrorCode;
using cuda::Tier;

struct Refusal : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A join with resident, evicted and spilled partitions whose result takes several buffers.
class FailingJoin {
  public:
    explicit FailingJoin(uint64_t rows, const JoinKind& kind = {JoinEmit::kPairs, false, true, true})
        : build_(sparse_keys(rows, test_seed()), 8, {8}, test_seed(), 0.02),
          probe_(foreign_keys(sparse_keys(rows, test_seed()), 2 * rows, 0.7, test_seed()), 8, {4}, test_seed() + 1),
          check_(build_, probe_, kind),
          spec_(check_.spec(JoinResultKind::kRows, sizes(rows))) {}

    const StagedJoinCheck& check() const { return check_; }
    const StagedJoinSpec& spec() const { return spec_; }
    StagedJoinOutcome run(cuda::Device& device, const StagedJoinSpec& spec) const { return check_.run(device, spec); }
    void expect_good(cuda::Device& device) const { check_.check(spec_, run(device, spec_), "a join after a failure"); }

  private:
    // Three partitions of four begin in device memory, and not all of them can stay.
    static StreamSizes sizes(uint64_t rows) {
        StreamSizes sizes = least_sizes(2, rows / 4);
        sizes.resident_partitions = 3;
        sizes.pages += 3;
        return sizes;
    }

    KeyedRelation build_;
    KeyedRelation probe_;
    StagedJoinCheck check_;
    StagedJoinSpec spec_;
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

// spoil(build, probe, sink) arranges for the failure, of which fails(run) makes sure; then another join.
template <class Spoil, class Fails>
void check_failure(const FailingJoin& join, const std::string& what, const Spoil& spoil, const Fails& fails,
                   bool good_run) {
    cuda::Device& device = test_device();
    const MemoryInUse memory(device);
    PinnedChunks build = join.check().chunks(0, join.spec().sizes);
    PinnedChunks probe = join.check().chunks(1, join.spec().sizes);
    CollectingSink sink = join.check().sink();
    spoil(build, probe, sink);
    try {
        fails([&] { run_staged_join(device, join.spec(), build, probe, &sink); });
    } catch (const Failure& failure) {
        device.set_cancelled(false);
        throw Failure(what + ": " + failure.what());
    }
    device.set_cancelled(false);
    if (!memory.is_back()) fail(what + ": memory was not given back", __FILE__, __LINE__);
    if (good_run) join.expect_good(device);
}

// On a device of its own.
cuda::Error error_with(uint64_t memory_bytes, uint64_t staging_bytes, const FailingJoin& join,
                       const StagedJoinSpec& spec) {
    cuda::Device device(test_device().ordinal(), memory_bytes, staging_bytes);
    const cuda::Error error = error_of([&] { join.run(device, spec); });
    CHECK_EQ(device.memory().blocks(), 0);
    CHECK_EQ(device.memory().used_bytes(), 0);
    CHECK_EQ(device.staging().blocks(), 0);
    return error;
}

}  // namespace

GPU_TEST("staged join: device memory that fails, one allocation after the other") {
    const FailingJoin join(small_or_full(600, 1000));
    check_failing_allocations(
        "out-of-core join", [&] { return join.run(test_device(), join.spec()); },
        [&](const StagedJoinOutcome& outcome) { join.check().check(join.spec(), outcome, "a run between failures"); });
}

GPU_TEST("staged join: pinned memory that fails, one allocation after the other") {
    const FailingJoin join(small_or_full(600, 1000));
    cuda::Device& device = test_device();
    const MemoryInUse memory(device);
    const auto run = [&] { join.run(device, join.spec()); };
    const uint64_t allocations = allocations_of(device.staging(), run);
    const uint64_t step = full_suite() ? 1 : allocations / 10 + 1;
    CHECK(allocations > 0);
    for (uint64_t n = 1 + test_seed() % step; n <= allocations; n += step) {
        const std::string place = "pinned memory, allocation " + std::to_string(n);
        const bool failed = fails_at(device.staging(), n, run, place, Tier::kHost);
        // What grows with its use may grow less.
        if (!failed && n <= allocations / 2) fail(place + " did not come about", __FILE__, __LINE__);
        if (!memory.is_back()) fail(place + ": memory was not given back", __FILE__, __LINE__);
    }
    join.expect_good(device);
}

GPU_TEST("staged join: cancelled at any chunk of either side, at any block of the result") {
    const FailingJoin join(small_or_full(600, 3000));
    cuda::Device& device = test_device();
    const auto is_cancelled = [](const auto& run) { CHECK_THROWS(run(), ErrorCode::kCancelled); };
    const uint64_t chunks = join.check().chunks(0, join.spec().sizes).chunks();
    const uint64_t probe_chunks = join.check().chunks(1, join.spec().sizes).chunks();
    // The last chunk of all may come when nobody looks any more.
    for (uint64_t n = 0; n + 1 < chunks + probe_chunks; ++n) {
        const auto spoil = [&](PinnedChunks& build, PinnedChunks& probe, CollectingSink&) {
            const uint64_t at = n < chunks ? n : n - chunks;
            (n < chunks ? build : probe).on_next = [&device, at](uint64_t chunk) {
                if (chunk == at) device.set_cancelled(true);
            };
        };
        check_failure(join, "cancelled at chunk " + std::to_string(n), spoil, is_cancelled, full_suite() || n == 0);
    }
    check_failure(
        join, "cancelled at the first block",
        [&](PinnedChunks&, PinnedChunks&, CollectingSink& sink) {
            sink.on_open = [&device](uint64_t) { device.set_cancelled(true); };
        },
        is_cancelled, true);
    check_failure(
        join, "cancelled before it begins",
        [&](PinnedChunks&, PinnedChunks&, CollectingSink&) { device.set_cancelled(true); }, is_cancelled, true);
}

GPU_TEST("staged join: sources and sinks that throw") {
    const FailingJoin join(small_or_full(600, 3000));
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
    // Behind the last chunk, too: a source may end with an error.
    const uint64_t chunks[] = {join.check().chunks(0, join.spec().sizes).chunks(),
                               join.check().chunks(1, join.spec().sizes).chunks()};
    for (const int side : {0, 1}) {
        for (uint64_t n = 0; n <= chunks[side]; ++n) {
            check_failure(
                join, "a source that throws at chunk " + std::to_string(n),
                [&](PinnedChunks& build, PinnedChunks& probe, CollectingSink&) {
                    (side == 0 ? build : probe).on_next = refuse_at(n);
                },
                throws_own, full_suite() || n == 0);
        }
    }
    for (const uint64_t n : {0, 1, 4}) {
        check_failure(
            join, "a sink that has no block " + std::to_string(n),
            [&](PinnedChunks&, PinnedChunks&, CollectingSink& sink) { sink.on_open = refuse_at(n); }, throws_own,
            full_suite() || n == 0);
        check_failure(
            join, "a sink that does not take block " + std::to_string(n),
            [&](PinnedChunks&, PinnedChunks&, CollectingSink& sink) { sink.on_close = refuse_at(n); }, throws_own,
            full_suite() || n == 0);
    }
}

GPU_TEST("staged join: too little memory of either tier") {
    const FailingJoin join(small_or_full(2000, 20000));
    constexpr uint64_t kAmple = 1ULL << 30;
    // The plan's limit of spilled rows.
    for (const uint64_t blocks : {0, 1, 2}) {
        StagedJoinSpec spec = join.spec();
        spec.sizes.resident_partitions = 0;
        spec.sizes.spill_block_bytes = 2048;
        spec.sizes.spill_bytes = blocks * spec.sizes.spill_block_bytes;
        const cuda::Error error = error_with(kAmple, kAmple, join, spec);
        CHECK_EQ(error.code(), ErrorCode::kOutOfMemory);
        CHECK(error.tier == Tier::kHost);
        CHECK(error.limit_reached);
        CHECK_EQ(error.limit_bytes, spec.sizes.spill_bytes);
        CHECK(error.wanted_bytes > 0);
    }
    // The device's limit of pinned memory, below that of the plan.
    StagedJoinSpec wide = join.spec();
    wide.sizes.resident_partitions = 0;
    wide.sizes.spill_block_bytes = 1 << 20;
    const cuda::Error pinned = error_with(kAmple, 1 << 20, join, wide);
    CHECK_EQ(pinned.code(), ErrorCode::kOutOfMemory);
    CHECK(pinned.tier == Tier::kHost);
    // Device memory for the plan's sizes: half of it, and all of it.
    StagedJoinSpec large = join.spec();
    large.sizes.pages = (64ULL << 20) / (large.sizes.page_rows * 16);
    const uint64_t device_bytes = cuda::staged_join_memory(large).device_bytes;
    CHECK(device_bytes >= 64ULL << 20);
    const cuda::Error device = error_with(device_bytes / 2, kAmple, join, large);
    CHECK_EQ(device.code(), ErrorCode::kOutOfMemory);
    CHECK(device.tier == Tier::kDevice);
    cuda::Device enough(test_device().ordinal(), device_bytes + device_bytes / 256 + (16ULL << 20));
    join.check().check(large, join.run(enough, large), "as much memory as the sizes take");
    // The smallest limits of all, by their parts: an error of memory, whatever is refused.
    for (uint64_t part = 1; part <= 64; part *= 4) {
        const cuda::Error error = error_with(part * device_bytes / 128, kAmple, join, large);
        CHECK_EQ(error.code(), ErrorCode::kOutOfMemory);
    }
}

GPU_TEST("staged join: a join that is destroyed before its end") {
    const FailingJoin join(small_or_full(600, 3000));
    cuda::Device& device = test_device();
    const MemoryInUse memory(device);
    { const StagedJoin unused(device, join.spec()); }
    CHECK(memory.is_back());
    {
        PinnedChunks build = join.check().chunks(0, join.spec().sizes);
        CollectingSink sink = join.check().sink();
        StagedJoin half(device, join.spec());
        half.run(cuda::kBuildSide, build, &sink);
        CHECK(build.all_released());
    }
    CHECK(memory.is_back());
    join.expect_good(device);
}

}  // namespace spillway::gpu_test
