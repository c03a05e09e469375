// SPDX-License-Identifier: Apache-2.0
// Operators behind each other: rows of one go into the next in memory of the GPU, through a pipe that is the sink of
// the first and owns the chunks of the second. What pipes make of rows is for stream_pipe_values_test.cu.
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
using cuda::PipeSpec;
using cuda::PipeValue;

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

PipeValue whole_column(int16_t column, uint32_t width, uint8_t mask = 0) {
    PipeValue value;
    value.parts.push_back({column, -1, 0, mask});
    value.width = width;
    return value;
}

void add_column(PipeSpec& spec, const PipeValue& value, cuda::PipeColumnKind kind = cuda::PipeColumnKind::kValue) {
    spec.columns.push_back({value, kind, 0});
}

void set_key(PipeSpec& spec, const PipeValue& value, uint32_t key_bytes) {
    cuda::PipeKey key;
    key.value = value;
    key.width = static_cast<uint8_t>(key_bytes);
    spec.key_bytes = key_bytes;
    spec.keys.push_back(key);
}

// Of rows of first_spec(): the part is the key, the day and the amount are carried.
PipeSpec pipe_spec() {
    PipeSpec spec;
    set_key(spec, whole_column(0, 8), 8);
    add_column(spec, whole_column(1, 4));
    add_column(spec, whole_column(2, 8));
    return spec;
}

ChunkPipe pipe_for(const StreamSizes& second) {
    return ChunkPipe(test_device(), pipe_spec(), {8, 4, 8}, second.chunk_rows);
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
    // Result rows cross no link.
    CHECK_EQ(first.report().d2h_bytes, first.report().spilled_bytes[0] + first.report().spilled_bytes[1]);
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
        ChunkPipe pipe = pipe_for(sizes);
        if (piped == 0) {
            flow(tables, sizes, pipe, second, cuda::kBuildSide, &rows);
            second.run(cuda::kProbeSide, parts, &rows);
        } else {
            second.run(cuda::kBuildSide, parts, &rows);
            flow(tables, sizes, pipe, second, cuda::kProbeSide, &rows);
        }
        CHECK_EQ(second.report().rows[piped], tables.joined.rows());
        CHECK_EQ(second.report().result_rows, expected.rows());
        // Chunks of the pipe cross no link, and nothing comes back where all is resident.
        if (second.report().spilled_rows[0] + second.report().spilled_rows[1] == 0) {
            CHECK_EQ(second.report().h2d_bytes, tables.parts.rows() * 16);
        }
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
    StreamSizes small_windows = ample_sizes(rows, 4, kChunkRows);
    small_windows.result_rows = 77;
    check_join_of_join(tables, small_windows, 1, "windows smaller than chunks");
    StreamSizes large_windows = ample_sizes(rows, 4, kChunkRows);
    large_windows.result_rows = 3 * kChunkRows + 1;
    large_windows.result_slots = 3;
    large_windows.chunk_slots = 2;
    check_join_of_join(tables, large_windows, 1, "windows larger than chunks");
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
        ChunkPipe pipe = pipe_for(group_sizes);
        flow(tables, sizes, pipe, second, 0, &groups);
        CHECK_EQ(second.report().rows[0], tables.joined.rows());
    }
    CHECK(groups.complete());
    const std::string difference = row_difference(groups.table(), check.expected());
    if (!difference.empty()) fail(difference, __FILE__, __LINE__);
}

