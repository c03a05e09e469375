// SPDX-License-Identifier: Apache-2.0
#include "group_bench.hpp"
#include "key_sequence.cuh"
#include "rows.cuh"

namespace spillway::gpu_bench {

namespace {

enum Stream : uint64_t { kGroupKey = 16, kGroupOrder, kGroupPayload };
uint64_t stream_of(uint64_t seed, uint64_t stream) {
    return random64(cuda::mix64(seed), stream);
}

void fill_keys(cuda::Device& device, const GroupWorkload& workload, uint64_t seed, void* keys) {
    const uint64_t stream = stream_of(seed, kGroupKey);
    const uint64_t groups = workload.groups;
    const uint32_t width = workload.key_bytes;
    if (workload.zipf > 0) {
        const ZipfRanks ranks(groups, workload.zipf);
        const Shuffle key_of_rank(groups, stream_of(seed, kGroupOrder));
        for_each_row(device, workload.rows,
                     [=] __device__(uint64_t row) { store(keys, width, row, key_of_rank(ranks(stream, row))); });
    } else {
        const uint64_t order = stream_of(seed, kGroupOrder);
        const double share = workload.hot_share;
        for_each_row(device, workload.rows, [=] __device__(uint64_t row) {
            const double unit = static_cast<double>(random64(order, row) >> 11) * 0x1p-53;
            store(keys, width, row, unit < share ? groups / 3 : __umul64hi(random64(stream, row), groups));
        });
    }
}

void fill_payload(cuda::Device& device, uint64_t rows, uint64_t stream, const cuda::DeviceColumn& column, void* data) {
    const uint32_t width = column.width;
    for_each_row(device, rows, [=] __device__(uint64_t row) { store(data, width, row, random64(stream, row)); });
}

// For each key whether it comes.
void mark_present(cuda::Device& device, uint64_t rows, const cuda::DeviceColumn& key, uint32_t* present) {
    for_each_row(device, rows, [=] __device__(uint64_t row) {
        uint32_t* const place = present + load(key.data, key.width, row);
        if (*place == 0) atomicExch(place, 1U);
    });
}

void find_max(cuda::Device& device, uint64_t rows, const cuda::DeviceColumn& key, const cuda::DeviceColumn& column,
              unsigned long long* max) {
    for_each_row(device, rows, [=] __device__(uint64_t row) {
        const unsigned long long value = load(column.data, column.width, row);
        unsigned long long* const place = max + load(key.data, key.width, row);
        // A value of a moment ago is never above the present one: a hot key would queue all rows up.
        if (*static_cast<volatile unsigned long long*>(place) < value) atomicMax(place, value);
    });
}

void find_sum(cuda::Device& device, uint64_t rows, const cuda::DeviceColumn& key, const cuda::DeviceColumn& column,
              unsigned long long* sum) {
    for_each_row(device, rows, [=] __device__(uint64_t row) {
        const unsigned long long value = load(column.data, column.width, row);
        atomicAdd(sum + load(key.data, key.width, row), value);
    });
}

// Adds one for each key that comes.
void count_present(cuda::Device& device, uint64_t groups, const uint32_t* present, unsigned long long* count) {
    for_each_row(device, groups, [=] __device__(uint64_t group) {
        if (present[group] != 0) atomicAdd(count, 1ULL);
    });
}

// Rows of the result whose key is none of the input's, or came before.
void count_strangers(cuda::Device& device, const cuda::GroupByResult& result, const GroupWorkload& workload,
                     uint32_t* present, unsigned long long* count) {
    const void* const keys = result.keys.as();
    const uint32_t width = workload.key_bytes;
    const uint64_t groups = workload.groups;
    for_each_row(device, result.groups, [=] __device__(uint64_t row) {
        const uint64_t key = load(keys, width, row);
        if (key >= groups || atomicExch(present + key, 0U) != 1) atomicAdd(count, 1ULL);
    });
}

void count_wrong(cuda::Device& device, const cuda::GroupByResult& result, const GroupWorkload& workload, size_t column,
                 const unsigned long long* expected, unsigned long long* count) {
    const void* const keys = result.keys.as();
    const void* const values = result.values[column].as();
    const uint32_t key_width = workload.key_bytes;
    const uint32_t width = workload.sum ? 8 : workload.payload[column];
    const uint64_t groups = workload.groups;
    for_each_row(device, result.groups, [=] __device__(uint64_t row) {
        const uint64_t key = load(keys, key_width, row);
        if (key >= groups || load(values, width, row) != expected[key]) atomicAdd(count, 1ULL);
    });
}

cuda::Allocation zeros(cuda::Device& device, uint64_t bytes) {
    cuda::Allocation memory = device.memory().allocate(bytes, "verification");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(memory.as(), 0, bytes, device.stream()));
    return memory;
}

uint64_t read_count(cuda::Device& device, const cuda::Allocation& count) {
    uint64_t value = 0;
    SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(&value, count.as(), sizeof value, cudaMemcpyDeviceToHost, device.stream()));
    device.synchronize();
    return value;
}

}  // namespace

