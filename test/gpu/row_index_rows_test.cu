// SPDX-License-Identifier: Apache-2.0
// Inputs of more rows than 32 bits count: one chunk that comes as often as it takes, so that sums are known. Small in
// the small suite.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "coherent_join/coherent_join.hpp"
#include "gpu_test.hpp"
#include "staged_group_by/staged_group_by.hpp"
#include "support/staged_group_by_check.hpp"
#include "support/staged_join_check.hpp"

namespace spillway::gpu_test {

namespace {

// A key and a payload of 4 bytes each, over and over.
class RepeatedChunk final : public cuda::ChunkSource {
  public:
    RepeatedChunk(uint64_t rows, uint64_t times)
        : rows_(rows),
          times_(times),
          left_(times),
          keys_(rows * sizeof(uint32_t)),
          payloads_(rows * sizeof(uint32_t)) {}
    uint32_t* key() const { return reinterpret_cast<uint32_t*>(keys_.data()); }
    uint32_t* payload() const { return reinterpret_cast<uint32_t*>(payloads_.data()); }
    uint64_t all_rows() const { return rows_ * times_; }
    void again() { left_ = times_; }

    bool next(cuda::Chunk& chunk) override {
        if (left_ == 0) return false;
        --left_;
        chunk.rows = rows_;
        chunk.key = key();
        chunk.key_valid = nullptr;
        chunk.columns = {payload()};
        return true;
    }

  private:
    const uint64_t rows_;
    const uint64_t times_;
    uint64_t left_;
    const PinnedBytes keys_;
    const PinnedBytes payloads_;
};

uint64_t chunk_rows() {
    return small_or_full(1000, 1ULL << 24);
}
// With one chunk more than makes 2^32 rows.
uint64_t times() {
    return small_or_full(7, 257);
}

// Keys 3 i of the build side; a quarter of the probe rows has a partner.
struct ManyProbeRows {
    RepeatedChunk build{small_or_full(300, 1ULL << 18), 1};
    RepeatedChunk probe{chunk_rows(), times()};
    uint64_t matches = 0;
    cuda::FixedList<uint64_t, cuda::kSumColumnsMax> sums = {0, 0, 0};  // keys, build and probe payloads

    ManyProbeRows() {
        const uint64_t build_rows = build.all_rows();
        for (uint64_t row = 0; row < build_rows; ++row) {
            build.key()[row] = static_cast<uint32_t>(3 * row);
            build.payload()[row] = static_cast<uint32_t>(random64(test_seed(), row));
        }
        for (uint64_t row = 0; row < chunk_rows(); ++row) {
            const uint64_t drawn = random64(test_seed() + 1, row);
            const uint64_t of = drawn % build_rows;
            const bool has_partner = (drawn >> 40) % 4 == 0;
            probe.key()[row] = static_cast<uint32_t>(3 * of + (has_partner ? 0 : 1));
            probe.payload()[row] = static_cast<uint32_t>(drawn >> 20);
            if (!has_partner) continue;
            matches += times();
            sums[0] += times() * 3 * of;
            sums[1] += times() * build.payload()[of];
            sums[2] += times() * probe.payload()[row];
        }
    }

    StagedJoinSpec spec(const StreamSizes& sizes) const {
        StagedJoinSpec spec;
        spec.key_bytes = 4;
        spec.widths[0] = spec.widths[1] = {4};
        spec.result = JoinResultKind::kSums;
        spec.output = {{OutputSide::kKey, 0}, {OutputSide::kBuild, 0}, {OutputSide::kProbe, 0}};
        spec.sizes = sizes;
        return spec;
    }

    void check(const StreamReport& report) const {
        CHECK_EQ(report.rows[1], probe.all_rows());
        CHECK_EQ(report.result_rows, matches);
        CHECK(report.sums == sums);
    }
};

// Groups as they come: a key of 4 bytes and two values of 8.
class GroupColumns final : public cuda::ResultSink {
  public:
    explicit GroupColumns(uint64_t groups)
        : groups_(groups), keys_(groups * 4), values_{PinnedBytes(groups * 8), PinnedBytes(groups * 8)} {}
    std::vector<void*> open(uint64_t rows) override {
        if (rows > groups_ - opened_) fail("there are more groups than there must be", __FILE__, __LINE__);
        std::vector<void*> places = {keys_.data() + opened_ * 4};
        for (const PinnedBytes& values : values_) places.push_back(values.data() + opened_ * 8);
        opened_ += rows;
        return places;
    }
    void close() override {}
    uint32_t key(uint64_t group) const { return reinterpret_cast<const uint32_t*>(keys_.data())[group]; }
    uint64_t value(int column, uint64_t group) const {
        return reinterpret_cast<const uint64_t*>(values_[column].data())[group];
    }

