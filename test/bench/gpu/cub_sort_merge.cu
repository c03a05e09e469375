// SPDX-License-Identifier: Apache-2.0
// A baseline of library parts, for joins of primary with foreign keys: CUB's radix sort orders the keys of both sides
// with their row numbers, each foreign key is searched among the primary keys (neighbours search alike, so that the
// caches serve them), and the payloads of the pairs are gathered from the inputs.
#include <cub/block/block_scan.cuh>
#include <cub/device/device_radix_sort.cuh>

#include "algorithm.hpp"
#include "rows.cuh"

namespace spillway::gpu_bench {

namespace {

using RowNumber = uint32_t;

struct SortedKeys {
    cuda::Allocation keys;
    cuda::Allocation rows;
};

template <class Key>
SortedKeys sort_keys(cuda::Device& device, const cuda::DeviceRelation& relation, int key_bits) {
    const uint64_t rows = relation.rows;
    const cudaStream_t stream = device.stream();
    const cuda::Allocation numbers = device.memory().allocate(rows * sizeof(RowNumber), "row numbers");
    auto* const number = numbers.as<RowNumber>();
    for_each_row(device, rows, [=] __device__(uint64_t row) { number[row] = static_cast<RowNumber>(row); });
    SortedKeys sorted;
    sorted.keys = device.memory().allocate(rows * sizeof(Key), "sorted keys");
    sorted.rows = device.memory().allocate(rows * sizeof(RowNumber), "sorted row numbers");
    const auto* const keys = static_cast<const Key*>(relation.key.data);
    cuda::Allocation scratch;
    size_t bytes = 0;
    for (int call = 0; call < 2; ++call) {  // the first asks how much memory the second takes
        if (call == 1) scratch = device.memory().allocate(bytes, "sort");
        SPILLWAY_CUDA_CHECK(cub::DeviceRadixSort::SortPairs(scratch.as(), bytes, keys, sorted.keys.as<Key>(), number,
                                                            sorted.rows.as<RowNumber>(), static_cast<int64_t>(rows), 0,
                                                            key_bits, stream));
    }
    return sorted;
}

struct Pairs {
    void* keys = nullptr;
    RowNumber* build_rows = nullptr;
    RowNumber* probe_rows = nullptr;
    unsigned long long* count = nullptr;
};

template <class Key>
struct Search {
    const Key* build_keys;
    const RowNumber* build_rows;
    uint64_t build_count;
    const Key* probe_keys;
    const RowNumber* probe_rows;
    uint64_t probe_count;
};

template <class Key>
__device__ uint64_t lower_bound(const Key* keys, uint64_t count, Key key) {
    uint64_t low = 0;
    while (count > 0) {
        const uint64_t half = count / 2;
        const bool below = keys[low + half] < key;
        low = below ? low + half + 1 : low;
        count = below ? count - half - 1 : half;
    }
    return low;
}

// A thread per sorted foreign key; a block takes the places of its pairs at once.
template <class Key>
__global__ void search_kernel(Search<Key> in, Pairs out) {
    using Scan = cub::BlockScan<uint32_t, kBlockThreads>;
    __shared__ typename Scan::TempStorage scratch;
    __shared__ unsigned long long first;
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * kBlockThreads + threadIdx.x;
    const bool is_row = at < in.probe_count;
    const Key key = is_row ? in.probe_keys[at] : Key{0};
    const uint64_t partner = is_row ? lower_bound(in.build_keys, in.build_count, key) : in.build_count;
    const bool found = partner < in.build_count && in.build_keys[partner] == key;
    uint32_t place = 0;
    uint32_t pairs = 0;
    Scan(scratch).ExclusiveSum(found ? 1U : 0U, place, pairs);
    if (threadIdx.x == 0) first = atomicAdd(out.count, static_cast<unsigned long long>(pairs));
    __syncthreads();
    if (!found) return;
    static_cast<Key*>(out.keys)[first + place] = key;
    out.build_rows[first + place] = in.build_rows[partner];
    out.probe_rows[first + place] = in.probe_rows[at];
}

void gather(cuda::Device& device, const cuda::DeviceRelation& input, const RowNumber* rows, uint64_t count,
            cuda::JoinResult& result) {
    for (const cuda::DeviceColumn& column : input.columns) {
        cuda::Allocation out = device.memory().allocate(count * column.width, "join result");
        void* const to = out.as();
        for_each_row(device, count, [=] __device__(uint64_t row) {
            store(to, column.width, row, load(column.data, column.width, rows[row]));
        });
        result.columns.push_back(std::move(out));
    }
}

template <class Key>
cuda::JoinResult run_keys(cuda::Device& device, const Workload& workload, const Inputs& inputs,
                          cuda::PhaseTimer& timer) {
    const cuda::DeviceRelation& build = inputs.build.columns;
    const cuda::DeviceRelation& probe = inputs.probe.columns;
    const cudaStream_t stream = device.stream();
    // A planner knows the range of the keys, so that no pass of the sort is spent on bits that are 0 in all of them.
    int key_bits = 1;
    while (key_bits < 63 && (1ULL << key_bits) < workload.probe_domain()) ++key_bits;
    timer.begin(kTransformPhase);
    const SortedKeys left = sort_keys<Key>(device, build, key_bits);
    const SortedKeys right = sort_keys<Key>(device, probe, key_bits);
    timer.begin(kJoinPhase);
    cuda::JoinResult result;
    result.columns.push_back(device.memory().allocate(probe.rows * sizeof(Key), "join result"));
    const cuda::Allocation build_rows = device.memory().allocate(probe.rows * sizeof(RowNumber), "pairs");
    const cuda::Allocation probe_rows = device.memory().allocate(probe.rows * sizeof(RowNumber), "pairs");
    const cuda::Allocation counter = device.memory().allocate(sizeof(unsigned long long), "pairs");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(counter.as(), 0, counter.bytes(), stream));
    const Search<Key> in = {left.keys.as<const Key>(),  left.rows.as<const RowNumber>(),  build.rows,
                            right.keys.as<const Key>(), right.rows.as<const RowNumber>(), probe.rows};
    const Pairs out = {result.columns[0].as(), build_rows.as<RowNumber>(), probe_rows.as<RowNumber>(),
                       counter.as<unsigned long long>()};
    const auto blocks = static_cast<unsigned>((probe.rows + kBlockThreads - 1) / kBlockThreads);
    cuda::launch(search_kernel<Key>, dim3(blocks), dim3(kBlockThreads), 0, stream, in, out);
    SPILLWAY_CUDA_CHECK(
        cudaMemcpyAsync(&result.rows, counter.as(), sizeof result.rows, cudaMemcpyDeviceToHost, stream));
    device.synchronize();
    gather(device, build, out.build_rows, result.rows, result);
    gather(device, probe, out.probe_rows, result.rows, result);
    timer.end();
    return result;
}

cuda::JoinResult run(cuda::Device& device, const Workload& workload, const Inputs& inputs, cuda::PhaseTimer& timer) {
    return workload.key_bytes == 4 ? run_keys<uint32_t>(device, workload, inputs, timer)
                                   : run_keys<uint64_t>(device, workload, inputs, timer);
}

}  // namespace

const Algorithm kCubSortMerge = {"cub-sort-merge", false, run, false, true};

}  // namespace spillway::gpu_bench
