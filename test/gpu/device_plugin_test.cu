// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "api/plugin.h"
#include "device/device.hpp"
#include "gpu_test.hpp"

namespace spillway::cuda {

using gpu_test::test_device;

namespace {

struct Plugin {
    Plugin() { call.open_device(test_device().ordinal(), uint64_t{256} << 20, uint64_t{64} << 20, &gpu, &status); }
    ~Plugin() { call.close_device(gpu, &status); }

    spillway_cuda_buffer* allocate(uint64_t bytes) {
        spillway_cuda_buffer* buffer = nullptr;
        call.allocate(gpu, bytes, "test", &buffer, &address, &status);
        return buffer;
    }
    void wait() { call.wait(transfer, &status); }

    const spillway_cuda_functions& call = *spillway_cuda_get_functions();
    spillway_cuda_gpu* gpu = nullptr;
    spillway_cuda_status status{};
    spillway_cuda_transfer* transfer = nullptr;
    uint64_t address = 0;
};

// A count of two sides that have no rows.
StagedJoinSpec count_spec() {
    StagedJoinSpec spec;
    spec.result = JoinResultKind::kCount;
    spec.sizes.radix_bits = 2;
    spec.sizes.chunk_rows = spec.sizes.page_rows = 64;
    spec.sizes.pages = 64;
    spec.sizes.spill_block_bytes = 1 << 20;
    spec.sizes.spill_bytes = 16 << 20;
    return spec;
}

const SourceCalls kNoRows = {nullptr, [](void*, Chunk*) -> int32_t { return 0; }, [](void*) {}};

}  // namespace

GPU_TEST("plugin: bytes go there and back from pageable and pinned memory") {
    Plugin plugin;
    CHECK(plugin.status.code == SPILLWAY_CUDA_OK);
    const uint64_t bytes = 20'000'001;
    spillway_cuda_buffer* const buffer = plugin.allocate(bytes);
    CHECK(buffer != nullptr && plugin.address != 0);
    std::vector<char> sent(bytes);
    for (uint64_t i = 0; i < bytes; ++i) sent[i] = static_cast<char>(i * 31 >> 4);
    std::vector<char> received(bytes);
    plugin.call.upload(plugin.gpu, buffer, 0, sent.data(), bytes, &plugin.transfer, &plugin.status);
    CHECK(plugin.status.code == SPILLWAY_CUDA_OK);
    plugin.wait();
    spillway_cuda_pinned* block = nullptr;
    void* pinned = nullptr;
    plugin.call.allocate_pinned(plugin.gpu, bytes, "test", &block, &pinned, &plugin.status);
    CHECK(plugin.status.code == SPILLWAY_CUDA_OK);
    plugin.call.download(plugin.gpu, pinned, buffer, 0, bytes, &plugin.transfer, &plugin.status);
    plugin.wait();
    CHECK(plugin.status.code == SPILLWAY_CUDA_OK);
    CHECK(std::memcmp(pinned, sent.data(), bytes) == 0);
    plugin.call.download(plugin.gpu, received.data(), buffer, 1, bytes - 1, &plugin.transfer, &plugin.status);
    plugin.wait();
    CHECK(std::memcmp(received.data(), sent.data() + 1, bytes - 1) == 0);
    plugin.call.free_pinned(block);
    plugin.call.free_buffer(buffer);
}

GPU_TEST("plugin: out of memory tells wanted, free and limit") {
    Plugin plugin;
    spillway_cuda_buffer* const buffer = plugin.allocate(uint64_t{200} << 20);
    CHECK(plugin.allocate(uint64_t{100} << 20) == nullptr);
    CHECK(plugin.status.code == SPILLWAY_CUDA_OUT_OF_MEMORY);
    CHECK(plugin.status.limit_reached == 1);
    CHECK(plugin.status.host_memory == 0);
    CHECK(plugin.status.wanted_bytes == uint64_t{100} << 20);
    CHECK(plugin.status.free_bytes == uint64_t{56} << 20);
    CHECK(plugin.status.limit_bytes == uint64_t{256} << 20);
    spillway_cuda_memory memory{};
    plugin.call.memory_info(plugin.gpu, &memory, &plugin.status);
    CHECK(memory.used_bytes == uint64_t{200} << 20);
    CHECK(memory.peak_bytes == uint64_t{200} << 20);
    plugin.call.free_buffer(buffer);
    plugin.call.trim(plugin.gpu, &plugin.status);
    plugin.call.memory_info(plugin.gpu, &memory, &plugin.status);
    CHECK(memory.used_bytes == 0);
    CHECK(memory.reserved_bytes == 0);
}

GPU_TEST("plugin: wrong calls are refused") {
    Plugin plugin;
    spillway_cuda_buffer* const buffer = plugin.allocate(100);
    char bytes[101] = {};
    plugin.call.upload(plugin.gpu, buffer, 50, bytes, 51, &plugin.transfer, &plugin.status);
    CHECK(plugin.status.code == SPILLWAY_CUDA_INVALID);
    CHECK(plugin.transfer == nullptr);
    plugin.call.close_device(plugin.gpu, &plugin.status);
    CHECK(plugin.status.code == SPILLWAY_CUDA_INVALID);
    plugin.call.set_cancelled(plugin.gpu, 1);
    plugin.call.upload(plugin.gpu, buffer, 0, bytes, 100, &plugin.transfer, &plugin.status);
    CHECK(plugin.status.code == SPILLWAY_CUDA_CANCELLED);
    plugin.call.set_cancelled(plugin.gpu, 0);
    plugin.call.upload(plugin.gpu, buffer, 0, bytes, 100, &plugin.transfer, &plugin.status);
    CHECK(plugin.status.code == SPILLWAY_CUDA_OK);
    plugin.wait();
    plugin.call.free_buffer(buffer);
    spillway_cuda_gpu* none = nullptr;
    plugin.call.open_device(63, 0, 0, &none, &plugin.status);
    CHECK(plugin.status.code == SPILLWAY_CUDA_INVALID);
    CHECK(none == nullptr);
}

GPU_TEST("plugin: operators refuse specifications that mean nothing") {
    Plugin plugin;
    const auto refuses = [&](auto&& change) {
        StagedJoinSpec spec = count_spec();
        change(spec);
        spillway_cuda_stream* stream = nullptr;
        plugin.call.begin_staged_join(plugin.gpu, &spec, nullptr, &stream, &plugin.status);
        CHECK(plugin.status.code == SPILLWAY_CUDA_INVALID);
        CHECK(stream == nullptr);
    };
    refuses([](StagedJoinSpec& spec) { spec.kind.emit = static_cast<JoinEmit>(3); });
    refuses([](StagedJoinSpec& spec) { spec.result = static_cast<JoinResultKind>(200); });
    refuses([](StagedJoinSpec& spec) { spec.sizes.radix_bits = kFirstPassBitsMax + 1; });
    refuses([](StagedJoinSpec& spec) { spec.sizes.radix_bits = -1; });
    refuses([](StagedJoinSpec& spec) { spec.sizes.chunk_rows = 0; });
    refuses([](StagedJoinSpec& spec) { spec.key_bytes = 3; });
    refuses([](StagedJoinSpec& spec) {
        for (int c = 0; c < kJoinWordsMax / 2; ++c) spec.widths[kBuildSide].push_back(8);
    });
    refuses([](StagedJoinSpec& spec) { spec.output.push_back({OutputSide::kBuild, 0}); });
    refuses([](StagedJoinSpec& spec) { spec.output.push_back({static_cast<OutputSide>(4), 0}); });
    refuses([](StagedJoinSpec& spec) {
        const uint32_t columns = kRowColumnsMax + 1;
        std::memcpy(static_cast<void*>(&spec.widths[kProbeSide]), &columns, sizeof columns);
    });
    const auto refuses_groups = [&](const StagedAggregate& aggregate, const ColumnWidths& widths) {
        StagedGroupBySpec spec;
        spec.sizes = count_spec().sizes;
        spec.sizes.merge_rows = 64;
        spec.widths = widths;
        spec.aggregates.push_back(aggregate);
        spillway_cuda_stream* stream = nullptr;
        plugin.call.begin_staged_group_by(plugin.gpu, &spec, nullptr, &stream, &plugin.status);
        CHECK(plugin.status.code == SPILLWAY_CUDA_INVALID);
        CHECK(stream == nullptr);
    };
    refuses_groups({GroupAggregateKind::kSum, ValueKind::kSigned, 0}, {});
    refuses_groups({GroupAggregateKind::kFirst, ValueKind::kSigned, 0}, {8});
    refuses_groups({GroupAggregateKind::kSum, ValueKind::kFloat, 0}, {2});
    refuses_groups({GroupAggregateKind::kSum, ValueKind::kSigned, 0}, {16});
    refuses_groups({static_cast<GroupAggregateKind>(7), ValueKind::kSigned, 0}, {8});
    const auto refuses_far = [&](auto&& change) {
        CoherentJoinSpec spec;
        spec.join = count_spec();
        change(spec);
        spillway_cuda_stream* stream = nullptr;
        plugin.call.begin_coherent_join(plugin.gpu, &spec, &stream, &plugin.status);
        CHECK(plugin.status.code == SPILLWAY_CUDA_INVALID);
        CHECK(stream == nullptr);
    };
    refuses_far(
        [](CoherentJoinSpec& spec) { spec.options.partitioner = static_cast<FarPartitioner>(kFarPartitioners + 1); });
    refuses_far([](CoherentJoinSpec& spec) { spec.options.chunks = 0; });
    refuses_far([](CoherentJoinSpec& spec) { spec.join.sizes.radix_bits = kFirstPassBitsMax + 1; });
    refuses_far([](CoherentJoinSpec& spec) {
        spec.join.result = JoinResultKind::kRows;
        spec.join.widths[kBuildSide] = {8};
        spec.join.output.push_back({OutputSide::kBuild, 1});
    });
}

GPU_TEST("plugin: a join to compare with of numbers that no enumeration has, and what none does, is refused") {
    Plugin plugin;
    const auto refuses_baseline = [&](auto&& change) {
        BaselineJoinSpec spec;
        spec.join = count_spec();
        change(spec);
        spillway_cuda_stream* stream = nullptr;
        plugin.call.begin_baseline_join(plugin.gpu, &spec, &stream, &plugin.status);
        CHECK(plugin.status.code == SPILLWAY_CUDA_INVALID);
        CHECK(stream == nullptr);
    };
    refuses_baseline([](BaselineJoinSpec& spec) { spec.algorithm = static_cast<BaselineJoin>(kBaselineJoins); });
    refuses_baseline([](BaselineJoinSpec& spec) { spec.stream_probe = static_cast<StreamProbe>(kStreamProbes); });
    refuses_baseline([](BaselineJoinSpec& spec) { spec.join.kind.emit = JoinEmit::kProbeOnce; });
    refuses_baseline([](BaselineJoinSpec& spec) { spec.join.sizes.radix_bits = -1; });
    refuses_baseline([](BaselineJoinSpec& spec) { spec.join.sizes.chunk_rows = 0; });
    refuses_baseline([](BaselineJoinSpec& spec) { spec.join.key_bytes = 3; });
    refuses_baseline([](BaselineJoinSpec& spec) { spec.build_rows = ~0ULL; });
    refuses_baseline([](BaselineJoinSpec& spec) { spec.algorithm = BaselineJoin::kNpjFar; });  // no stripes
}

GPU_TEST("plugin: joins to compare with run, within the memory that the model says") {
    Plugin plugin;
    // The first join, in each of its ways, and the others.
    for (int number = 0; number < kStreamProbes + kBaselineJoins - 1; ++number) {
        BaselineJoinSpec spec;
        spec.algorithm = static_cast<BaselineJoin>(std::max(0, number - kStreamProbes + 1));
        spec.stream_probe = static_cast<StreamProbe>(std::min(number, kStreamProbes - 1));
        spec.join = count_spec();
        spec.build_rows = 10;
        spec.shares.device = 1;
        spec.threads = 2;
        spillway_cuda_stream* stream = nullptr;
        plugin.call.begin_baseline_join(plugin.gpu, &spec, &stream, &plugin.status);
        // A driver may be unable to map stripes.
        if (spec.algorithm == BaselineJoin::kNpjFar && plugin.status.code == SPILLWAY_CUDA_UNSUPPORTED) continue;
        CHECK_EQ(plugin.status.code, SPILLWAY_CUDA_OK);
        StreamReport report;
        for (const int32_t input : {kBuildSide, kProbeSide}) {
            const spillway_cuda_step step = {stream, nullptr, input};
            plugin.call.run_streams(&step, 1, &kNoRows, nullptr, &report, &plugin.status);
            CHECK_EQ(plugin.status.code, SPILLWAY_CUDA_OK);
        }
        CHECK(report.result_rows == 0);
        plugin.call.free_stream(stream);
    }
}

GPU_TEST("plugin: inputs of an operator come in order, each once") {
    Plugin plugin;
    const StagedJoinSpec spec = count_spec();
    spillway_cuda_stream* stream = nullptr;
    plugin.call.begin_staged_join(plugin.gpu, &spec, nullptr, &stream, &plugin.status);
    CHECK(plugin.status.code == SPILLWAY_CUDA_OK);
    StreamReport report;
    const auto code_of = [&](int32_t input) {
        const spillway_cuda_step step = {stream, nullptr, input};
        plugin.call.run_streams(&step, 1, &kNoRows, nullptr, &report, &plugin.status);
        return plugin.status.code;
    };
    CHECK(code_of(kProbeSide) == SPILLWAY_CUDA_INVALID);
    CHECK(code_of(kBuildSide) == SPILLWAY_CUDA_OK);
    CHECK(code_of(kBuildSide) == SPILLWAY_CUDA_INVALID);
    CHECK(code_of(kProbeSide) == SPILLWAY_CUDA_OK);
    CHECK(report.result_rows == 0);
    CHECK(code_of(2) == SPILLWAY_CUDA_INVALID);
    plugin.call.free_stream(stream);
}

}  // namespace spillway::cuda