GPU_TEST("stream pipe: an outer join of an outer join") {
    const Tables tables;
    const StreamSizes sizes = ample_sizes(tables.orders.rows(), 4, kChunkRows);
    // Lines whose order is missing have no day, and so find none of the days.
    HostTable days;
    const HostColumn& all_days = tables.orders.columns[1];
    HostColumn some_days;
    some_days.width = 4;
    for (uint64_t row = 0; row < all_days.rows(); row += 2) some_days.push_from(all_days, row);
    days.columns = {some_days, payload_column(some_days.rows(), 8, test_seed(), 3)};
    const RowPairs lines_pairs = reference_pairs(tables.orders, tables.lines, {0}, {0}, JoinType::kRight);
    HostTable joined;
    joined.columns.resize(2);
    joined.columns[0].width = 4;
    for (const auto& [order, line] : lines_pairs) {
        order == kNoRow ? joined.columns[0].push_null() : joined.columns[0].push_from(all_days, order);
        joined.columns[1].push_from(tables.lines.columns[2], line);
    }
    const RowPairs pairs = reference_pairs(days, joined, {0}, {0}, JoinType::kRight);
    // The presence byte, what the day has, the amount, whether there was a day.
    HostTable expected;
    for (const uint32_t width : {1, 8, 8, 1}) expected.columns.push_back({width, {}, {}});
    for (const auto& [day, row] : pairs) {
        const bool has_key = joined.columns[0].is_valid(row);
        const int presence =
            cuda::kProbePresent | (day == kNoRow ? 0 : cuda::kBuildPresent) | (has_key ? cuda::kKeyPresent : 0);
        expected.columns[0].push(static_cast<uint8_t>(presence));
        expected.columns[1].push(day == kNoRow ? uint64_t{0} : days.columns[1].value<uint64_t>(day));
        expected.columns[2].push_from(joined.columns[1], row);
        expected.columns[3].push(static_cast<uint8_t>(has_key ? 1 : 0));
    }

    cuda::StagedJoinSpec spec = first_spec(sizes);
    spec.kind.keep_unmatched_probe = true;
    spec.output = {{OutputSide::kPresence, 0}, {OutputSide::kBuild, 0}, {OutputSide::kProbe, 1}};
    PipeSpec between;
    between.presence = 0;
    set_key(between, whole_column(1, 4, cuda::kBuildPresent), 4);
    add_column(between, whole_column(2, 8));
    add_column(between, whole_column(1, 4, cuda::kBuildPresent), cuda::PipeColumnKind::kPresence);
    cuda::StagedJoinSpec next;
    next.key_bytes = 4;
    next.widths[0] = {8};
    next.widths[1] = {8, 1};
    next.kind.keep_unmatched_probe = true;
    next.output = {
        {OutputSide::kPresence, 0}, {OutputSide::kBuild, 0}, {OutputSide::kProbe, 0}, {OutputSide::kProbe, 1}};
    next.sizes = sizes;
    CollectingSink rows({1, 8, 8, 1}, expected.rows());
    PinnedChunks days_chunks(days, {sizes.chunk_rows});
    PinnedChunks orders(tables.orders, {sizes.chunk_rows});
    PinnedChunks lines(tables.lines, {sizes.chunk_rows});
    StagedJoin second(test_device(), next);
    StagedJoin first(test_device(), spec);
    ChunkPipe pipe(test_device(), between, {1, 4, 8}, sizes.chunk_rows);
    second.run(cuda::kBuildSide, days_chunks, nullptr);
    first.run(cuda::kBuildSide, orders, nullptr);
    pipe.begin(second, cuda::kProbeSide, &rows);
    first.run(cuda::kProbeSide, lines, &pipe);
    pipe.end();
    CHECK(rows.complete());
    const std::string difference = row_difference(rows.table(), expected);
    if (!difference.empty()) fail(difference, __FILE__, __LINE__);
}

