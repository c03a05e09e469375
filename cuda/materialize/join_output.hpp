// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/memory_pool.hpp"

// What a join is asked for and what it gives, whatever its algorithm.
namespace spillway::cuda {

enum class OutputSide : uint8_t { kBuild, kProbe, kKey };

struct JoinOutputColumn {
    OutputSide side = OutputSide::kProbe;
    uint32_t column = 0;  // of that side's DeviceRelation::columns; kKey has none
};

struct JoinResult {
    uint64_t rows = 0;
    std::vector<Allocation> columns;  // in the order asked for, `rows` values each
};

// How the rows of a result get their places.
enum class OutputPlan : uint8_t {
    kOnePass,    // into as many rows as expected; a second run when there are more
    kCountFirst  // counts the matches, then writes them
};

}  // namespace spillway::cuda
