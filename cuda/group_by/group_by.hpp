// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "primitive/device_relation.hpp"

namespace spillway::cuda {

// Group-bys by name (Wu et al., GFTR, section 4).
enum class GroupByAlgorithm : uint8_t {
    kHash,         // HGB: tables in shared memory, merged into one in GPU memory
    kPartitioned,  // PGB-TR: radix partitions of packed rows, aggregated in shared memory
    kSorted        // SGB-TR: radix sort, then a segmented reduction
};

enum class GroupAggregateKind : uint8_t {
    kCountRows,
    kCount,  // of values that are not NULL
    kSum,    // of kSigned and kUnsigned in 64 bits modulo 2^64, of kFloat in double
    kMin,    // NaN is the largest value, as in native/cpu/group_by
    kMax,
    kFirst  // value of the row with the smallest number
};

enum class ValueKind : uint8_t { kSigned, kUnsigned, kFloat };

struct GroupAggregate {
    GroupAggregateKind kind = GroupAggregateKind::kCountRows;
    ValueKind value_kind = ValueKind::kSigned;
    // Values of 1, 2, 4 or 8 bytes (kFloat: 4 or 8); data nullptr: the row's number, of 4 or 8 bytes. kCountRows: none.
    DeviceColumn values;
    const uint32_t* valid = nullptr;  // a bit per row; nullptr: no NULLs
};

struct GroupByRequest {
    GroupByAlgorithm algorithm = GroupByAlgorithm::kHash;
    uint64_t rows = 0;
    DeviceColumn key;                     // 4 or 8 bytes
    const uint32_t* key_valid = nullptr;  // rows without a key are left out
    std::vector<GroupAggregate> aggregates;
    uint64_t expected_groups = 0;  // 0: unknown
};

struct GroupByResult {
    uint64_t groups = 0;
    Allocation keys;  // [groups], of the key's width
    // Per aggregate, [groups]: kCountRows and kCount 8 bytes; kSum 8 bytes; others the width of their values.
    std::vector<Allocation> values;
    // Per aggregate, a byte per group: 1 = some value was not NULL; empty where `valid` was nullptr, and for counts.
    std::vector<Allocation> present;
};

// One row per distinct key, in no particular order. Never wrong for a wrong guess of the number of groups, only slower.
// Waits for the device. Throws kInvalid, kOutOfMemory, kCancelled.
GroupByResult group_by(Device& device, const GroupByRequest& request);

}  // namespace spillway::cuda
