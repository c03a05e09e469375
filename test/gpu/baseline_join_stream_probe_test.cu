// SPDX-License-Identifier: Apache-2.0
// The build side sorted or partitioned once, past which the probe side streams: results for keys and sizes of every
// kind, results that are larger than what is joined at once, and what they do with memory and errors.
#include <cstdint>
#include <string>
#include <vector>

#include "baseline_join/baseline_join_policy.hpp"
#include "gpu_test.hpp"
#include "memory_model/baseline_memory.hpp"
#include "support/baseline_join_check.hpp"
#include "support/error_of.hpp"
#include "support/failing_allocations.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::StreamProbe;

constexpr StreamProbe kWays[] = {StreamProbe::kSorted, StreamProbe::kPartitioned};

std::string name_of(StreamProbe way) {
    return cuda::kStreamProbeNames[static_cast<int>(way)];
}

BaselineSpec spec_of(const BaselineCheck& check, JoinResultKind result, StreamProbe way, const StreamSizes& sizes) {
    BaselineSpec spec = check.spec(result, sizes);
    spec.stream_probe = way;
    return spec;
}

// Rows, count and sums, copies beside joins and after them.
void check_all(const BaselineCheck& check, const StreamSizes& sizes, const std::string& what) {
    for (const StreamProbe way : kWays) {
        for (const auto result : {JoinResultKind::kRows, JoinResultKind::kSums, JoinResultKind::kCount}) {
            for (const bool overlap : {true, false}) {
                // The small suite has each of these in half of the cases.
                const bool odd = check.relations().expected_rows() % 2 != 0;
                if (!full_suite() && (result == JoinResultKind::kRows) != (overlap != odd)) continue;
                BaselineSpec spec = spec_of(check, result, way, sizes);
                spec.overlap = overlap;
                check.expect(BaselineAlgorithm::kStreamProbe, spec,
                             what + ", " + name_of(way) + ", overlap " + std::to_string(overlap));
            }
        }
    }
}

}  // namespace

GPU_TEST("stream probe: none, one, two and odd numbers of rows") {
    const std::vector<uint64_t> all_rows =
        full_suite() ? std::vector<uint64_t>{0, 1, 2, 31, 499, 500, 501, 3001} : std::vector<uint64_t>{0, 1, 777};
    for (const uint64_t build_rows : all_rows) {
        for (const uint64_t probe_rows : all_rows) {
            const std::vector<uint64_t> keys = sparse_keys(build_rows, test_seed());
            const KeyedRelation build(keys, 8, {8}, test_seed());
            const KeyedRelation probe(foreign_keys(keys, probe_rows, 0.8, test_seed()), 8, {8}, test_seed() + 1);
            check_all(BaselineCheck(build, probe), ample_sizes(build_rows, 0),
                      std::to_string(build_rows) + " x " + std::to_string(probe_rows) + " rows");
        }
    }
}

GPU_TEST("stream probe: widths of keys and columns, NULL keys, keys that come twice") {
    const std::vector<std::vector<uint32_t>> all_widths = {{}, {4}, {8}, {8, 2}, {16, 8}, {1, 4, 4}};
    const uint64_t rows = small_or_full(900, 40000);
    size_t turn = test_seed();
    for (const uint32_t key_width : {4U, 8U}) {
        for (size_t w = 0; w < all_widths.size(); ++w) {
            if (!full_suite() && ++turn % 3 != 0) continue;
            const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
            std::vector<uint64_t> build_keys = keys;
            build_keys.insert(build_keys.end(), keys.begin(), keys.begin() + static_cast<int64_t>(rows / 5));
            const KeyedRelation build(build_keys, key_width, all_widths[w], test_seed(), 0.1);
            const KeyedRelation probe(foreign_keys(keys, 2 * rows, 0.6, test_seed()), key_width,
                                      all_widths[all_widths.size() - 1 - w], test_seed() + 1, 0.1);
            check_all(BaselineCheck(build, probe), ample_sizes(rows, 0, rows / 3 + 1),
                      "widths of kind " + std::to_string(w) + ", keys of " + std::to_string(key_width) + " bytes");
        }
    }
}

