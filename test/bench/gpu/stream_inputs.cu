// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/stream.hpp"
#include "stream_inputs.hpp"
#include "stream_rows.cuh"

namespace spillway::gpu_bench {

namespace {

constexpr uint64_t kLinkCopyBytes = 256ULL << 20;
constexpr int kLinkCopies = 5;

FarMemory far_memory(const OutOfCoreOptions& options, uint64_t bytes) {
    if (options.inputs == FarPlace::kHost) return FarMemory::on_host(bytes);
    return FarMemory::on_peer(bytes, options.bench.device, options.peer());
}

FarRelation make_far_relation(cuda::Device& device, const OutOfCoreOptions& options, Side side) {
    const Workload& workload = options.bench.workload;
    FarRelation relation;
    relation.rows = side == Side::kBuild ? workload.build_rows : workload.probe_rows;
    relation.key_bytes = workload.key_bytes;
    relation.widths = side == Side::kBuild ? workload.build_payload : workload.probe_payload;
    relation.key = far_memory(options, relation.rows * relation.key_bytes);
    void* const keys = relation.key.data();
    const uint32_t key_bytes = relation.key_bytes;
    const FarKeys key_of(side, workload, options.bench.seed);
    for_each_row(device, relation.rows, [=] __device__(uint64_t row) { store(keys, key_bytes, row, key_of(row)); });
    const FarPayloads value_of(side, options);
    for (size_t c = 0; c < relation.widths.size(); ++c) {
        relation.columns.push_back(far_memory(options, relation.rows * relation.widths[c]));
        void* const values = relation.columns.back().data();
        const uint32_t width = relation.widths[c];
        const auto column = static_cast<uint32_t>(c);
        for_each_row(device, relation.rows,
                     [=] __device__(uint64_t row) { store(values, width, row, value_of(column, width, row)); });
    }
    return relation;
}

// The best of some: what the link can, not what it did while something else went on.
double copy_rate(cuda::Device& device, void* to, const void* from) {
    cuda::Event begin(cuda::EventTiming::kOn);
    cuda::Event end(cuda::EventTiming::kOn);
    double best_ms = 0;
    for (int copy = 0; copy < kLinkCopies; ++copy) {
        begin.record(device.stream());
        SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(to, from, kLinkCopyBytes, cudaMemcpyDefault, device.stream()));
        end.record(device.stream());
        device.synchronize();
        const double copy_ms = end.milliseconds_since(begin);
        if (copy == 0 || copy_ms < best_ms) best_ms = copy_ms;
    }
    return static_cast<double>(kLinkCopyBytes) / best_ms / 1e6;
}

// Both directions from the same moment on, until the slower one has ended; each in memory of its own.
double both_rate(cuda::Device& device, const cuda::Allocation& here, void* there) {
    const uint64_t half_bytes = kLinkCopyBytes / 2;
    auto* const near = here.as<uint8_t>();
    auto* const far = static_cast<uint8_t*>(there);
    cuda::Event begin(cuda::EventTiming::kOn);
    cuda::Event end(cuda::EventTiming::kOn);
    cuda::Event copied;
    cuda::Stream out;
    double best_ms = 0;
    for (int copy = 0; copy < kLinkCopies; ++copy) {
        begin.record(device.stream());
        out.wait(begin);
        SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(near, far, half_bytes, cudaMemcpyDefault, device.stream()));
        SPILLWAY_CUDA_CHECK(
            cudaMemcpyAsync(far + half_bytes, near + half_bytes, half_bytes, cudaMemcpyDefault, out.get()));
        copied.record(out.get());
        SPILLWAY_CUDA_CHECK(cudaStreamWaitEvent(device.stream(), copied.get(), 0));
        end.record(device.stream());
        device.synchronize();
        const double copy_ms = end.milliseconds_since(begin);
        if (copy == 0 || copy_ms < best_ms) best_ms = copy_ms;
    }
    return static_cast<double>(kLinkCopyBytes) / best_ms / 1e6;
}

}  // namespace

FarInputs make_far_inputs(cuda::Device& device, const OutOfCoreOptions& options) {
    device.make_current();
    FarInputs inputs;
    inputs.build = make_far_relation(device, options, Side::kBuild);
    inputs.probe = make_far_relation(device, options, Side::kProbe);
    device.synchronize();
    return inputs;
}

LinkRates measure_links(cuda::Device& device, const OutOfCoreOptions& options) {
    const cuda::Allocation here = device.memory().allocate(kLinkCopyBytes, "the link's rate");
    const FarMemory host = FarMemory::on_host(kLinkCopyBytes);
    LinkRates rates;
    rates.h2d = copy_rate(device, here.as(), host.data());
    rates.d2h = copy_rate(device, host.data(), here.as());
    rates.both = both_rate(device, here, host.data());
    if (options.uses_peer()) {
        const FarMemory there = FarMemory::on_peer(kLinkCopyBytes, options.bench.device, options.peer());
        rates.peer = copy_rate(device, here.as(), there.data());
        rates.peer_out = copy_rate(device, there.data(), here.as());
        rates.peer_both = both_rate(device, here, there.data());
    }
    return rates;
}

}  // namespace spillway::gpu_bench
