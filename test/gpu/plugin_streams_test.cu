// SPDX-License-Identifier: Apache-2.0
// Operators behind each other as the engine runs them, over the plugin's border.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "api/plugin.h"
#include "device/device.hpp"
#include "gpu_test.hpp"
#include "support/host_table.hpp"
#include "support/join_check.hpp"
#include "support/pinned_chunks.hpp"
#include "support/reference_join.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::JoinResultKind;
using cuda::OutputSide;
using cuda::PipeColumn;
using cuda::PipeKey;
using cuda::PipeSpec;
using cuda::PipeValue;
using cuda::SinkCalls;
using cuda::SourceCalls;
using cuda::StagedJoinSpec;
using cuda::StreamReport;
using cuda::StreamSizes;

constexpr uint64_t kChunkRows = 500;

StreamSizes sizes_of(uint64_t rows) {
    StreamSizes sizes;
    sizes.radix_bits = 2;
    sizes.chunk_rows = kChunkRows;
    sizes.page_rows = 64;
    sizes.pages = rows / 64 + 64;
    sizes.merge_rows = 2 * kChunkRows;
    sizes.spill_block_bytes = 1 << 16;
    sizes.spill_bytes = 8 << 20;
    sizes.result_rows = 300;
    return sizes;
}

PipeValue whole_column(int16_t column, uint32_t width) {
    PipeValue value;
    value.parts.push_back({column, -1, 0, 0});
    value.width = width;
    return value;
}

// lines (an order, a part, an amount) -> orders -> parts: the amounts of lines that have both.
class JoinOfJoin {
  public:
    JoinOfJoin() {
        call.open_device(test_device().ordinal(), uint64_t{256} << 20, uint64_t{64} << 20, &gpu, &status);
        CHECK_EQ(status.code, SPILLWAY_CUDA_OK);
        const uint64_t order_count = small_or_full(700, 20000);
        const std::vector<uint64_t> order_keys = sparse_keys(order_count, test_seed());
        const std::vector<uint64_t> part_keys = sparse_keys(order_count / 3, test_seed() + 1);
        orders.columns = {column_of(order_keys)};
        parts.columns = {column_of(part_keys)};
        lines.columns = {column_of(pick(order_keys, 4 * order_count)), column_of(pick(part_keys, 4 * order_count)),
                         payload_column(4 * order_count, 8, test_seed(), 2)};
        const HostTable joined = reference_join(orders, lines, {0}, {0}, JoinType::kInner);
        joined_rows = joined.rows();
        const HostTable both = reference_join(parts, joined, {0}, {2}, JoinType::kInner);
        expected.columns = {both.columns[0], both.columns[4]};
    }
    ~JoinOfJoin() {
        call.free_stream(first);
        call.free_stream(second);
        call.close_device(gpu, &status);
    }

    StagedJoinSpec first_spec() const {
        StagedJoinSpec spec;
        spec.widths[cuda::kProbeSide] = {8, 8};
        spec.output = {{OutputSide::kProbe, 0}, {OutputSide::kProbe, 1}};
        spec.sizes = sizes_of(orders.rows());
        return spec;
    }
    StagedJoinSpec second_spec() const {
        StagedJoinSpec spec;
        spec.widths[cuda::kProbeSide] = {8};
        spec.output = {{OutputSide::kKey, 0}, {OutputSide::kProbe, 0}};
        spec.sizes = sizes_of(orders.rows());
        return spec;
    }
    // Both joins, one behind the other, give what they must.
    void expect_right(const StagedJoinSpec& of_first, const StagedJoinSpec& of_second) {
        begin(of_first, first);
        begin(of_second, second);
        CHECK_EQ(run({{first, nullptr, 0}}, orders, nullptr), SPILLWAY_CUDA_OK);
        CHECK_EQ(run({{second, nullptr, 0}}, parts, nullptr), SPILLWAY_CUDA_OK);
        CollectingSink rows({8, 8}, expected.rows());
        CHECK_EQ(run(path(), lines, &rows), SPILLWAY_CUDA_OK);
        CHECK(rows.complete());
        const std::string difference = row_difference(rows.table(), expected);
        if (!difference.empty()) fail(difference, __FILE__, __LINE__);
    }
    void begin(const StagedJoinSpec& spec, spillway_cuda_stream*& stream) {
        call.begin_staged_join(gpu, &spec, nullptr, &stream, &status);
        CHECK_EQ(status.code, SPILLWAY_CUDA_OK);
    }
    int32_t run(const std::vector<spillway_cuda_step>& steps, const HostTable& rows, CollectingSink* sink) {
        PinnedChunks chunks(rows, {kChunkRows});
        const SourceCalls source = {
            &chunks,
            [](void* context, cuda::Chunk* chunk) { return static_cast<PinnedChunks*>(context)->next(*chunk) ? 1 : 0; },
            [](void* context) { static_cast<PinnedChunks*>(context)->release(); }};
        const SinkCalls to = {sink,
                              [](void* context, uint64_t count, void** columns, cuda::PackedBlock**) {
                                  const auto made = static_cast<CollectingSink*>(context)->open(count);
                                  std::copy(made.begin(), made.end(), columns);
                                  return 0;
                              },
                              [](void* context) { static_cast<CollectingSink*>(context)->close(); }};
        reports.assign(steps.size(), {});
        call.run_streams(steps.data(), steps.size(), &source, sink == nullptr ? nullptr : &to, reports.data(), &status);
        if (status.code == SPILLWAY_CUDA_OK) CHECK(chunks.all_released());
        return status.code;
    }
    std::vector<spillway_cuda_step> path() const { return {{first, nullptr, 1}, {second, &pipe, 1}}; }