GPU_TEST("stream pipe: three operators") {
    const Tables tables;
    const StreamSizes sizes = ample_sizes(tables.orders.rows(), 4, kChunkRows);
    // lines -> orders -> parts, whose prices are summed up by day.
    cuda::StagedJoinSpec middle;
    middle.widths[0] = {8};
    middle.widths[1] = {4, 8};
    middle.output = {{OutputSide::kBuild, 0}, {OutputSide::kProbe, 0}};
    middle.sizes = sizes;
    middle.sizes.result_rows = 90;
    const RowPairs pairs = reference_pairs(tables.parts, tables.joined, {0}, {0}, JoinType::kInner);
    const HostTable priced = picked(pairs, tables.parts, tables.joined, {{1, 1}, {0, 1}});
    const StagedGroupByCheck check(
        priced, {{Aggregate::kCountRows, 0, ValueKind::kUnsigned}, {Aggregate::kMax, 1, ValueKind::kUnsigned}});
    const cuda::StagedGroupBySpec last = check.spec(ample_group_sizes(priced.rows(), 3, kChunkRows));
    PipeSpec by_day;
    set_key(by_day, whole_column(1, 4), 4);
    add_column(by_day, whole_column(0, 8));
    CollectingSink groups = check.sink(last);
    PinnedChunks parts(tables.parts, {sizes.chunk_rows});
    {
        cuda::StagedGroupBy third(test_device(), last);
        StagedJoin second(test_device(), middle);
        ChunkPipe pipe(test_device(), by_day, {8, 4}, last.sizes.chunk_rows);
        ChunkPipe first_pipe = pipe_for(middle.sizes);
        second.run(cuda::kBuildSide, parts, nullptr);
        pipe.begin(third, 0, &groups);
        flow(tables, sizes, first_pipe, second, cuda::kProbeSide, &pipe);
        pipe.end();
        CHECK_EQ(second.report().d2h_bytes, second.report().spilled_bytes[0] + second.report().spilled_bytes[1]);
        CHECK_EQ(third.report().rows[0], priced.rows());
        if (third.report().spilled_rows[0] == 0) CHECK_EQ(third.report().h2d_bytes, 0);
    }
    CHECK(parts.all_released());
    CHECK(groups.complete());
    const std::string difference = row_difference(groups.table(), check.expected());
    if (!difference.empty()) fail(difference, __FILE__, __LINE__);
}

GPU_TEST("stream pipe: an error of the second operator ends the first") {
    const Tables tables;
    const uint64_t used_before = test_device().memory().used_bytes();
    const auto run = [&](const cuda::ColumnWidths& widths, bool sink_fails) {
        const StreamSizes sizes = ample_sizes(tables.orders.rows(), 4, kChunkRows);
        cuda::StagedJoinSpec spec;
        spec.widths[0] = {8};
        spec.widths[1] = widths;
        spec.sizes = sizes;
        spec.output = {{OutputSide::kKey, 0}};
        StagedJoin second(test_device(), spec);
        PinnedChunks parts(tables.parts, {sizes.chunk_rows});
        CollectingSink rows({8}, tables.joined.rows());
        rows.on_open = [&](uint64_t block) {
            if (sink_fails && block > 0) throw cuda::Error(cuda::ErrorCode::kCancelled, "the sink fails");
        };
        ChunkPipe pipe = pipe_for(sizes);
        PinnedChunks orders(tables.orders, {sizes.chunk_rows});
        PinnedChunks lines(tables.lines, {sizes.chunk_rows});
        StagedJoin first(test_device(), first_spec(sizes));
        first.run(cuda::kBuildSide, orders, nullptr);
        second.run(cuda::kBuildSide, parts, nullptr);
        pipe.begin(second, cuda::kProbeSide, &rows);
        first.run(cuda::kProbeSide, lines, &pipe);
        pipe.end();
    };
    // A chunk of the pipe has more columns than the second join reads.
    CHECK_EQ(error_of([&] { run({4}, false); }).code(), cuda::ErrorCode::kInvalid);
    CHECK_EQ(test_device().memory().used_bytes(), used_before);
    CHECK_EQ(error_of([&] { run({4, 8}, true); }).code(), cuda::ErrorCode::kCancelled);
    CHECK_EQ(test_device().memory().used_bytes(), used_before);
    run({4, 8}, false);
}

}  // namespace spillway::gpu_test