  private:
    const uint64_t groups_;
    uint64_t opened_ = 0;
    const PinnedBytes keys_;
    const PinnedBytes values_[2];
};

}  // namespace

GPU_TEST("row index rows: a join of more than 2^32 probe rows, some of which are spilled") {
    ManyProbeRows rows;
    StreamSizes sizes = ample_sizes(rows.build.all_rows(), 5, chunk_rows(), small_or_full(16, 1024));
    sizes.resident_partitions = 31;
    sizes.spill_block_bytes = small_or_full(64 << 10, 16 << 20);
    sizes.spill_bytes = small_or_full(16 << 20, 2ULL << 30);
    StagedJoin join(test_device(), rows.spec(sizes));
    join.run(cuda::kBuildSide, rows.build, nullptr);
    join.run(cuda::kProbeSide, rows.probe, nullptr);
    const StreamReport& report = join.report();
    rows.check(report);
    CHECK(report.spilled_rows[1] > 0);
}

GPU_TEST("row index rows: a join by kernels alone of more than 2^32 probe rows") {
    ManyProbeRows rows;
    cuda::CoherentJoinSpec spec;
    spec.join = rows.spec(ample_sizes(rows.build.all_rows(), 6, chunk_rows()));
    spec.join.sizes.spill_bytes = 1ULL << 30;
    spec.rows[0] = rows.build.all_rows();
    spec.rows[1] = rows.probe.all_rows();
    spec.options.chunks = static_cast<uint32_t>(times());
    spec.options.shares = {1, 0, 0};  // 35 GB
    for (const bool second_pass : {true, false}) {
        spec.options.second_pass = second_pass;
        rows.build.again();
        rows.probe.again();
        cuda::CoherentJoin join(test_device(), spec);
        join.run(cuda::kBuildSide, rows.build, nullptr);
        join.run(cuda::kProbeSide, rows.probe, nullptr);
        rows.check(join.report());
    }
}

GPU_TEST("row index rows: a group-by of more than 2^32 rows") {
    RepeatedChunk source(chunk_rows(), times());
    constexpr uint64_t kGroups = 777;
    std::vector<uint64_t> counts(kGroups);
    std::vector<uint64_t> sums(kGroups);
    for (uint64_t row = 0; row < chunk_rows(); ++row) {
        const uint64_t drawn = random64(test_seed(), row);
        source.key()[row] = static_cast<uint32_t>(drawn % kGroups);
        source.payload()[row] = static_cast<uint32_t>(drawn >> 32);
        counts[drawn % kGroups] += times();
        sums[drawn % kGroups] += times() * (drawn >> 32);
    }
    // Few rows do not have all of them.
    const auto groups = static_cast<uint64_t>(kGroups - std::count(counts.begin(), counts.end(), 0));
    for (const PreAggregation pre_aggregation : {PreAggregation::kAuto, PreAggregation::kNever}) {
        StagedGroupBySpec spec;
        spec.key_bytes = 4;
        spec.widths = {4};
        spec.aggregates = {{cuda::GroupAggregateKind::kCountRows, cuda::ValueKind::kUnsigned, 0},
                           {cuda::GroupAggregateKind::kSum, cuda::ValueKind::kUnsigned, 0}};
        spec.sizes = with_pre_aggregation(ample_group_sizes(4 * chunk_rows(), 4, chunk_rows(), small_or_full(64, 4096)),
                                          pre_aggregation);
        spec.sizes.spill_bytes = 1ULL << 30;
        source.again();
        GroupColumns sink(groups);
        StagedGroupBy group_by(test_device(), spec);
        group_by.run(0, source, &sink);
        const StreamReport& report = group_by.report();
        CHECK_EQ(report.rows[0], source.all_rows());
        CHECK_EQ(report.result_rows, groups);
        for (uint64_t g = 0; g < groups; ++g) {
            const uint32_t key = sink.key(g);
            CHECK(key < kGroups);
            CHECK_EQ(sink.value(0, g), counts[key]);
            CHECK_EQ(sink.value(1, g), sums[key]);
        }
    }
}

}  // namespace spillway::gpu_test
