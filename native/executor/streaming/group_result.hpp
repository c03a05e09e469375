// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "executor/streaming/group_by_spec.hpp"
#include "memory/memory_budget.hpp"
#include "model/output_batch.hpp"

namespace spillway {

// Where the groups of a batch begin in each output column of the GPU.
struct GroupOutputs {
    const std::vector<uint32_t>& widths;
    const std::vector<const uint8_t*>& data;
    int32_t null_byte = -1;  // of the key: the bits of keys that are NULL
};

// Makes a column of a result batch as native/cpu/group_by would. name: of the aggregated column. Throws
// kIntegerOverflow for a sum that does not fit its type.
OutputColumn group_result_column(const GroupResultColumn& column, const GroupOutputs& outputs, uint64_t rows,
                                 const std::string& name, MemoryBudget& budget);

}  // namespace spillway