    const spillway_cuda_functions& call = *spillway_cuda_get_functions();
    spillway_cuda_status status{};
    spillway_cuda_gpu* gpu = nullptr;
    spillway_cuda_stream* first = nullptr;
    spillway_cuda_stream* second = nullptr;
    std::vector<StreamReport> reports;
    HostTable orders;
    HostTable parts;
    HostTable lines;
    HostTable expected;
    uint64_t joined_rows = 0;
    const PipeSpec pipe = [] {
        PipeSpec made;
        PipeKey key;
        key.value = whole_column(0, 8);
        made.keys.push_back(key);
        PipeColumn amount;
        amount.value = whole_column(1, 8);
        made.columns.push_back(amount);
        return made;
    }();

  private:
    // Some of them, and some that are of none.
    static std::vector<uint64_t> pick(const std::vector<uint64_t>& keys, uint64_t rows) {
        return foreign_keys(keys, rows, 0.8, test_seed() + keys.size());
    }
};

}  // namespace

GPU_TEST("plugin: a join behind a join") {
    JoinOfJoin joins;
    joins.expect_right(joins.first_spec(), joins.second_spec());
    CHECK_EQ(joins.reports[0].rows[1], joins.lines.rows());
    CHECK_EQ(joins.reports[0].result_rows, joins.joined_rows);
    CHECK_EQ(joins.reports[0].d2h_bytes, 0);
    CHECK_EQ(joins.reports[1].rows[1], joins.joined_rows);
    CHECK_EQ(joins.reports[1].result_rows, joins.expected.rows());
    CHECK_EQ(joins.reports[1].h2d_bytes, joins.parts.rows() * 8);
    CHECK(joins.reports[1].peak_bytes > 0);
    CHECK_EQ(joins.run(joins.path(), joins.lines, nullptr), SPILLWAY_CUDA_INVALID);
}

GPU_TEST("plugin: joins behind each other spill to a peer, which is the same GPU once more") {
    JoinOfJoin joins;
    spillway_cuda_peer peer{};
    joins.call.open_peer(joins.gpu, test_device().ordinal(), uint64_t{64} << 20, &peer, &joins.status);
    CHECK_EQ(joins.status.code, SPILLWAY_CUDA_OK);
    CHECK_EQ(peer.memory_bytes, uint64_t{64} << 20);
    CHECK(peer.read_bytes_per_ms > 0);
    CHECK(peer.write_bytes_per_ms > 0);
    joins.call.open_peer(joins.gpu, -1, uint64_t{64} << 20, &peer, &joins.status);
    CHECK_EQ(joins.status.code, SPILLWAY_CUDA_INVALID);
    StagedJoinSpec first = joins.first_spec();
    StagedJoinSpec second = joins.second_spec();
    for (StagedJoinSpec* const spec : {&first, &second}) {
        spec->sizes.resident_partitions = 1;
        spec->sizes.peer_bytes = uint64_t{16} << 20;
        spec->sizes.spill_bytes = 0;
    }
    joins.expect_right(first, second);
    for (const StreamReport& report : joins.reports) {
        CHECK(report.peer_bytes > 0);
        CHECK_EQ(report.peer_bytes, report.spilled_bytes[0] + report.spilled_bytes[1]);
    }
    spillway_cuda_memory memory{};
    joins.call.memory_info(joins.gpu, &memory, &joins.status);
    CHECK_EQ(memory.limit_bytes, uint64_t{256} << 20);  // its own is no larger for that
}

GPU_TEST("plugin: a count behind a join on its build side") {
    JoinOfJoin joins;
    joins.begin(joins.first_spec(), joins.first);
    StagedJoinSpec counting = joins.second_spec();
    counting.widths[cuda::kBuildSide] = {8};
    counting.widths[cuda::kProbeSide] = {};
    counting.output.clear();
    counting.result = JoinResultKind::kCount;
    joins.begin(counting, joins.second);
    CHECK_EQ(joins.run({{joins.first, nullptr, 0}}, joins.orders, nullptr), SPILLWAY_CUDA_OK);
    const std::vector<spillway_cuda_step> path = {{joins.first, nullptr, 1}, {joins.second, &joins.pipe, 0}};
    CHECK_EQ(joins.run(path, joins.lines, nullptr), SPILLWAY_CUDA_OK);
    CHECK_EQ(joins.reports[1].rows[0], joins.joined_rows);
    CHECK_EQ(joins.run({{joins.second, nullptr, 1}}, joins.parts, nullptr), SPILLWAY_CUDA_OK);
    CHECK_EQ(joins.reports[0].result_rows, joins.expected.rows());
}

