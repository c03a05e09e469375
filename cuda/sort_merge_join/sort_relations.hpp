// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "materialize/join_output.hpp"
#include "materialize/row_list.hpp"
#include "primitive/device_relation.hpp"

namespace spillway::cuda { inline namespace sort_merge_joins {

enum class SortMergeScheme : uint8_t {
    // SMJ-UR: a radix sort of (key, row number); columns stay where they are and are gathered by row number (GFUR).
    kGather,
    // SMJ-TR: each column of the result is sorted with the key, column after column; pairs name places in the sorted
    // columns, so that their gathers are clustered (GFTR).
    kColumns,
    // A merge sort of (key, row number) and gathers as in kGather; after R. Rui and Y.-C. Tu, "Fast Equi-Join
    // Algorithms on GPUs: Design and Implementation", SSDBM 2017 (section 3.3). At most 2^32 rows per side.
    kMergeSort
};

struct SortMergeOptions {
    SortMergeScheme scheme = SortMergeScheme::kGather;
    uint64_t expected_rows = 0;  // pairs of the result: what memory is taken for at first
    OutputPlan plan = OutputPlan::kOnePass;
    // Radix sorts look at all bits of the keys, as those of the papers do, and not only at those in which keys differ.
    bool all_key_bits = false;
    bool wide_row_numbers = false;  // for tests: 64-bit row numbers as if both sides had more than 2^32 rows
};

// One side of a join, in the order of its keys.
struct SortedSide {
    uint64_t keyed_rows = 0;  // rows that have a key
    Allocation keys;          // the keys of those rows, rising
    Allocation rows;          // the row numbers of those rows in `relation`; empty: their places
    uint32_t row_width = 4;   // bytes of a row number of `relation`
    // Whose row numbers the pairs hold: the input or, for kColumns, its copy in the order of the keys. There rows with
    // a key come first and others, where the kind of join needs them, behind. Columns that are not in the result are
    // not sorted and keep the description of the input.
    DeviceRelation relation;
    std::vector<Allocation> columns;  // behind the copy
};

struct SortedRelations {
    SortedSide build;
    SortedSide probe;
};

// Waits for the device. Throws kInvalid for relations and columns that no caller may give.
SortedRelations sort_relations(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                               const JoinKind& kind, const std::vector<JoinOutputColumn>& output,
                               const SortMergeOptions& options);

// One side alone, whatever it will be joined with: kGather and kMergeSort, in the order of all bits of the key. Does
// not wait for the device but to find rows that have a key, where some have none.
SortedSide sort_relation(Device& device, const DeviceRelation& relation, const SortMergeOptions& options);

}}  // namespace spillway::cuda::sort_merge_joins
