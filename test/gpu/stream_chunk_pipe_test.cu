// SPDX-License-Identifier: Apache-2.0
// Operators behind each other: rows of one go into the next in memory of the GPU, through a pipe that is the sink of
// the first and owns the chunks of the second.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "staged_group_by/staged_group_by.hpp"
#include "stream/chunk_pipe.hpp"
#include "support/error_of.hpp"
#include "support/reference_group_by.hpp"
#include "support/staged_group_by_check.hpp"
#include "support/staged_join_check.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::ChunkPipe;
using cuda::OutputSide;

constexpr uint64_t kChunkRows = 500;

struct PickedColumn {
    int side = 0;
    size_t column = 0;
};

// Rows of pairs, of some columns of both sides.
HostTable picked(const RowPairs& pairs, const HostTable& build, const HostTable& probe,
                 const std::vector<PickedColumn>& columns) {
    HostTable table;
    for (const PickedColumn& wanted : columns) {
        const HostColumn& from = (wanted.side == 0 ? build : probe).columns[wanted.column];
        HostColumn column;
        column.width = from.width;
        for (const auto& [b, p] : pairs) column.push_from(from, wanted.side == 0 ? b : p);
        table.columns.push_back(std::move(column));
    }
    return table;
}

// lines (an order, a part, an amount) -> orders (a day), then -> parts (a price).
struct Tables {
    Tables() {
        const uint64_t order_count = small_or_full(700, 20000);
        const std::vector<uint64_t> order_keys = sparse_keys(order_count, test_seed());
        const std::vector<uint64_t> part_keys = sparse_keys(order_count / 3, test_seed() + 1);
        const uint64_t lines_count = 4 * order_count;
        orders.columns = {column_of(order_keys), payload_column(order_count, 4, test_seed(), 0)};
        parts.columns = {column_of(part_keys), payload_column(part_keys.size(), 8, test_seed(), 1)};
        lines.columns = {column_of(foreign_keys(order_keys, lines_count, 0.8, test_seed())),
                         column_of(foreign_keys(part_keys, lines_count, 0.7, test_seed() + 2)),
                         payload_column(lines_count, 8, test_seed(), 2)};
        const RowPairs pairs = reference_pairs(orders, lines, {0}, {0}, JoinType::kInner);
        // What passes the pipe: the part, the day, the amount.
        joined = picked(pairs, orders, lines, {{1, 1}, {0, 1}, {1, 2}});
    }

    HostTable orders;
    HostTable parts;
    HostTable lines;
    HostTable joined;
};

cuda::StagedJoinSpec first_spec(const StreamSizes& sizes) {
    cuda::StagedJoinSpec spec;
    spec.widths[0] = {4};
    spec.widths[1] = {8, 8};
    spec.output = {{OutputSide::kProbe, 0}, {OutputSide::kBuild, 0}, {OutputSide::kProbe, 1}};
    spec.sizes = sizes;
    return spec;
}

ChunkPipe pipe_for(const StreamSizes& first, const StreamSizes& second) {
    return ChunkPipe(test_device(), {8, 4, 8}, 0, first.result_rows, first.result_slots + second.chunk_slots);
}

// Joins lines with orders, and what comes out of that flows into an input of the second operator.
void flow(const Tables& tables, const StreamSizes& sizes, ChunkPipe& pipe, cuda::StreamOperator& to, int input,
          cuda::ResultSink* sink) {
    PinnedChunks orders(tables.orders, {sizes.chunk_rows});
    PinnedChunks lines(tables.lines, {sizes.chunk_rows, 77});
    StagedJoin first(test_device(), first_spec(sizes));
    first.run(cuda::kBuildSide, orders, nullptr);
    pipe.begin(to, input, sink);
    first.run(cuda::kProbeSide, lines, &pipe);
    pipe.end();
    CHECK(orders.all_released());
    CHECK(lines.all_released());
    CHECK_EQ(first.report().result_rows, tables.joined.rows());
    CHECK_EQ(pipe.rows(), tables.joined.rows());
}

