// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "device/device.hpp"
#include "gpu_test.hpp"
#include "sort_merge_join/sort_merge_join.hpp"
#include "support/join_kinds.hpp"

// The sort-merge joins against the reference join.
namespace spillway::gpu_test {

using cuda::OutputPlan;
using cuda::SortMergeOptions;
using cuda::SortMergeScheme;

constexpr SortMergeScheme kSortMergeSchemes[] = {SortMergeScheme::kGather, SortMergeScheme::kColumns,
                                                 SortMergeScheme::kMergeSort};

inline const char* name_of(SortMergeScheme scheme) {
    return scheme == SortMergeScheme::kGather ? "smj-ur" : scheme == SortMergeScheme::kColumns ? "smj-tr" : "smj-merge";
}

inline void check_sort_merge_one(const KeyedRelation& build, const KeyedRelation& probe, const JoinKind& kind,
                                 const SortMergeOptions& options, const HostTable& expected, const std::string& what) {
    cuda::Device& device = test_device();
    const uint64_t blocks = device.memory().blocks();
    check_result(cuda::sort_merge_join(device, build.device(), probe.device(), kind,
                                       all_columns_and_presence(build, probe), options),
                 expected, what + ", " + name_of(options.scheme));
    CHECK_EQ(device.memory().blocks(), blocks);
}

// In one pass with memory for all rows and for one, counted first, and with 64-bit row numbers where there are such.
inline void check_sort_merge(const KeyedRelation& build, const KeyedRelation& probe, const NamedJoinKind& kind,
                             SortMergeScheme scheme, const std::string& what) {
    const HostTable expected = expected_table(build, probe, kind.kind);
    const std::string name = what + ", " + kind.name;
    SortMergeOptions options;
    options.scheme = scheme;
    CHECK_EQ(cuda::sort_merge_count(test_device(), build.device(), probe.device(), kind.kind, options),
             expected.rows());
    options.expected_rows = expected.rows() + 5;
    check_sort_merge_one(build, probe, kind.kind, options, expected, name);
    options.expected_rows = 1;
    options.wide_row_numbers = scheme != SortMergeScheme::kMergeSort;
    check_sort_merge_one(build, probe, kind.kind, options, expected, name + ", one row expected");
    options.plan = OutputPlan::kCountFirst;
    check_sort_merge_one(build, probe, kind.kind, options, expected, name + ", counted first");
}

inline void check_sort_merge_kinds(const KeyedRelation& build, const KeyedRelation& probe, SortMergeScheme scheme,
                                   const std::string& what) {
    for (const NamedJoinKind& kind : kNamedJoinKinds) check_sort_merge(build, probe, kind, scheme, what);
}

}  // namespace spillway::gpu_test
