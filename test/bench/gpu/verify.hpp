// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "hash_join/hash_join.hpp"
#include "relations.hpp"

namespace spillway::gpu_bench {

struct Verdict {
    uint64_t expected_rows = 0;
    uint64_t pairs = 0;   // rows of both sides with equal keys
    std::string problem;  // empty: the result is right
};

// Whether `result`, whose columns are all_payloads(), has every row of the join once:
// - each result row is made of rows of the inputs that have its key, and of all their payloads, which are 0 for a side
//   that is not there;
// - there are as many as the frequencies of the keys say;
// - the sum of f(build row) * g(probe row) over all result rows is what the keys' sums of f and of g say, for random
//   f and g, which are a number of their own for a side that is not there: no row is missing while another one is there
//   twice.
// Of a result without columns, which was only counted, the number of rows is looked at.
Verdict verify(cuda::Device& device, const Workload& workload, const Inputs& inputs, const cuda::JoinResult& result);

}  // namespace spillway::gpu_bench
