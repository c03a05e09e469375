// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "api/join_spec.hpp"
#include "device/memory_pool.hpp"

// What a join is asked for and what it gives, whatever its algorithm.
namespace spillway::cuda { inline namespace materialize {

struct JoinResult {
    uint64_t rows = 0;
    // In the order asked for, `rows` values each; 0 where the row of that side is missing.
    std::vector<Allocation> columns;
};

// How the rows of a result get their places.
enum class OutputPlan : uint8_t {
    kOnePass,    // into as many rows as expected; a second run when there are more
    kCountFirst  // counts the matches, then writes them
};

}}  // namespace spillway::cuda::materialize
