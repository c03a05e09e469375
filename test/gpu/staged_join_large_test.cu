// SPDX-License-Identifier: Apache-2.0
// Joins beyond GPU memory with inputs of 2^24 x 2^25 rows, compared by sums and by the hash of their rows, and one with
// more than 2^32 rows in its result. Small in the small suite.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "support/device_array.hpp"
#include "support/staged_join_check.hpp"

namespace spillway::gpu_test {

namespace {

// A key and a payload of 8 bytes each.
struct PinnedRelation {
    uint64_t rows;
    PinnedBytes keys;
    PinnedBytes payloads;

    explicit PinnedRelation(uint64_t count) : rows(count), keys(count * 8), payloads(count * 8) {}
    uint64_t* key() const { return reinterpret_cast<uint64_t*>(keys.data()); }
    uint64_t* payload() const { return reinterpret_cast<uint64_t*>(payloads.data()); }
};

class RelationSource final : public cuda::ChunkSource {
  public:
    RelationSource(const PinnedRelation& relation, uint64_t chunk_rows)
        : relation_(relation), chunk_rows_(chunk_rows) {}
    bool next(cuda::Chunk& chunk) override {
        if (at_ == relation_.rows) return false;
        chunk.rows = std::min(chunk_rows_, relation_.rows - at_);
        chunk.key = relation_.key() + at_;
        chunk.key_valid = nullptr;
        chunk.columns = {relation_.payload() + at_};
        at_ += chunk.rows;
        return true;
    }

  private:
    const PinnedRelation& relation_;
    const uint64_t chunk_rows_;
    uint64_t at_ = 0;
};

// Key, build payload, probe payload.
class ColumnsSink final : public cuda::ResultSink {
  public:
    explicit ColumnsSink(uint64_t rows) : rows_(rows) {
        for (int c = 0; c < 3; ++c) {
            columns_.emplace_back(rows * 8);
            if (rows > 0) std::memset(columns_.back().data(), kSpoiled, rows * 8);
        }
    }
    std::vector<void*> open(uint64_t rows) override {
        if (rows > rows_ - opened_) fail("the result has more rows than it must have", __FILE__, __LINE__);
        std::vector<void*> places;
        for (const PinnedBytes& column : columns_) places.push_back(column.data() + opened_ * 8);
        opened_ += rows;
        return places;
    }
    void close() override {}
    RowHash hash() const {
        CHECK_EQ(opened_, rows_);
        return device_row_hash({{columns_[0].data(), 8}, {columns_[1].data(), 8}, {columns_[2].data(), 8}}, rows_);
    }

  private:
    const uint64_t rows_;
    uint64_t opened_ = 0;
    std::vector<PinnedBytes> columns_;
};

// Unique build keys 0 .. rows - 1; four in five probe rows have a partner.
struct LargeInputs {
    PinnedRelation build;
    PinnedRelation probe;
    uint64_t matches = 0;
    uint64_t unmatched_build = 0;
    std::vector<uint64_t> sums = {0, 0, 0};  // of the matches' keys, build and probe payloads
    RowHash hash;