// The second join has parts on one side and the pipe on the other.
void check_join_of_join(const Tables& tables, const StreamSizes& sizes, int piped, const std::string& what) {
    const HostTable& build = piped == 0 ? tables.joined : tables.parts;
    const HostTable& probe = piped == 0 ? tables.parts : tables.joined;
    cuda::StagedJoinSpec spec;
    spec.widths[piped] = {4, 8};
    spec.widths[1 - piped] = {8};
    const OutputSide of_pipe = piped == 0 ? OutputSide::kBuild : OutputSide::kProbe;
    const OutputSide of_parts = piped == 0 ? OutputSide::kProbe : OutputSide::kBuild;
    spec.output = {{OutputSide::kKey, 0}, {of_parts, 0}, {of_pipe, 0}, {of_pipe, 1}};
    spec.sizes = sizes;
    const RowPairs pairs = reference_pairs(build, probe, {0}, {0}, JoinType::kInner);
    const HostTable expected = picked(pairs, build, probe, {{piped, 0}, {1 - piped, 1}, {piped, 1}, {piped, 2}});
    CollectingSink rows({8, 8, 4, 8}, expected.rows());
    PinnedChunks parts(tables.parts, {sizes.chunk_rows});
    {
        StagedJoin second(test_device(), spec);
        ChunkPipe pipe = pipe_for(sizes, sizes);
        if (piped == 0) {
            flow(tables, sizes, pipe, second, cuda::kBuildSide, &rows);
            second.run(cuda::kProbeSide, parts, &rows);
        } else {
            second.run(cuda::kBuildSide, parts, &rows);
            flow(tables, sizes, pipe, second, cuda::kProbeSide, &rows);
        }
        CHECK_EQ(second.report().rows[piped], tables.joined.rows());
        CHECK_EQ(second.report().result_rows, expected.rows());
    }
    CHECK(parts.all_released());
    CHECK(rows.complete());
    const std::string difference = row_difference(rows.table(), expected);
    if (!difference.empty()) fail(what + ": " + difference, __FILE__, __LINE__);
}

}  // namespace

GPU_TEST("stream pipe: a join whose probe side is another join") {
    const Tables tables;
    const uint64_t rows = tables.orders.rows();
    check_join_of_join(tables, ample_sizes(rows, 4, kChunkRows), 1, "all resident");
    check_join_of_join(tables, spilled_sizes(rows, 4, 5), 1, "some partitions resident");
    check_join_of_join(tables, spilled_sizes(rows, 4, 0), 1, "no partition resident");
}

GPU_TEST("stream pipe: a join whose build side is another join") {
    const Tables tables;
    const uint64_t rows = tables.joined.rows();
    check_join_of_join(tables, ample_sizes(rows, 4, kChunkRows), 0, "all resident");
    check_join_of_join(tables, spilled_sizes(rows, 4, 5), 0, "some partitions resident");
    check_join_of_join(tables, spilled_sizes(rows, 4, 0), 0, "no partition resident");
}

GPU_TEST("stream pipe: a group-by of a join") {
    const Tables tables;
    const StagedGroupByCheck check(
        [&] {
            HostTable table;
            table.columns = {tables.joined.columns[0], tables.joined.columns[2]};
            return table;
        }(),
        {{Aggregate::kCountRows, 0, ValueKind::kUnsigned}, {Aggregate::kMax, 1, ValueKind::kUnsigned}});
    const StreamSizes sizes = ample_sizes(tables.orders.rows(), 4, kChunkRows);
    StreamSizes group_sizes = ample_group_sizes(tables.joined.rows(), 3, kChunkRows);
    cuda::StagedGroupBySpec spec;
    spec.widths = {4, 8};
    spec.aggregates = {{cuda::GroupAggregateKind::kCountRows, cuda::ValueKind::kUnsigned, 0},
                       {cuda::GroupAggregateKind::kMax, cuda::ValueKind::kUnsigned, 1}};
    spec.sizes = group_sizes;
    CollectingSink groups({8, 8, 8}, check.expected().rows());
    {
        cuda::StagedGroupBy second(test_device(), spec);
        ChunkPipe pipe = pipe_for(sizes, group_sizes);
        flow(tables, sizes, pipe, second, 0, &groups);
        CHECK_EQ(second.report().rows[0], tables.joined.rows());
    }
    CHECK(groups.complete());
    const std::string difference = row_difference(groups.table(), check.expected());
    if (!difference.empty()) fail(difference, __FILE__, __LINE__);
}

GPU_TEST("stream pipe: an error of the second operator ends the first") {
    const Tables tables;
    const uint64_t used_before = test_device().memory().used_bytes();
    const auto run = [&] {
        StreamSizes sizes = ample_sizes(tables.orders.rows(), 4, kChunkRows);
        cuda::StagedJoinSpec spec = first_spec(sizes);  // which has a column of 8 bytes where 4 come
        StreamSizes small = sizes;
        small.chunk_rows = kChunkRows / 2;
        spec.sizes = small;
        spec.output = {{OutputSide::kKey, 0}};
        StagedJoin second(test_device(), spec);
        PinnedChunks parts(tables.parts, {small.chunk_rows});
        CollectingSink none({8}, 0);
        ChunkPipe pipe = pipe_for(sizes, small);
        PinnedChunks orders(tables.orders, {sizes.chunk_rows});
        PinnedChunks lines(tables.lines, {sizes.chunk_rows});
        StagedJoin first(test_device(), first_spec(sizes));
        first.run(cuda::kBuildSide, orders, nullptr);
        pipe.begin(second, cuda::kBuildSide, &none);
        first.run(cuda::kProbeSide, lines, &pipe);
    };
    // A chunk of the pipe has more rows than the second join was made for.
    CHECK_EQ(error_of(run).code(), cuda::ErrorCode::kInvalid);
    CHECK_EQ(test_device().memory().used_bytes(), used_before);
}

}  // namespace spillway::gpu_test
