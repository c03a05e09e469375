// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "group_by/group_by.hpp"
#include "group_workload.hpp"

namespace spillway::gpu_bench {

struct GroupInputs {
    cuda::DeviceColumn key;
    std::vector<cuda::DeviceColumn> payloads;
    std::vector<cuda::Allocation> memory;  // behind them
};

GroupInputs make_group_inputs(cuda::Device& device, const GroupWorkload& workload, uint64_t seed);

// What the result must be: found by one atomic operation per value on arrays indexed by the key, which is no algorithm
// of the product.
class GroupReference {
  public:
    GroupReference(cuda::Device& device, const GroupWorkload& workload, const GroupInputs& inputs);
    // Empty, or what is wrong with the result.
    std::string verify(cuda::Device& device, const cuda::GroupByResult& result) const;

  private:
    const GroupWorkload workload_;
    cuda::Allocation present_;                // [groups] uint32_t, 1 = some row has the key
    std::vector<cuda::Allocation> expected_;  // per payload, [groups] of 64 bits: its max or sum
    uint64_t groups_ = 0;                     // that some row has
};

struct GroupAlgorithm {
    const char* name;
    cuda::GroupByResult (*run)(cuda::Device&, const GroupWorkload&, const GroupInputs&);
    int number = -1;  // of cuda::GroupByAlgorithm, which must run; -1: a group-by of the benchmark's own
};

cuda::GroupByResult run_cub_sort_reduce(cuda::Device& device, const GroupWorkload& workload, const GroupInputs& inputs);
cuda::GroupByResult run_sparse_array(cuda::Device& device, const GroupWorkload& workload, const GroupInputs& inputs);

// One line of JSON per algorithm; the exit code.
int run_group_bench(int count, char** arguments);

}  // namespace spillway::gpu_bench
