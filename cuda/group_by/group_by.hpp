// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "primitive/device_relation.hpp"

namespace spillway::cuda {

// Group-bys by name (Wu et al., GFTR, section 4).
enum class GroupByAlgorithm : uint8_t {
    kHash = 0,  // HGB: tables in shared memory, merged into one in GPU memory; for few groups, else as kPartitioned
    kPartitioned = 1,        // PGB-TR: radix partitions of packed rows, aggregated in shared memory
    kSorted = 2,             // SGB-UR: radix sort of keys and row numbers, then a reduction of the runs
    kPartitionedGather = 3,  // PGB-UR: partitions of keys and row numbers, by which values are gathered
    kSortedColumns = 4,      // SGB-TR: each column is radix-sorted with the keys, then its runs are reduced
    kDictionarySorted = 5    // SGB-DE-TR: the same with the numbers of keys in a dictionary, which have fewer bits
};

enum class GroupAggregateKind : uint8_t {
    kCountRows,
    kCount,  // of values that are not NULL
    kSum,    // of kSigned and kUnsigned in 64 bits modulo 2^64 (see sum_overflows), of kFloat in double
    kMean,   // the sum by the count, in double: of integers the double nearest to the mean
    kMin,    // NaN is the largest value, -0 is +0, as in native/cpu/group_by
    kMax,
    kFirst  // value of the row with the smallest number, which may be NULL
};

enum class ValueKind : uint8_t { kSigned, kUnsigned, kFloat };

struct GroupAggregate {
    GroupAggregateKind kind = GroupAggregateKind::kCountRows;
    ValueKind value_kind = ValueKind::kSigned;
    // Values of 1, 2, 4 or 8 bytes (kFloat: 4 or 8); data nullptr: the row's number, of 4 or 8 bytes. kCountRows: none.
    DeviceColumn values;
    const uint32_t* valid = nullptr;  // a bit per row; nullptr: no NULLs
};

// At most kGroupAggregatesMax aggregates (accumulators.hpp).
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
    // Per aggregate, [groups]: kCountRows, kCount, kSum and kMean 8 bytes; others the width of their values. What
    // stands where `present` is 0 means nothing.
    std::vector<Allocation> values;
    // Per aggregate, a byte per group: 1 = some value was not NULL, of kFirst: that row's; empty where `valid` was
    // nullptr, and for counts.
    std::vector<Allocation> present;
    // A bit per aggregate: a sum of integers of some group does not fit 64 bits, for which the CPU engine throws.
    uint32_t sum_overflows = 0;
};

// One row per distinct key, in no particular order. Never wrong for a wrong guess of the number of groups, only slower.
// Waits for the device. Throws kInvalid, kOutOfMemory, kCancelled.
GroupByResult group_by(Device& device, const GroupByRequest& request);

}  // namespace spillway::cuda