GPU_TEST("stream probe: keys at both ends of signed and unsigned numbers, m:n, a hot key") {
    const uint64_t rows = small_or_full(1000, 10000);
    for (const uint32_t key_width : {4U, 8U}) {
        const uint64_t sign = key_width == 4 ? 1ULL << 31 : 1ULL << 63;
        const std::string keys_of = ", keys of " + std::to_string(key_width) + " bytes";
        std::vector<uint64_t> ends;
        for (uint64_t row = 0; row < rows; ++row) ends.push_back((row % 3) * sign + row / 6 - rows / 12);
        const KeyedRelation build(ends, key_width, {8}, test_seed());
        const KeyedRelation probe(foreign_keys(ends, 2 * rows, 0.9, test_seed()), key_width, {4}, test_seed() + 1);
        check_all(BaselineCheck(build, probe), ample_sizes(rows, 0), "both ends" + keys_of);
        const std::vector<uint64_t> keys = sparse_keys(rows / 6, test_seed());
        const KeyedRelation many(repeated_keys(keys, 6, test_seed()), key_width, {4}, test_seed());
        const KeyedRelation more(repeated_keys(keys, 5, test_seed() + 1), key_width, {8}, test_seed() + 1);
        check_all(BaselineCheck(many, more), ample_sizes(rows, 0), "m:n" + keys_of);
        const std::vector<uint64_t> hot = one_hot_key(rows, 0.05, test_seed());
        const KeyedRelation hot_build(hot, key_width, {8}, test_seed());
        const KeyedRelation hot_probe(foreign_keys(hot, rows, 0.9, test_seed()), key_width, {8}, test_seed() + 1);
        check_all(BaselineCheck(hot_build, hot_probe), ample_sizes(rows, 0), "a hot key" + keys_of);
    }
}

// More rows than are joined at once: of a chunk and, where one key has all build rows, of one probe row.
GPU_TEST("stream probe: results of a chunk in several pieces") {
    const uint64_t repeats = small_or_full(300, 900);
    const KeyedRelation build(std::vector<uint64_t>(repeats, 7), 8, {8}, test_seed());
    const KeyedRelation probe(std::vector<uint64_t>(repeats, 7), 8, {8}, test_seed() + 1);
    check_all(BaselineCheck(build, probe), ample_sizes(repeats, 0), "one key");
    if (!full_suite()) return;
    const KeyedRelation long_build(std::vector<uint64_t>(cuda::kPieceRows + 5000, 7), 8, {4}, test_seed(), 0.01);
    const KeyedRelation one({7, 8}, 8, {}, test_seed() + 1);
    check_all(BaselineCheck(long_build, one), ample_sizes(0, 0, 20000), "one key, one probe row");
}

// Bits of keys that are there begin and end inside of words, and come first in some chunk behind the first one.
GPU_TEST("stream probe: chunks of one row, of none, of all, some of them with NULL keys") {
    const std::vector<uint64_t> keys = sparse_keys(1000, test_seed());
    const KeyedRelation build(keys, 8, {4, 8}, test_seed(), 0.02);
    const KeyedRelation probe(foreign_keys(keys, 1300, 0.7, test_seed()), 8, {8}, test_seed() + 1, 0.02);
    BaselineCheck check(build, probe);
    const std::vector<std::vector<uint64_t>> all_cuts = {{1, 500, 0, 0, 37}, {31, 1, 33, 32, 64, 63}, {1}};
    for (const std::vector<uint64_t>& cuts : all_cuts) {
        check.cuts[0] = cuts;
        check.cuts[1] = {31, 0, 32, 1};
        for (const StreamProbe way : kWays) {
            check.expect(BaselineAlgorithm::kStreamProbe,
                         spec_of(check, JoinResultKind::kRows, way, ample_sizes(1000, 0)),
                         "odd chunks from " + std::to_string(cuts.front()) + " on, " + name_of(way));
        }
    }
}

