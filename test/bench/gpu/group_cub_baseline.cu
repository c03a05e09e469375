// SPDX-License-Identifier: Apache-2.0
// A baseline of library parts: both payloads are packed into one value, CUB's radix sort orders keys and values, its
// reduction by key finds the max of each payload, and the values are unpacked into columns.
#include <algorithm>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <stdexcept>

#include "group_bench.hpp"
#include "rows.cuh"

namespace spillway::gpu_bench {

namespace {

template <class Word>
struct alignas(2 * sizeof(Word)) Pair {
    Word first;
    Word second;
};

struct MaxOfBoth {
    template <class Word>
    __device__ Pair<Word> operator()(const Pair<Word>& a, const Pair<Word>& b) const {
        return {a.first < b.first ? b.first : a.first, a.second < b.second ? b.second : a.second};
    }
};

template <class Word>
void pack(cuda::Device& device, uint64_t rows, const GroupInputs& inputs, Pair<Word>* pairs) {
    const auto* const first = static_cast<const Word*>(inputs.payloads[0].data);
    const auto* const second = static_cast<const Word*>(inputs.payloads[1].data);
    for_each_row(device, rows, [=] __device__(uint64_t row) { pairs[row] = {first[row], second[row]}; });
}

template <class Word>
void unpack(cuda::Device& device, const Pair<Word>* pairs, cuda::GroupByResult& result) {
    for (int column = 0; column < 2; ++column) {
        result.values.push_back(device.memory().allocate(result.groups * sizeof(Word), "aggregates"));
        auto* const values = result.values.back().as<Word>();
        for_each_row(device, result.groups, [=] __device__(uint64_t group) {
            values[group] = column == 0 ? pairs[group].first : pairs[group].second;
        });
    }
}

template <class Word>
cuda::GroupByResult run(cuda::Device& device, const GroupWorkload& workload, const GroupInputs& inputs) {
    const uint64_t rows = workload.rows;
    const cudaStream_t stream = device.stream();
    cuda::MemoryPool& memory = device.memory();
    // A planner knows the range of the keys, so that no pass of the sort is spent on bits that are 0 in all of them.
    int key_bits = 1;
    while (key_bits < 63 && (1ULL << key_bits) < workload.groups) ++key_bits;
    const cuda::Allocation pairs = memory.allocate(rows * sizeof(Pair<Word>), "packed payloads");
    pack(device, rows, inputs, pairs.as<Pair<Word>>());
    const cuda::Allocation keys = memory.allocate(rows * sizeof(Word), "sorted keys");
    const cuda::Allocation values = memory.allocate(rows * sizeof(Pair<Word>), "sorted payloads");
    cuda::Allocation scratch;
    size_t bytes = 0;
    for (int call = 0; call < 2; ++call) {  // the first asks how much memory the second takes
        if (call == 1) scratch = memory.allocate(bytes, "sort");
        SPILLWAY_CUDA_CHECK(cub::DeviceRadixSort::SortPairs(
            scratch.as(), bytes, static_cast<const Word*>(inputs.key.data), keys.as<Word>(),
            pairs.as<const Pair<Word>>(), values.as<Pair<Word>>(), static_cast<int64_t>(rows), 0, key_bits, stream));
    }
    scratch.reset();
    cuda::GroupByResult result;
    result.keys = memory.allocate(std::min(rows, workload.groups) * sizeof(Word), "keys of groups");
    const cuda::Allocation runs = memory.allocate(sizeof(unsigned long long), "number of groups");
    for (int call = 0; call < 2; ++call) {
        if (call == 1) scratch = memory.allocate(bytes, "reduction");
        // Reduced values take the place of the unsorted ones.
        SPILLWAY_CUDA_CHECK(cub::DeviceReduce::ReduceByKey(
            scratch.as(), bytes, keys.as<const Word>(), result.keys.as<Word>(), values.as<const Pair<Word>>(),
            pairs.as<Pair<Word>>(), runs.as<unsigned long long>(), MaxOfBoth(), static_cast<int>(rows), stream));
    }
    SPILLWAY_CUDA_CHECK(
        cudaMemcpyAsync(&result.groups, runs.as(), sizeof result.groups, cudaMemcpyDeviceToHost, stream));
    device.synchronize();
    unpack(device, pairs.as<const Pair<Word>>(), result);
    return result;
}

}  // namespace

cuda::GroupByResult run_cub_sort_reduce(cuda::Device& device, const GroupWorkload& workload,
                                        const GroupInputs& inputs) {
    const uint32_t width = workload.key_bytes;
    if (workload.payload.size() != 2 || workload.payload[0] != width || workload.payload[1] != width ||
        workload.rows > (1ULL << 31) - 1) {
        throw std::invalid_argument("Expected two payload columns as wide as the key for cub-sort-reduce.");
    }
    return width == 4 ? run<uint32_t>(device, workload, inputs) : run<uint64_t>(device, workload, inputs);
}

}  // namespace spillway::gpu_bench
