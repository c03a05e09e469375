// SPDX-License-Identifier: Apache-2.0
// Joins beyond GPU memory: what stays there, what is spilled, partitions that are joined in parts, rows of all widths,
// and results larger than their buffers. Sizes, kinds and keys are in staged_join_test.cu.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "gpu_test.hpp"
#include "support/staged_join_check.hpp"

namespace spillway::gpu_test {

namespace {

// Gives pinned memory that nobody uses back to the system, again and again, as long as it lives.
class GivingBack {
  public:
    ~GivingBack() {
        ended_.store(true);
        thread_.join();
    }

  private:
    // It is opened before the thread starts: test_device() opens it at its first call, and both threads would do so.
    cuda::Device& device_ = test_device();
    std::atomic<bool> ended_{false};
    std::thread thread_{[this] {
        while (!ended_.load()) {
            try {
                device_.staging().trim();
            } catch (const cuda::Error&) {  // of a lost device, which the test tells of
                return;
            }
            std::this_thread::yield();
        }
    }};
};

}  // namespace

GPU_TEST("staged join: pinned memory that nobody uses goes while it runs") {
    const uint64_t rows = small_or_full(1200, 20000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    const KeyedRelation build(keys, 8, {8}, test_seed());
    const KeyedRelation probe(foreign_keys(keys, 2 * rows, 0.8, test_seed()), 8, {8}, test_seed() + 1);
    const StagedJoinCheck check(build, probe);
    const GivingBack giving;
    for (const uint32_t resident : {0U, 4U}) {
        check.all(spilled_sizes(rows, 3, resident), std::to_string(resident) + " resident");
    }
}

GPU_TEST("staged join: every number of bits, none to all partitions resident") {
    const uint64_t rows = small_or_full(1500, 30000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    const KeyedRelation build(keys, 8, {8}, test_seed());
    const KeyedRelation probe(foreign_keys(keys, 2 * rows, 0.8, test_seed()), 8, {8}, test_seed() + 1);
    const StagedJoinCheck check(build, probe);
    for (const int bits : {0, 1, 4, 8, 10}) {
        const uint32_t partitions = 1U << bits;
        for (const uint32_t resident : {0U, 1U, partitions / 2, partitions - 1, partitions, kAllResident}) {
            // In the small suite, where each partition costs its kernels, few of them are spilled.
            if (!full_suite() && bits > 4 && resident < partitions - 1) continue;
            StreamSizes sizes = spilled_sizes(rows, bits, resident);
            sizes.chunk_rows = sizes.result_rows = small_or_full(500, 7000);
            check.rows(sizes, std::to_string(bits) + " bits, " + std::to_string(resident) + " resident");
            if (full_suite()) check.sums(sizes, std::to_string(bits) + " bits, " + std::to_string(resident));
        }
    }
}

GPU_TEST("staged join: pages from the minimum to all that rows take") {
    const uint64_t rows = small_or_full(1400, 20000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    const KeyedRelation build(keys, 8, {4}, test_seed());
    const KeyedRelation probe(foreign_keys(keys, 2 * rows, 0.8, test_seed()), 8, {8}, test_seed() + 1);
    const StagedJoinCheck check(build, probe);
    for (const int bits : {0, 3, 6}) {
        const uint64_t ample = ample_sizes(rows, bits).pages;
        const uint64_t fewest = least_sizes(bits).pages;
        const uint64_t step = std::max<uint64_t>(1, (ample - fewest) / small_or_full(2, 8));
        for (uint64_t pages = fewest; pages <= ample; pages += step) {
            // All begin in device memory; those that pages do not suffice for leave while rows come in.
            StreamSizes sizes = least_sizes(bits);
            sizes.pages = pages;
            check.all(sizes, std::to_string(bits) + " bits, " + std::to_string(pages) + " pages");
        }
    }
}

GPU_TEST("staged join: pages of eight rows and pages larger than a chunk") {
    const uint64_t rows = small_or_full(900, 5000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    const KeyedRelation build(keys, 4, {8}, test_seed());
    const KeyedRelation probe(foreign_keys(keys, rows, 0.8, test_seed()), 4, {2}, test_seed() + 1);
    const StagedJoinCheck check(build, probe);
    for (const uint64_t page_rows : {8, 16, 512, 4096}) {
        StreamSizes sizes = ample_sizes(rows, 3, 300, page_rows);
        check.all(sizes, "resident, pages of " + std::to_string(page_rows) + " rows");
        sizes.pages = fewest_pages(sizes);
        check.all(sizes, "least memory, pages of " + std::to_string(page_rows) + " rows");
    }
}

GPU_TEST("staged join: every kind, partitions larger than all pages") {
    const uint64_t rows = small_or_full(1300, 9000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    std::vector<uint64_t> build_keys = repeated_keys(keys, 1, test_seed());
    build_keys.insert(build_keys.end(), keys.begin(), keys.begin() + static_cast<int64_t>(rows / 4));
    const KeyedRelation build(build_keys, 8, {8}, test_seed(), 0.05);
    const KeyedRelation probe(foreign_keys(keys, rows, 0.6, test_seed()), 8, {8}, test_seed() + 1, 0.05);
    for (const NamedJoinKind& named : kNamedJoinKinds) {
        const StagedJoinCheck check(build, probe, named.kind);
        for (const int bits : {0, 1}) {
            StreamSizes sizes = least_sizes(bits);
            // Tools that watch every access take half a minute for all of them.
            if (full_suite() || bits == 1) check.all(sizes, std::string(named.name) + ", in parts, all begin resident");
            if (!full_suite() && bits == 1) continue;
            sizes.resident_partitions = 0;
            check.all(sizes, std::string(named.name) + ", in parts, all spilled");
        }
    }
}

// Marks are of 16 chunks of probe rows: a slice of the partition after the other, and in full joins all of them once
// more for the build rows that none has met.
GPU_TEST("staged join: partitions in parts, more probe rows than are marked at once") {
    const std::vector<uint64_t> keys = sparse_keys(700, test_seed());
    const KeyedRelation build(keys, 8, {8}, test_seed(), 0.05);
    StreamSizes sizes = least_sizes(0, 128, 64);
    sizes.resident_partitions = 0;
    for (const uint64_t probe_rows : {2047, 2048, 2049, 4500}) {
        if (!full_suite() && probe_rows != 2049) continue;
        const KeyedRelation probe(foreign_keys(keys, probe_rows, 0.6, test_seed()), 8, {4}, test_seed() + 1);
        for (const NamedJoinKind& named : kNamedJoinKinds) {
            const bool full = named.kind.keep_unmatched_build && named.kind.keep_unmatched_probe;
            if (!full && !full_suite()) continue;
            const StagedJoinCheck check(build, probe, named.kind);
            check.all(sizes, std::string(named.name) + ", " + std::to_string(probe_rows) + " probe rows");
        }
    }
}

GPU_TEST("staged join: some partitions larger than all pages, beside small ones") {
    const uint64_t rows = small_or_full(1200, 9000);
    std::vector<uint64_t> build_keys = sparse_keys(rows, test_seed());
    // These rows belong to one partition and are more than all pages hold.
    std::vector<uint64_t> heavy(rows / 3, build_keys[7]);
    build_keys.insert(build_keys.end(), heavy.begin(), heavy.end());
    build_keys = repeated_keys(build_keys, 1, test_seed());
    std::vector<uint64_t> probe_keys = foreign_keys(sparse_keys(rows, test_seed()), rows, 0.7, test_seed());
    const KeyedRelation build(build_keys, 8, {8}, test_seed());
    const KeyedRelation probe(probe_keys, 8, {4}, test_seed() + 1);
    for (const JoinKind& kind : {JoinKind{}, JoinKind{JoinEmit::kPairs, false, true, true},
                                 JoinKind{JoinEmit::kProbeOnce, true, false, false}}) {
        const StagedJoinCheck check(build, probe, kind);
        for (const uint32_t resident : {0U, 5U, kAllResident}) {
            StreamSizes sizes = least_sizes(3, 128, 32);
            sizes.resident_partitions = resident;
            check.all(sizes, "heavy partition, " + std::to_string(resident) + " resident");
        }
    }
}

GPU_TEST("staged join: payloads of every width") {
    const uint64_t rows = small_or_full(700, 6000);
    const std::vector<std::vector<uint32_t>> widths = {{},     {1},          {2},    {4},           {8},      {16},
                                                       {1, 2}, {1, 2, 4, 8}, {8, 8}, {16, 4, 2, 1}, {8, 8, 8}};
    for (const uint32_t key_width : {4U, 8U}) {
        const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
        for (size_t w = 0; w < widths.size(); ++w) {
            if (!full_suite() && (w + key_width / 4 + test_seed()) % 2 != 0) continue;
            const auto& probe_widths = widths[(w + 5) % widths.size()];
            const KeyedRelation build(keys, key_width, widths[w], test_seed());
            const KeyedRelation probe(foreign_keys(keys, rows, 0.8, test_seed()), key_width, probe_widths,
                                      test_seed() + 1);
            const StagedJoinCheck check(build, probe, {JoinEmit::kPairs, false, true, true});
            const std::string what = "widths " + std::to_string(w) + ", keys of " + std::to_string(key_width);
            check.all(ample_sizes(rows, 2), what + ", resident");
            check.all(spilled_sizes(rows, 2, 0), what + ", spilled");
            check.rows(least_sizes(1), what + ", in parts");
        }
    }
}

GPU_TEST("staged join: columns in any order, none, one twice") {
    const std::vector<uint64_t> keys = sparse_keys(800, test_seed());
    const KeyedRelation build(keys, 8, {8, 4}, test_seed());
    const KeyedRelation probe(foreign_keys(keys, 900, 0.8, test_seed()), 8, {2, 8}, test_seed() + 1);
    const StagedJoinCheck check(build, probe);
    // The columns are the key, the presence, 8 and 4 bytes (build), 2 and 8 bytes (probe). An order says which of them
    // are asked for, and in what sequence.
    const std::vector<JoinOutputColumn> all = all_columns_and_presence(build, probe);
    const std::vector<std::vector<size_t>> orders = {{5, 3, 0, 2}, {1}, {4, 4}, {2, 0, 5, 1, 3, 4, 0}};
    for (const std::vector<size_t>& order : orders) {
        for (const StreamSizes& sizes : {ample_sizes(800, 2), spilled_sizes(800, 2, 1)}) {
            StagedJoinSpec spec = check.spec(JoinResultKind::kRows, sizes);
            HostTable expected;
            std::vector<uint32_t> widths;
            spec.output.clear();
            for (const size_t column : order) {
                spec.output.push_back(all[column]);
                expected.columns.push_back(check.expected().columns[column]);
                widths.push_back(expected.columns.back().width);
            }
            PinnedChunks build_chunks = check.chunks(0, sizes);
            PinnedChunks probe_chunks = check.chunks(1, sizes);
            CollectingSink sink(widths, expected.rows());
            const StagedJoinOutcome outcome = run_staged_join(test_device(), spec, build_chunks, probe_chunks, &sink);
            const std::string difference = row_difference(outcome.table, expected);
            if (!difference.empty()) fail(difference, __FILE__, __LINE__);
        }
    }
}

GPU_TEST("staged join: results larger than their buffers, sinks and sources with few blocks") {
    const std::vector<uint64_t> keys = sparse_keys(small_or_full(60, 200), test_seed());
    const KeyedRelation build(repeated_keys(keys, 9, test_seed()), 8, {8}, test_seed());
    const KeyedRelation probe(repeated_keys(keys, 11, test_seed() + 1), 8, {8}, test_seed() + 1);
    const StagedJoinCheck check(build, probe);
    for (const uint32_t slots : {1U, 2U, 4U}) {
        for (const uint32_t resident : {0U, 2U, kAllResident}) {
            StreamSizes sizes = spilled_sizes(build.host().rows(), 2, resident);
            sizes.chunk_rows = sizes.result_rows = 100;
            sizes.chunk_slots = slots + 1;
            sizes.host_chunk_slots = slots;
            sizes.result_slots = slots;
            const StagedJoinSpec spec = check.spec(JoinResultKind::kRows, sizes);
            PinnedChunks build_chunks = check.chunks(0, sizes);
            PinnedChunks probe_chunks = check.chunks(1, sizes);
            CollectingSink sink = check.sink();
            const StagedJoinOutcome outcome = run_staged_join(test_device(), spec, build_chunks, probe_chunks, &sink);
            check.check(spec, outcome, std::to_string(slots) + " slots");
            CHECK(sink.blocks() >= check.expected_rows() / 100);
            // A caller that has as many blocks as the join has slots waits for none for ever.
            CHECK(sink.open_most() <= slots);
            CHECK(build_chunks.held_most() <= slots);
            CHECK(probe_chunks.held_most() <= slots);
        }
    }
}

}  // namespace spillway::gpu_test