GPU_TEST("plugin: an error of an operator behind another ends both") {
    JoinOfJoin joins;
    joins.begin(joins.first_spec(), joins.first);
    joins.begin(joins.second_spec(), joins.second);
    CHECK_EQ(joins.run({{joins.first, nullptr, 0}}, joins.orders, nullptr), SPILLWAY_CUDA_OK);
    CHECK_EQ(joins.run({{joins.second, nullptr, 0}}, joins.parts, nullptr), SPILLWAY_CUDA_OK);
    // The second join wants a sink.
    CHECK_EQ(joins.run(joins.path(), joins.lines, nullptr), SPILLWAY_CUDA_INVALID);
    CHECK_EQ(joins.run({{joins.first, nullptr, 1}}, joins.lines, nullptr), SPILLWAY_CUDA_INVALID);
    CHECK_EQ(joins.run({{joins.second, nullptr, 1}}, joins.lines, nullptr), SPILLWAY_CUDA_INVALID);
}

GPU_TEST("plugin: paths of operators that mean nothing are refused, and harm none") {
    JoinOfJoin joins;
    joins.begin(joins.first_spec(), joins.first);
    joins.begin(joins.second_spec(), joins.second);
    CollectingSink rows({8, 8}, joins.expected.rows());
    const auto refuses = [&](const std::vector<spillway_cuda_step>& path) {
        CHECK_EQ(joins.run(path, joins.lines, &rows), SPILLWAY_CUDA_INVALID);
    };
    const auto refuses_pipe = [&](auto&& change) {
        PipeSpec pipe = joins.pipe;
        change(pipe);
        refuses({{joins.first, nullptr, 1}, {joins.second, &pipe, 1}});
    };
    refuses(joins.path());  // before either has its build side
    CHECK_EQ(joins.run({{joins.second, nullptr, 0}}, joins.parts, nullptr), SPILLWAY_CUDA_OK);
    refuses({{joins.first, nullptr, 0}, {joins.second, &joins.pipe, 1}});
    CHECK_EQ(joins.run({{joins.first, nullptr, 0}}, joins.orders, nullptr), SPILLWAY_CUDA_OK);
    refuses({});
    refuses({{nullptr, nullptr, 1}});
    refuses({{joins.first, nullptr, 1}, {nullptr, &joins.pipe, 1}});
    refuses({{joins.first, nullptr, 1}, {joins.first, &joins.pipe, 1}});
    refuses({{joins.first, nullptr, 1}, {joins.second, nullptr, 1}});
    refuses({{joins.first, &joins.pipe, 1}, {joins.second, &joins.pipe, 1}});
    refuses({{joins.first, nullptr, 1}, {joins.second, &joins.pipe, 0}});
    refuses({{joins.first, nullptr, 1}, {joins.second, &joins.pipe, 2}});
    refuses({{joins.first, nullptr, -1}, {joins.second, &joins.pipe, 1}});
    refuses_pipe([](PipeSpec& pipe) { pipe.key_bytes = 4; });
    refuses_pipe([](PipeSpec& pipe) { pipe.presence = 0; });
    refuses_pipe([](PipeSpec& pipe) { pipe.keys[0].value.parts[0].column = 2; });
    refuses_pipe([](PipeSpec& pipe) { pipe.columns[0].value.parts[0].offset = 1; });
    refuses_pipe([](PipeSpec& pipe) { pipe.columns[0].value.width = 4; });
    refuses_pipe([](PipeSpec& pipe) { pipe.columns.clear(); });
    refuses_pipe([](PipeSpec& pipe) {
        const uint32_t keys = cuda::kPipeKeysMax + 1;
        std::memcpy(static_cast<void*>(&pipe.keys), &keys, sizeof keys);
    });
    StagedJoinSpec counting = joins.first_spec();
    counting.output.clear();
    counting.result = JoinResultKind::kCount;
    spillway_cuda_stream* count = nullptr;
    joins.begin(counting, count);
    CHECK_EQ(joins.run({{count, nullptr, 0}}, joins.orders, nullptr), SPILLWAY_CUDA_OK);
    refuses({{count, nullptr, 1}, {joins.second, &joins.pipe, 1}});
    joins.call.free_stream(count);
    CHECK_EQ(joins.run(joins.path(), joins.lines, &rows), SPILLWAY_CUDA_OK);
    CHECK(rows.complete());
}

}  // namespace spillway::gpu_test
