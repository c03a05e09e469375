// SPDX-License-Identifier: Apache-2.0
// Sums over all rows of a join that flows into a group-by without keys: the join adds them up instead of writing rows,
// where it can, and they are exact.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "staged_group_by/staged_group_by.hpp"
#include "stream/chunk_pipe.hpp"
#include "support/error_of.hpp"
#include "support/staged_group_by_check.hpp"
#include "support/staged_join_check.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::ChunkPipe;
using cuda::GroupAggregateKind;
using cuda::OutputSide;
using cuda::PipeColumnKind;
using cuda::PipeSpec;

constexpr uint64_t kChunkRows = 500;

// Columns of result rows: the key, 8 bytes of the probe side, and of the build side 4 bytes, a byte that is 0 where
// these are NULL, and 2 bytes.
enum Output : int16_t { kKey, kLong, kInt, kIntValid, kShort, kOutputs };
constexpr uint32_t kOutputWidths[kOutputs] = {8, 8, 4, 1, 2};

struct WantedSum {
    Output output = kLong;
    PipeColumnKind kind = PipeColumnKind::kValue;
    bool is_signed = true;
    GroupAggregateKind aggregate = GroupAggregateKind::kSum;
};

const std::vector<WantedSum> kAllSums = {{kLong},
                                         {kLong, PipeColumnKind::kLow, false},
                                         {kLong, PipeColumnKind::kHigh},
                                         {kInt},
                                         {kInt, PipeColumnKind::kPresence, false},
                                         {kInt, PipeColumnKind::kValue, true, GroupAggregateKind::kMean},
                                         {kShort},
                                         {kShort, PipeColumnKind::kValue, false},
                                         {kKey, PipeColumnKind::kLow, false},
                                         {kKey, PipeColumnKind::kHigh}};

struct Sides {
    HostTable build;
    HostTable probe;

    Sides(const std::vector<uint64_t>& build_keys, const std::vector<uint64_t>& probe_keys) {
        const uint64_t rows = build_keys.size();
        const HostColumn random = payload_column(std::max(rows, probe_keys.size()), 8, test_seed(), 3);
        std::vector<int64_t> longs(probe_keys.size());
        for (uint64_t i = 0; i < longs.size(); ++i) {
            longs[i] = static_cast<int64_t>(random.value<uint64_t>(i) >> 24) - (int64_t{1} << 39);
        }
        std::vector<uint8_t> valid(rows);
        for (uint64_t i = 0; i < rows; ++i) valid[i] = random.value<uint64_t>(i) % 3 == 0 ? 0 : 1;
        build.columns = {column_of(build_keys), payload_column(rows, 4, test_seed(), 1), column_of(valid),
                         payload_column(rows, 2, test_seed(), 2)};
        probe.columns = {column_of(probe_keys), column_of(longs)};
    }
};

PipeSpec pipe_spec(const std::vector<WantedSum>& sums) {
    PipeSpec spec;
    for (const WantedSum& sum : sums) {
        cuda::PipeColumn column;
        const auto validity = static_cast<int16_t>(sum.output == kInt ? kIntValid : -1);
        column.value.parts.push_back({sum.output, validity, 0, 0});
        column.value.width = kOutputWidths[sum.output];
        column.kind = sum.kind;
        spec.columns.push_back(column);
    }
    return spec;
}

cuda::StagedGroupBySpec group_spec(const std::vector<WantedSum>& sums, const StreamSizes& sizes) {
    cuda::StagedGroupBySpec spec;
    spec.widths = pipe_spec(sums).widths();
    spec.aggregates.push_back({GroupAggregateKind::kCountRows, cuda::ValueKind::kUnsigned, 0});
    for (uint32_t c = 0; c < sums.size(); ++c) {
        const auto kind = sums[c].is_signed ? cuda::ValueKind::kSigned : cuda::ValueKind::kUnsigned;
        spec.aggregates.push_back({sums[c].aggregate, kind, c});
    }
    spec.sizes = sizes;
    return spec;
}

cuda::StagedJoinSpec join_spec(const StreamSizes& sizes) {
    cuda::StagedJoinSpec spec;
    spec.widths[0] = {4, 1, 2};
    spec.widths[1] = {8};
    spec.output = {{OutputSide::kKey, 0},
                   {OutputSide::kProbe, 0},
                   {OutputSide::kBuild, 0},
                   {OutputSide::kBuild, 1},
                   {OutputSide::kBuild, 2}};
    spec.sizes = sizes;
    return spec;
}

struct Outcome {
    HostTable groups;
    uint64_t chunks = 0;  // of rows that the group-by was given
    uint64_t rows = 0;
};

