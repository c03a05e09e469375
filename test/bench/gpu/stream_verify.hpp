// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stream_inputs.hpp"

namespace spillway::gpu_bench {

// What the join must give, found from the inputs by one atomic operation per build row on arrays indexed by the key and
// a look into them per probe row: no algorithm of the product.
struct FarTotals {
    uint64_t rows = 0;
    std::vector<uint64_t> sums;  // of kSummedColumnsMax payloads of the build side, then of the probe side, modulo 2^64
    uint64_t check = 0;          // sum of f(build row) * g(probe row), for random f and g: verify.hpp
};

// Finds the number of rows, and what else options.result asks for.
FarTotals expected_far_totals(cuda::Device& device, const OutOfCoreOptions& options, const FarInputs& inputs);

// Result rows as columns: the key, the build side's payloads, the probe side's.
struct FarRows {
    uint64_t rows = 0;
    std::vector<uint32_t> widths;
    std::vector<FarMemory> columns;
};
FarRows make_far_rows(const OutOfCoreOptions& options, uint64_t rows);
// Fills them with what no row of a join is, so that rows of an earlier run cannot stand for those of a later one.
void spoil_far_rows(cuda::Device& device, const FarRows& result);

// Empty, or what is wrong: as verify.hpp, but the key of a row is computed anew and not looked up over the link.
std::string check_far_rows(cuda::Device& device, const OutOfCoreOptions& options, const FarRows& result,
                           const FarTotals& expected);

}  // namespace spillway::gpu_bench
