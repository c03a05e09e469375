// SPDX-License-Identifier: Apache-2.0
#include "key_sequence.cuh"
#include "relations.hpp"
#include "rows.cuh"

namespace spillway::gpu_bench {

namespace {

// Random numbers of different use must not be functions of each other.
enum Stream : uint64_t { kBuildKey, kProbeKey, kDomainOrder };
uint64_t stream_of(uint64_t seed, Stream stream) {
    return random64(cuda::mix64(seed), stream);
}

Relation allocate(cuda::Device& device, uint64_t rows, uint32_t key_bytes, const std::vector<uint32_t>& widths) {
    Relation relation;
    relation.columns.rows = rows;
    relation.memory.push_back(device.memory().allocate(rows * key_bytes, "keys of an input"));
    relation.columns.key = {relation.memory.back().as(), key_bytes};
    for (const uint32_t width : widths) {
        relation.memory.push_back(device.memory().allocate(rows * width, "payloads of an input"));
        relation.columns.columns.push_back({relation.memory.back().as(), width});
    }
    return relation;
}

void fill_payloads(cuda::Device& device, const Relation& relation, Side side) {
    for (size_t c = 0; c < relation.columns.columns.size(); ++c) {
        void* const data = relation.memory[c + 1].as();
        const uint32_t width = relation.columns.columns[c].width;
        const auto column = static_cast<uint32_t>(c);
        for_each_row(device, relation.columns.rows, [=] __device__(uint64_t row) {
            store(data, width, row, payload_value(side, column, width, row));
        });
    }
}

void fill_permutation(cuda::Device& device, const Relation& relation, uint64_t stream) {
    const Shuffle key(relation.columns.rows, stream);
    void* const keys = relation.memory[0].as();
    const uint32_t width = relation.columns.key.width;
    for_each_row(device, relation.columns.rows, [=] __device__(uint64_t row) { store(keys, width, row, key(row)); });
}

void fill_uniform(cuda::Device& device, const Relation& relation, uint64_t domain, uint64_t stream) {
    void* const keys = relation.memory[0].as();
    const uint32_t width = relation.columns.key.width;
    for_each_row(device, relation.columns.rows,
                 [=] __device__(uint64_t row) { store(keys, width, row, __umul64hi(random64(stream, row), domain)); });
}

void fill_zipf(cuda::Device& device, const Relation& relation, const Workload& workload, uint64_t seed) {
    const uint64_t domain = workload.probe_domain();
    const ZipfRanks ranks(domain, workload.zipf);
    const Shuffle key_of_rank(domain, stream_of(seed, kDomainOrder));
    const uint64_t stream = stream_of(seed, kProbeKey);
    void* const keys = relation.memory[0].as();
    const uint32_t width = relation.columns.key.width;
    for_each_row(device, relation.columns.rows,
                 [=] __device__(uint64_t row) { store(keys, width, row, key_of_rank(ranks(stream, row))); });
}

}  // namespace

Inputs make_inputs(cuda::Device& device, const Workload& workload, uint64_t seed) {
    Inputs inputs;
    inputs.build = allocate(device, workload.build_rows, workload.key_bytes, workload.build_payload);
    inputs.probe = allocate(device, workload.probe_rows, workload.key_bytes, workload.probe_payload);
    const uint64_t build_stream = stream_of(seed, kBuildKey);
    if (workload.unique_build_keys()) {
        fill_permutation(device, inputs.build, build_stream);
    } else {
        fill_uniform(device, inputs.build, workload.build_domain(), build_stream);
    }
    if (workload.zipf > 0) {
        fill_zipf(device, inputs.probe, workload, seed);
    } else {
        fill_uniform(device, inputs.probe, workload.probe_domain(), stream_of(seed, kProbeKey));
    }
    fill_payloads(device, inputs.build, Side::kBuild);
    fill_payloads(device, inputs.probe, Side::kProbe);
    device.synchronize();
    return inputs;
}

}  // namespace spillway::gpu_bench