GroupInputs make_group_inputs(cuda::Device& device, const GroupWorkload& workload, uint64_t seed) {
    GroupInputs inputs;
    inputs.memory.push_back(device.memory().allocate(workload.rows * workload.key_bytes, "keys of an input"));
    inputs.key = {inputs.memory.back().as(), workload.key_bytes};
    fill_keys(device, workload, seed, inputs.memory.back().as());
    for (size_t c = 0; c < workload.payload.size(); ++c) {
        inputs.memory.push_back(device.memory().allocate(workload.rows * workload.payload[c], "payloads of an input"));
        inputs.payloads.push_back({inputs.memory.back().as(), workload.payload[c]});
        fill_payload(device, workload.rows, stream_of(seed, kGroupPayload + c), inputs.payloads.back(),
                     inputs.memory.back().as());
    }
    device.synchronize();
    return inputs;
}

GroupReference::GroupReference(cuda::Device& device, const GroupWorkload& workload, const GroupInputs& inputs)
    : workload_(workload) {
    present_ = zeros(device, workload.groups * sizeof(uint32_t));
    mark_present(device, workload.rows, inputs.key, present_.as<uint32_t>());
    for (const cuda::DeviceColumn& column : inputs.payloads) {
        expected_.push_back(zeros(device, workload.groups * sizeof(unsigned long long)));
        auto* const expected = expected_.back().as<unsigned long long>();
        if (workload.sum) {
            find_sum(device, workload.rows, inputs.key, column, expected);
        } else {
            find_max(device, workload.rows, inputs.key, column, expected);
        }
    }
    const cuda::Allocation count = zeros(device, sizeof(unsigned long long));
    count_present(device, workload.groups, present_.as<const uint32_t>(), count.as<unsigned long long>());
    groups_ = read_count(device, count);
}

std::string GroupReference::verify(cuda::Device& device, const cuda::GroupByResult& result) const {
    if (result.groups != groups_) {
        return "the result has " + std::to_string(result.groups) + " groups instead of " + std::to_string(groups_);
    }
    const cuda::Allocation left = device.memory().allocate(present_.bytes(), "verification");
    SPILLWAY_CUDA_CHECK(
        cudaMemcpyAsync(left.as(), present_.as(), present_.bytes(), cudaMemcpyDeviceToDevice, device.stream()));
    const cuda::Allocation count = zeros(device, sizeof(unsigned long long));
    count_strangers(device, result, workload_, left.as<uint32_t>(), count.as<unsigned long long>());
    const uint64_t strangers = read_count(device, count);
    if (strangers > 0) return std::to_string(strangers) + " groups have a key that is not there, or comes twice";
    for (size_t c = 0; c < expected_.size(); ++c) {
        const cuda::Allocation wrong = zeros(device, sizeof(unsigned long long));
        count_wrong(device, result, workload_, c, expected_[c].as<const unsigned long long>(),
                    wrong.as<unsigned long long>());
        const uint64_t groups = read_count(device, wrong);
        if (groups > 0) return std::to_string(groups) + " groups have a wrong aggregate";
    }
    return "";
}

}  // namespace spillway::gpu_bench