    LargeInputs(uint64_t build_rows, uint64_t probe_rows) : build(build_rows), probe(probe_rows) {
        const std::vector<uint64_t> keys = dense_permutation(build_rows, test_seed());
        std::vector<uint64_t> row_of(build_rows);
        std::vector<bool> matched(build_rows);
        for (uint64_t row = 0; row < build_rows; ++row) {
            build.key()[row] = keys[row];
            build.payload()[row] = random64(test_seed() + 1, row);
            row_of[keys[row]] = row;
        }
        HostTable expected;
        std::vector<uint64_t> columns[3];
        for (uint64_t row = 0; row < probe_rows; ++row) {
            const uint64_t key = random64(test_seed() + 2, row) % (build_rows / 4 * 5);
            probe.key()[row] = key;
            probe.payload()[row] = random64(test_seed() + 3, row);
            if (key >= build_rows) continue;
            const uint64_t cells[3] = {key, build.payload()[row_of[key]], probe.payload()[row]};
            for (size_t c = 0; c < 3; ++c) {
                columns[c].push_back(cells[c]);
                sums[c] += cells[c];
            }
            matched[key] = true;
        }
        matches = columns[0].size();
        unmatched_build = static_cast<uint64_t>(std::count(matched.begin(), matched.end(), false));
        hash = host_row_hash({{columns[0].data(), 8}, {columns[1].data(), 8}, {columns[2].data(), 8}}, matches);
    }
};

StagedJoinSpec large_spec(JoinResultKind result, const StreamSizes& sizes) {
    StagedJoinSpec spec;
    spec.widths[0] = {8};
    spec.widths[1] = {8};
    spec.result = result;
    spec.sizes = sizes;
    if (result != JoinResultKind::kCount) {
        spec.output = {{OutputSide::kKey, 0}, {OutputSide::kBuild, 0}, {OutputSide::kProbe, 0}};
    }
    return spec;
}

// Pages for this share of the partitions, which begin in device memory.
StreamSizes large_sizes(uint64_t build_rows, int radix_bits, uint64_t percent) {
    const uint64_t partitions = 1ULL << radix_bits;
    const uint64_t page_rows = small_or_full(32, 4096);
    StreamSizes sizes = ample_sizes(build_rows, radix_bits, small_or_full(500, 1 << 20), page_rows);
    sizes.resident_partitions = static_cast<uint32_t>(partitions * percent / 100);
    // A partition's rows may be more than their mean by some standard deviations.
    const uint64_t partition_pages = build_rows / partitions * 9 / 8 / page_rows + 2;
    if (percent < 100) sizes.pages = sizes.resident_partitions * partition_pages + fewest_pages(sizes);
    sizes.spill_block_bytes = small_or_full(64 << 10, 16 << 20);
    sizes.spill_bytes = 2ULL << 30;
    return sizes;
}

StreamReport run_large(cuda::Device& device, const StagedJoinSpec& spec, const PinnedRelation& build,
                       const PinnedRelation& probe, ColumnsSink* sink) {
    RelationSource build_source(build, spec.sizes.chunk_rows);
    RelationSource probe_source(probe, spec.sizes.chunk_rows);
    StagedJoin join(device, spec);
    join.run(cuda::kBuildSide, build_source, sink);
    join.run(cuda::kProbeSide, probe_source, sink);
    const StreamReport report = join.report();
    CHECK_EQ(report.rows[0], build.rows);
    CHECK_EQ(report.rows[1], probe.rows);
    return report;
}

}  // namespace

GPU_TEST("staged join: large inputs, residency of none, 30 % and all") {
    const uint64_t build_rows = small_or_full(1ULL << 12, 1ULL << 24);
    const LargeInputs inputs(build_rows, 2 * build_rows);
    cuda::Device device(test_device().ordinal(), 8ULL << 30, 3ULL << 30);
    for (const uint64_t percent : {0, 30, 100}) {
        const StreamSizes sizes = large_sizes(build_rows, static_cast<int>(small_or_full(4, 8)), percent);
        const StreamReport summed =
            run_large(device, large_spec(JoinResultKind::kSums, sizes), inputs.build, inputs.probe, nullptr);
        CHECK_EQ(summed.result_rows, inputs.matches);
        CHECK(std::equal(summed.sums.begin(), summed.sums.end(), inputs.sums.begin(), inputs.sums.end()));
        // What is expected to fit is not spilled, and the rest is, once.
        const uint64_t resident_rows = build_rows - summed.spilled_rows[0];
        CHECK(resident_rows >= build_rows * percent / 100 * 3 / 4);
        CHECK(resident_rows <= build_rows * percent / 100 * 5 / 4);
        ColumnsSink sink(inputs.matches);
        const StreamReport written =
            run_large(device, large_spec(JoinResultKind::kRows, sizes), inputs.build, inputs.probe, &sink);
        CHECK_EQ(written.result_rows, inputs.matches);
        CHECK_EQ(sink.hash(), inputs.hash);
        StagedJoinSpec full = large_spec(JoinResultKind::kCount, sizes);
        full.kind = {JoinEmit::kPairs, false, true, true};
        const uint64_t outer_rows = inputs.probe.rows + inputs.unmatched_build;
        CHECK_EQ(run_large(device, full, inputs.build, inputs.probe, nullptr).result_rows, outer_rows);
        full.kind = {JoinEmit::kBuildOnce, true, false, false};
        CHECK_EQ(run_large(device, full, inputs.build, inputs.probe, nullptr).result_rows, inputs.unmatched_build);
        CHECK_EQ(device.memory().blocks(), 0);
        CHECK_EQ(device.staging().blocks(), 0);
    }
}

GPU_TEST("staged join: large inputs, half of the rows with one key") {
    const uint64_t build_rows = small_or_full(1ULL << 12, 1ULL << 22);
    PinnedRelation build(build_rows);
    PinnedRelation probe(build_rows);
    uint64_t hot_rows = 0;
    const uint64_t hot = build_rows + 7;
    std::vector<uint64_t> sums = {0, 0, 0};
    for (uint64_t row = 0; row < build_rows; ++row) {
        const bool is_hot = random64(test_seed(), row) % 2 == 0;
        hot_rows += is_hot ? 1 : 0;
        build.key()[row] = is_hot ? hot : row;
        probe.key()[row] = random64(test_seed() + 1, row) % build_rows;
        build.payload()[row] = row;
        probe.payload()[row] = 3 * row;
    }
    // The hot key has one partner.
    probe.key()[5] = hot;
    uint64_t matches = 0;
    for (uint64_t row = 0; row < build_rows; ++row) {
        const uint64_t key = probe.key()[row];
        if (key == hot || build.key()[key] != key) continue;
        ++matches;
        sums[0] += key;
        sums[1] += key;
        sums[2] += 3 * row;
    }
    for (uint64_t row = 0; row < build_rows; ++row) sums[1] += build.key()[row] == hot ? row : 0;
    sums[0] += hot_rows * hot;
    sums[2] += hot_rows * 15;
    for (const uint64_t percent : {0, 30}) {
        // Where none is resident, the partition of the hot key is larger than all pages.
        const StreamSizes sizes = large_sizes(build_rows, 4, percent);
        const StreamReport report =
            run_large(test_device(), large_spec(JoinResultKind::kSums, sizes), build, probe, nullptr);
        CHECK_EQ(report.result_rows, matches + hot_rows);
        CHECK(std::equal(report.sums.begin(), report.sums.end(), sums.begin(), sums.end()));
    }
}

GPU_TEST("staged join: more result rows than 32 bits count") {
    const uint64_t rows = small_or_full(300, 70000);
    PinnedRelation build(rows);
    PinnedRelation probe(rows);
    std::vector<uint64_t> sums = {0, 0, 0};
    for (uint64_t row = 0; row < rows; ++row) {
        build.key()[row] = probe.key()[row] = ~0ULL - 5;
        build.payload()[row] = random64(test_seed(), row);
        probe.payload()[row] = row;
        sums[0] += (~0ULL - 5) * rows;
        sums[1] += build.payload()[row] * rows;
        sums[2] += row * rows;
    }
    for (const StreamSizes& sizes : {ample_sizes(rows, 2, 20000, 256), least_sizes(2, 10000, 256)}) {
        const StreamReport report =
            run_large(test_device(), large_spec(JoinResultKind::kSums, sizes), build, probe, nullptr);
        CHECK_EQ(report.result_rows, rows * rows);
        CHECK(std::equal(report.sums.begin(), report.sums.end(), sums.begin(), sums.end()));
        const StagedJoinSpec count = large_spec(JoinResultKind::kCount, sizes);
        CHECK_EQ(run_large(test_device(), count, build, probe, nullptr).result_rows, rows * rows);
    }
}

}  // namespace spillway::gpu_test
