// SPDX-License-Identifier: Apache-2.0
// Arguments that joins beyond GPU memory refuse, and the memory that their sizes say they take.
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "memory_model/staged_memory.hpp"
#include "support/staged_join_check.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::ErrorCode;

StagedJoinSpec good_spec(JoinResultKind result) {
    StagedJoinSpec spec;
    spec.widths[0] = {8, 1};
    spec.widths[1] = {4};
    spec.result = result;
    spec.sizes = ample_sizes(1000, 3);
    if (result == JoinResultKind::kSums) spec.output = {{OutputSide::kKey, 0}, {OutputSide::kBuild, 0}};
    if (result == JoinResultKind::kRows) spec.output = {{OutputSide::kKey, 0}, {OutputSide::kProbe, 0}};
    return spec;
}

template <class Change>
void expect_refused(JoinResultKind result, const std::string& what, const Change& change) {
    const uint64_t blocks = test_device().memory().blocks();
    StagedJoinSpec spec = good_spec(result);
    change(spec);
    try {
        CHECK_THROWS(StagedJoin(test_device(), spec), ErrorCode::kInvalid);
    } catch (const Failure& failure) {
        throw Failure(what + ": " + failure.what());
    }
    CHECK_EQ(test_device().memory().blocks(), blocks);
}

}  // namespace

GPU_TEST("staged join: sizes and columns that no caller may give") {
    using Spec = StagedJoinSpec;
    constexpr JoinResultKind kAll[] = {JoinResultKind::kCount, JoinResultKind::kSums, JoinResultKind::kRows};
    for (const JoinResultKind result : kAll) {
        StagedJoin(test_device(), good_spec(result));
        expect_refused(result, "keys of 2 bytes", [](Spec& spec) { spec.key_bytes = 2; });
        expect_refused(result, "a column of 3 bytes", [](Spec& spec) { spec.widths[0] = {8, 3}; });
        expect_refused(result, "rows of 129 bytes",
                       [](Spec& spec) { spec.widths[1] = {16, 16, 16, 16, 16, 16, 16, 8, 1}; });
        expect_refused(result, "negative bits", [](Spec& spec) { spec.sizes.radix_bits = -1; });
        expect_refused(result, "40 bits", [](Spec& spec) { spec.sizes.radix_bits = 40; });
        expect_refused(result, "chunks of no rows", [](Spec& spec) { spec.sizes.chunk_rows = 0; });
        expect_refused(result, "one slot", [](Spec& spec) { spec.sizes.chunk_slots = 1; });
        expect_refused(result, "pages of no rows", [](Spec& spec) { spec.sizes.page_rows = 0; });
        expect_refused(result, "pages of 48 rows", [](Spec& spec) { spec.sizes.page_rows = 48; });
        expect_refused(result, "no pages", [](Spec& spec) { spec.sizes.pages = 0; });
        expect_refused(result, "a page too few", [](Spec& spec) { spec.sizes.pages = fewest_pages(spec.sizes) - 1; });
        expect_refused(result, "blocks of no bytes", [](Spec& spec) { spec.sizes.spill_block_bytes = 0; });
    }
    const auto refuse_rows = [](const char* what, const auto& change) {
        expect_refused(JoinResultKind::kRows, what, change);
    };
    refuse_rows("no result buffer", [](Spec& spec) { spec.sizes.result_slots = 0; });
    refuse_rows("a column that is not there", [](Spec& spec) { spec.output.push_back({OutputSide::kProbe, 1}); });
    const auto refuse_sums = [](const char* what, const auto& change) {
        expect_refused(JoinResultKind::kSums, what, change);
    };
    refuse_sums("a sum of bytes", [](Spec& spec) { spec.output.push_back({OutputSide::kBuild, 1}); });
    refuse_sums("a sum of presence", [](Spec& spec) { spec.output.push_back({OutputSide::kPresence, 0}); });
    refuse_sums("a column that is not there", [](Spec& spec) { spec.output.push_back({OutputSide::kBuild, 2}); });
    refuse_sums("five sums", [](Spec& spec) { spec.output.assign(5, {OutputSide::kProbe, 0}); });
}

