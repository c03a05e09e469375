// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "api/group_spec.hpp"
#include "device/device.hpp"
#include "primitive/device_relation.hpp"

namespace spillway::cuda { inline namespace grouping {

struct GroupAggregate {
    GroupAggregateKind kind = GroupAggregateKind::kCountRows;
    ValueKind value_kind = ValueKind::kSigned;
    // Values of 1, 2, 4 or 8 bytes (kFloat: 4 or 8); data nullptr: the row's number, of 4 or 8 bytes. kCountRows: none.
    DeviceColumn values;
    const uint32_t* valid = nullptr;  // a bit per row; nullptr: no NULLs
};

// At most kGroupAggregatesMax aggregates, or any number in parts.
struct GroupByRequest {
    GroupByAlgorithm algorithm = GroupByAlgorithm::kHash;
    bool is_named = false;      // kHash gives way to kHashGlobal, not to kPartitioned
    bool all_key_bits = false;  // sorts are by all bits of the keys, as the papers have it, also by those they share
    uint64_t rows = 0;
    DeviceColumn key;                     // 4 or 8 bytes
    const uint32_t* key_valid = nullptr;  // rows without a key are left out
    std::vector<GroupAggregate> aggregates;
    uint64_t expected_groups = 0;  // 0: unknown
    bool knows_groups = false;     // they have been counted
    // More aggregates than one group-by does well are left to several, of some each, which take memory for their
    // results and for a table of the groups' keys (aggregate_parts.hpp).
    bool in_parts = false;
};

struct GroupByResult {
    uint64_t groups = 0;
    Allocation keys;  // [groups], of the key's width
    // Per aggregate, [groups]: kCountRows, kCount, kSum and kMean 8 bytes; others the width of their values. What
    // stands where `present` is 0 means nothing.
    std::vector<Allocation> values;
    // Per aggregate, a byte per group: 1 = some value was not NULL, of kFirst: that row's; empty where `valid` was
    // nullptr, and for counts.
    std::vector<Allocation> present;
    // Per aggregate: a sum of integers of some group does not fit 64 bits, for which the CPU engine throws.
    std::vector<bool> sum_overflows;

    bool has_sum_overflow() const {
        return std::find(sum_overflows.begin(), sum_overflows.end(), true) != sum_overflows.end();
    }
};

}}  // namespace spillway::cuda::grouping
