// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "no_partitioning_join/no_partitioning_join.hpp"

namespace spillway::cuda { inline namespace no_partitioning_joins {

// More than any memory holds, and little enough for products with widths to stay within 64 bits.
constexpr uint64_t kNpjRowsMax = 1ULL << 48;

// What no caller may ask for: kInvalid.
[[noreturn]] void refuse_npj(const std::string& text);
void check_npj(const DeviceRelation& build, const DeviceRelation& probe, const NpjOptions& options);
void check_output(const std::vector<JoinOutputColumn>& output);

}}  // namespace spillway::cuda::no_partitioning_joins