GPU_TEST("stream probe: a second pass of partitions, and a merge of many tiles") {
    const uint64_t rows = small_or_full(60000, 3000000);
    const std::vector<uint64_t> keys = dense_permutation(rows, test_seed());
    const KeyedRelation build(keys, 8, {8}, test_seed());
    const KeyedRelation probe(foreign_keys(keys, rows, 0.9, test_seed()), 8, {8}, test_seed() + 1);
    const BaselineCheck check(build, probe);
    const StreamSizes sizes = ample_sizes(0, 0, rows / 4 + 11);
    for (const StreamProbe way : kWays) {
        const BaselineSpec spec = spec_of(check, JoinResultKind::kRows, way, sizes);
        cuda::Device& device = test_device();
        const uint64_t before = device.memory().used_bytes();
        device.memory().reset_peak();
        check.check(spec, check.run(device, BaselineAlgorithm::kStreamProbe, spec), name_of(way));
        // The plan's memory is an upper bound, and nothing stays.
        CHECK(device.memory().peak_bytes() - before <= cuda::resident_join_bytes(spec.join, rows, way));
        CHECK_EQ(device.memory().used_bytes(), before);
    }
}

GPU_TEST("stream probe: memory that fails, cancelled joins, too many rows, too little memory") {
    const uint64_t rows = small_or_full(600, 1000);
    const std::vector<uint64_t> keys = dense_permutation(rows, test_seed());
    const KeyedRelation build(keys, 8, {8}, test_seed(), 0.05);
    const KeyedRelation probe(foreign_keys(keys, 2 * rows, 0.7, test_seed()), 8, {8}, test_seed() + 1);
    const BaselineCheck check(build, probe);
    cuda::Device& device = test_device();
    for (const StreamProbe way : kWays) {
        const BaselineSpec spec = spec_of(check, JoinResultKind::kRows, way, ample_sizes(rows, 0, rows / 4));
        const auto run = [&] { return check.run(device, BaselineAlgorithm::kStreamProbe, spec); };
        check_failing_allocations(name_of(way).c_str(), run, [&](const BaselineOutcome& outcome) {
            check.check(spec, outcome, "between failures");
        });
        const uint64_t before = device.memory().used_bytes();
        for (const int side : {0, 1}) {
            PinnedChunks chunks[] = {check.chunks(0, spec.join.sizes), check.chunks(1, spec.join.sizes)};
            chunks[side].on_next = [&](uint64_t chunk) { device.set_cancelled(chunk == 1); };
            CollectingSink sink = check.relations().sink();
            const auto cancelled = [&] {
                run_baseline_join(device, BaselineAlgorithm::kStreamProbe, spec, chunks[0], chunks[1], &sink);
            };
            const cuda::Error error = error_of(cancelled);
            device.set_cancelled(false);
            CHECK_EQ(error.code(), cuda::ErrorCode::kCancelled);
            CHECK_EQ(device.memory().used_bytes(), before);
        }
        BaselineSpec few = spec;
        few.build_rows = rows - 1;
        const auto too_many = [&] { check.run(device, BaselineAlgorithm::kStreamProbe, few); };
        CHECK_EQ(error_of(too_many).code(), cuda::ErrorCode::kInvalid);
        cuda::Device small(device.ordinal(), 64 << 20, 256 << 20);
        BaselineSpec large = spec;
        large.build_rows = 16 << 20;
        const auto too_large = [&] { check.run(small, BaselineAlgorithm::kStreamProbe, large); };
        CHECK_EQ(error_of(too_large).code(), cuda::ErrorCode::kOutOfMemory);
        check.check(spec, run(), "after failures");
    }
}

}  // namespace spillway::gpu_test
