// SPDX-License-Identifier: Apache-2.0
// A stand-in of our own for the hash-based group-by of cuDF as a paper describes it (Wu et al., GFTR, section 3.2.1);
// no code of cuDF is in it. A table has the number of the row that came first with each key, and all rows with that key
// update, by an atomic operation per value, the entries at that number of arrays as long as the input: sparse ones.
// Then the table is closed up to the list of such rows, by which keys and aggregates are gathered. As in the paper
// nothing keeps rows of one key from queueing up.
#include <cub/device/device_select.cuh>
#include <stdexcept>

#include "group_bench.hpp"
#include "rows.cuh"

namespace spillway::gpu_bench {

namespace {

constexpr uint32_t kNoFirstRow = ~0U;
constexpr size_t kSparseColumnsMax = 16;
// Half of the table is empty where every row has a key of its own.
constexpr uint64_t kSparseSlotsPerRow = 2;

struct SparseColumns {
    const void* from[kSparseColumnsMax] = {};
    uint32_t width[kSparseColumnsMax] = {};
    void* to[kSparseColumnsMax] = {};  // [rows] of 64-bit sums, or of maxima as wide as the column
    uint32_t columns = 0;
    bool sum = false;

    __device__ void update(uint64_t row, uint32_t first) const {
        for (uint32_t c = 0; c < columns; ++c) {
            const unsigned long long value = load(from[c], width[c], row);
            if (sum) {
                atomicAdd(static_cast<unsigned long long*>(to[c]) + first, value);
            } else if (width[c] == 4) {
                atomicMax(static_cast<uint32_t*>(to[c]) + first, static_cast<uint32_t>(value));
            } else {
                atomicMax(static_cast<unsigned long long*>(to[c]) + first, value);
            }
        }
    }
};

struct HasFirstRow {
    __device__ bool operator()(uint32_t row) const { return row != kNoFirstRow; }
};

void insert_and_update(cuda::Device& device, uint64_t rows, const cuda::DeviceColumn& key, uint32_t* table,
                       uint64_t slots, const SparseColumns& columns) {
    for_each_row(device, rows, [=] __device__(uint64_t row) {
        const uint64_t own = load(key.data, key.width, row);
        uint64_t slot = __umul64hi(cuda::mix64(own), slots);
        for (;;) {
            uint32_t first = __ldcg(&table[slot]);
            if (first == kNoFirstRow) {
                first = atomicCAS(&table[slot], kNoFirstRow, static_cast<uint32_t>(row));
                if (first == kNoFirstRow) first = static_cast<uint32_t>(row);
            }
            if (first == row || load(key.data, key.width, first) == own) {
                columns.update(row, first);
                return;
            }
            slot = slot + 1 == slots ? 0 : slot + 1;
        }
    });
}

// The list of the rows that came first; their number.
uint64_t list_first_rows(cuda::Device& device, const cuda::Allocation& table, uint64_t slots, uint32_t* list) {
    const cudaStream_t stream = device.stream();
    const cuda::Allocation count = device.memory().allocate(sizeof(unsigned long long), "number of groups");
    cuda::Allocation scratch;
    size_t bytes = 0;
    for (int call = 0; call < 2; ++call) {  // the first asks how much memory the second takes
        if (call == 1) scratch = device.memory().allocate(bytes, "selection");
        SPILLWAY_CUDA_CHECK(cub::DeviceSelect::If(scratch.as(), bytes, table.as<const uint32_t>(), list,
                                                  count.as<unsigned long long>(), static_cast<int64_t>(slots),
                                                  HasFirstRow(), stream));
    }
    uint64_t groups = 0;
    SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(&groups, count.as(), sizeof groups, cudaMemcpyDeviceToHost, stream));
    device.synchronize();
    return groups;
}

cuda::Allocation gather(cuda::Device& device, const void* from, uint32_t width, const uint32_t* list, uint64_t groups) {
    cuda::Allocation to = device.memory().allocate(groups * width, "columns of groups");
    void* const column = to.as();
    for_each_row(device, groups,
                 [=] __device__(uint64_t group) { store(column, width, group, load(from, width, list[group])); });
    return to;
}

}  // namespace

cuda::GroupByResult run_sparse_array(cuda::Device& device, const GroupWorkload& workload, const GroupInputs& inputs) {
    if (inputs.payloads.size() > kSparseColumnsMax) {
        throw std::invalid_argument("Expected at most 16 payload columns for sparse-array.");
    }
    const uint64_t rows = workload.rows;
    const uint64_t slots = kSparseSlotsPerRow * rows;
    cuda::MemoryPool& memory = device.memory();
    const cuda::Allocation table = memory.allocate(slots * sizeof(uint32_t), "table of first rows");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(table.as(), 0xff, table.bytes(), device.stream()));
    SparseColumns columns;
    columns.sum = workload.sum;
    std::vector<cuda::Allocation> sparse;
    for (const cuda::DeviceColumn& column : inputs.payloads) {
        sparse.push_back(memory.allocate(rows * (workload.sum ? 8 : column.width), "sparse aggregates"));
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(sparse.back().as(), 0, sparse.back().bytes(), device.stream()));
        columns.from[columns.columns] = column.data;
        columns.width[columns.columns] = column.width;
        columns.to[columns.columns++] = sparse.back().as();
    }
    insert_and_update(device, rows, inputs.key, table.as<uint32_t>(), slots, columns);
    const cuda::Allocation list = memory.allocate(rows * sizeof(uint32_t), "first rows");
    cuda::GroupByResult result;
    result.groups = list_first_rows(device, table, slots, list.as<uint32_t>());
    const auto* const first_rows = list.as<const uint32_t>();
    result.keys = gather(device, inputs.key.data, inputs.key.width, first_rows, result.groups);
    for (size_t c = 0; c < sparse.size(); ++c) {
        const uint32_t width = workload.sum ? 8 : inputs.payloads[c].width;
        result.values.push_back(gather(device, sparse[c].as(), width, first_rows, result.groups));
    }
    return result;
}

}  // namespace spillway::gpu_bench