Outcome run(const Sides& sides, const cuda::StagedJoinSpec& join, const PipeSpec& pipe_of,
            const cuda::StagedGroupBySpec& group) {
    const auto widths = group.output_widths();
    CollectingSink groups({widths.begin(), widths.end()}, 1);
    PinnedChunks build(sides.build, {join.sizes.chunk_rows});
    PinnedChunks probe(sides.probe, {join.sizes.chunk_rows, 77});
    Outcome outcome;
    {
        cuda::StagedGroupBy second(test_device(), group);
        StagedJoin first(test_device(), join);
        ChunkPipe pipe(test_device(), pipe_of, {kOutputWidths, kOutputWidths + kOutputs}, group.sizes.chunk_rows);
        first.run(cuda::kBuildSide, build, nullptr);
        pipe.begin(second, 0, &groups);
        first.run(cuda::kProbeSide, probe, &pipe);
        pipe.end();
        outcome.chunks = second.report().chunks;
        outcome.rows = second.report().rows[0];
        CHECK_EQ(first.report().result_rows, outcome.rows);
        CHECK_EQ(pipe.rows(), outcome.rows);
        CHECK_EQ(second.report().result_rows, outcome.rows == 0 ? 0 : 1);
    }
    if (outcome.rows > 0) CHECK(groups.complete());
    outcome.groups = groups.table();
    return outcome;
}

// Both ways: added up by the join, and as rows, which the group-by adds up.
void check_sums(const Sides& sides, const StreamSizes& sizes, const std::vector<WantedSum>& sums,
                const std::string& what) {
    StreamSizes group_sizes = ample_group_sizes(0, 0, kChunkRows);
    const PipeSpec pipe = pipe_spec(sums);
    const Outcome added = run(sides, join_spec(sizes), pipe, group_spec(sums, group_sizes));
    group_sizes.pre_aggregation = PreAggregation::kNever;
    const Outcome rows = run(sides, join_spec(sizes), pipe, group_spec(sums, group_sizes));
    CHECK_EQ(added.chunks, 0);
    CHECK_EQ(rows.chunks > 0, rows.rows > 0);
    CHECK_EQ(added.rows, reference_pairs(sides.build, sides.probe, {0}, {0}, JoinType::kInner).size());
    const std::string difference = row_difference(added.groups, rows.groups);
    if (!difference.empty()) fail(what + ": " + difference, __FILE__, __LINE__);
}

}  // namespace

