// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// What every group-by is asked for, in GPU memory and beyond it.
namespace spillway::cuda { inline namespace api {

// Group-bys in GPU memory by name (Wu et al., GFTR, section 4).
enum class GroupByAlgorithm : uint8_t {
    // HGB without its first step: tables in shared memory, merged into one in GPU memory. For few groups; where there
    // are more it gives way to kPartitioned, or where the user named it to kHashGlobal.
    kHash = 0,
    kPartitioned = 1,        // PGB-TR: radix partitions of packed rows, aggregated in shared memory
    kSorted = 2,             // SGB-UR: radix sort of keys and row numbers, then a reduction of the runs
    kPartitionedGather = 3,  // PGB-UR: partitions of keys and row numbers, by which values are gathered
    kSortedColumns = 4,      // SGB-TR: each column is radix-sorted with the keys, then its runs are reduced
    kDictionarySorted = 5,   // SGB-DE-TR: the same with the numbers of keys in a dictionary, which have fewer bits
    kHashGlobal = 6  // HGB (section 4.2): a table in GPU memory numbers the groups, arrays have their aggregates
};
constexpr int kGroupByAlgorithms = 7;
// By their numbers.
constexpr const char* kGroupByAlgorithmNames[kGroupByAlgorithms] = {"hgb",    "pgb-tr",    "sgb-ur",    "pgb-ur",
                                                                    "sgb-tr", "sgb-de-tr", "hgb-global"};

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

// Twelve exact sums of 64-bit integers, which are two halves each, and a few counts beside them. One kernel's
// parameters hold what it takes to know of them all.
constexpr int kGroupAggregatesMax = 28;

}}  // namespace spillway::cuda::api