GPU_TEST("staged join: chunks larger than the plan says, rows for nobody") {
    const KeyedRelation build(sparse_keys(300, test_seed()), 8, {8}, test_seed());
    const KeyedRelation probe(sparse_keys(300, test_seed()), 8, {8}, test_seed() + 1);
    const uint64_t blocks = test_device().memory().blocks();
    const StreamSizes sizes = ample_sizes(300, 2, 100);
    StagedJoinCheck check(build, probe);
    check.cuts[0] = {100, 101};
    CHECK_THROWS(check.run(test_device(), check.spec(JoinResultKind::kRows, sizes)), ErrorCode::kInvalid);
    check.cuts[0] = {};
    check.cuts[1] = {101};
    CHECK_THROWS(check.run(test_device(), check.spec(JoinResultKind::kSums, sizes)), ErrorCode::kInvalid);
    check.cuts[1] = {};
    PinnedChunks build_chunks = check.chunks(0, sizes);
    PinnedChunks probe_chunks = check.chunks(1, sizes);
    const StagedJoinSpec rows = check.spec(JoinResultKind::kRows, sizes);
    CHECK_THROWS(run_staged_join(test_device(), rows, build_chunks, probe_chunks, nullptr), ErrorCode::kInvalid);
    CHECK_EQ(test_device().memory().blocks(), blocks);
    check.all(sizes, "after what was refused");
}

GPU_TEST("staged join: sizes say what device memory they take") {
    const uint64_t rows = small_or_full(3000, 1 << 20);
    const KeyedRelation build(sparse_keys(rows, test_seed()), 8, {8}, test_seed());
    const KeyedRelation probe({}, 8, {8}, test_seed());
    const StagedJoinCheck check(build, probe, {JoinEmit::kPairs, false, true, true});
    StreamSizes sizes = ample_sizes(rows, 4, small_or_full(1000, 1 << 16), small_or_full(128, 1024));
    sizes.spill_bytes = 1ULL << 30;
    sizes.spill_block_bytes = 4ULL << 20;
    for (const JoinResultKind result : {JoinResultKind::kCount, JoinResultKind::kSums, JoinResultKind::kRows}) {
        StagedJoinSpec spec = check.spec(result, sizes);
        cuda::Device device(test_device().ordinal(), 4ULL << 30, 2ULL << 30);
        const uint64_t said_bytes = cuda::staged_join_memory(spec).device_bytes;
        CHECK(said_bytes >= sizes.pages * sizes.page_rows * 16);
        PinnedChunks build_chunks = check.chunks(0, sizes);
        PinnedChunks probe_chunks = check.chunks(1, sizes);
        CollectingSink sink = check.sink();
        run_staged_join(device, spec, build_chunks, probe_chunks, result == JoinResultKind::kRows ? &sink : nullptr);
        // Prefix sums, histograms and the pool's granularity come on top.
        const uint64_t most_bytes = said_bytes + said_bytes / 64 + (16ULL << 20);
        if (device.memory().peak_bytes() > most_bytes) {
            fail(text_of(device.memory().peak_bytes()) + " bytes were taken, " + text_of(said_bytes) + " announced",
                 __FILE__, __LINE__);
        }
        CHECK_EQ(device.memory().blocks(), 0);
        // More of anything never takes less.
        for (const auto size : {&StreamSizes::pages, &StreamSizes::chunk_rows}) {
            StagedJoinSpec more = spec;
            more.sizes.*size *= 2;
            more.sizes.result_rows *= 2;
            CHECK(cuda::staged_join_memory(more).device_bytes > said_bytes);
        }
    }
}

}  // namespace spillway::gpu_test