GPU_TEST("stream pipe: sums that a join adds up are those of its rows") {
    const uint64_t rows = small_or_full(900, 20000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    const Sides unique(keys, foreign_keys(keys, 3 * rows, 0.8, test_seed()));
    const Sides repeated(repeated_keys(sparse_keys(rows / 100, test_seed()), 100, test_seed()),
                         foreign_keys(keys, rows, 0.8, test_seed()));
    for (const Sides* sides : {&unique, &repeated}) {
        check_sums(*sides, ample_sizes(rows, 4, kChunkRows), kAllSums, "all resident");
        check_sums(*sides, spilled_sizes(rows, 4, 5), kAllSums, "some partitions resident");
        check_sums(*sides, spilled_sizes(rows, 4, 0), kAllSums, "no partition resident");
        check_sums(*sides, least_sizes(2), {{kInt}, {kShort}}, "few sums, in parts");
        check_sums(*sides, ample_sizes(rows, 4, kChunkRows), {}, "rows are counted");
    }
    check_sums(Sides(keys, sparse_keys(rows, test_seed(), rows)), ample_sizes(rows, 4, kChunkRows), kAllSums,
               "no pair");
    check_sums(Sides(keys, {}), ample_sizes(rows, 4, kChunkRows), kAllSums, "no probe row");
    check_sums(Sides({}, keys), ample_sizes(rows, 4, kChunkRows), kAllSums, "no build row");
}

GPU_TEST("stream pipe: sums of a key with a million partners a row") {
    const uint64_t build_rows = small_or_full(3000, (1 << 20) + 4097);
    const uint64_t probe_rows = small_or_full(70, 1100);
    const Sides sides(std::vector<uint64_t>(build_rows, 7), std::vector<uint64_t>(probe_rows, 7));
    __int128 longs = 0;
    __int128 shorts = 0;
    for (uint64_t i = 0; i < probe_rows; ++i) longs += sides.probe.columns[1].value<int64_t>(i);
    for (uint64_t i = 0; i < build_rows; ++i) shorts += sides.build.columns[3].value<uint16_t>(i);
    const std::vector<WantedSum> sums = {{kLong}, {kShort, PipeColumnKind::kValue, false}};
    StreamSizes sizes = ample_sizes(build_rows, 0, 1 << 16);
    const Outcome outcome =
        run(sides, join_spec(sizes), pipe_spec(sums), group_spec(sums, ample_group_sizes(0, 0, kChunkRows)));
    CHECK_EQ(outcome.chunks, 0);
    CHECK_EQ(outcome.rows, build_rows * probe_rows);
    CHECK_EQ(outcome.groups.columns[0].value<uint64_t>(0), 0);
    CHECK_EQ(outcome.groups.columns[1].value<uint64_t>(0), build_rows * probe_rows);
    CHECK_EQ(outcome.groups.columns[2].value<int64_t>(0), static_cast<int64_t>(longs * build_rows));
    CHECK_EQ(outcome.groups.columns[3].value<uint64_t>(0), static_cast<uint64_t>(shorts * probe_rows));
}

GPU_TEST("stream pipe: sums that leave 64 bits, and come back") {
    const auto sum_of = [](std::vector<int64_t> values, bool is_signed) {
        const uint64_t rows = values.size();
        Sides sides({5}, std::vector<uint64_t>(rows, 5));
        sides.probe.columns[1] = column_of(values);
        const std::vector<WantedSum> sums = {{kLong, PipeColumnKind::kValue, is_signed}};
        const Outcome outcome = run(sides, join_spec(ample_sizes(1, 0)), pipe_spec(sums),
                                    group_spec(sums, ample_group_sizes(0, 0, kChunkRows)));
        CHECK_EQ(outcome.chunks, 0);
        return outcome.groups.columns[2].value<int64_t>(0);
    };
    constexpr int64_t kHalf = int64_t{1} << 62;
    const auto overflows = [&](const std::vector<int64_t>& values, bool is_signed) {
        CHECK_EQ(error_of([&] { sum_of(values, is_signed); }).code(), cuda::ErrorCode::kOverflow);
    };
    CHECK_EQ(sum_of({kHalf, kHalf, kHalf, -kHalf, -kHalf, -kHalf}, true), 0);
    CHECK_EQ(sum_of({kHalf, kHalf - 1}, true), INT64_MAX);
    CHECK_EQ(sum_of({-kHalf, -kHalf}, true), INT64_MIN);
    overflows({kHalf, kHalf}, true);
    overflows({-kHalf, -kHalf, -1}, true);
    CHECK_EQ(sum_of({kHalf, kHalf, kHalf, kHalf - 1}, false), -1);
    overflows({kHalf, kHalf, kHalf, kHalf}, false);
    overflows({-1, 1}, false);  // 2^64 - 1, and 1
}

GPU_TEST("stream pipe: rows go to a group-by that needs more of them than sums") {
    const std::vector<uint64_t> keys = sparse_keys(600, test_seed());
    const Sides sides(keys, foreign_keys(keys, 1800, 0.8, test_seed()));
    const StreamSizes group_sizes = ample_group_sizes(sides.probe.rows(), 0, kChunkRows);
    const auto goes_as_rows = [&](const std::vector<WantedSum>& sums, const PipeSpec& pipe,
                                  const cuda::JoinKind& kind = {}) {
        cuda::StagedJoinSpec join = join_spec(ample_sizes(sides.build.rows(), 4, kChunkRows));
        join.kind = kind;
        const Outcome outcome = run(sides, join, pipe, group_spec(sums, group_sizes));
        CHECK(outcome.rows > 0);
        return outcome.chunks > 0;
    };
    const std::vector<WantedSum> longs = {{kLong}};
    CHECK(!goes_as_rows(longs, pipe_spec(longs)));
    cuda::JoinKind outer;
    outer.keep_unmatched_probe = true;
    CHECK(goes_as_rows(longs, pipe_spec(longs), outer));
    const std::vector<WantedSum> largest = {{kLong, PipeColumnKind::kValue, true, GroupAggregateKind::kMax}};
    CHECK(goes_as_rows(largest, pipe_spec(largest)));
    // 26 parts of 4 bytes.
    const std::vector<WantedSum> many(13, {kLong});
    CHECK(goes_as_rows(many, pipe_spec(many)));
    const std::vector<WantedSum> ints = {{kInt}};
    PipeSpec filled = pipe_spec(ints);
    CHECK(!goes_as_rows(ints, filled));
    filled.columns[0].fill = 1;
    CHECK(goes_as_rows(ints, filled));
    PipeSpec masked = pipe_spec(longs);
    masked.columns[0].value.parts[0].mask = cuda::kKeyPresent;
    CHECK(goes_as_rows(longs, masked));
}

}  // namespace spillway::gpu_test
