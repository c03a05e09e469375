// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "memory_model/staged_memory.hpp"
#include "radix_partition/row_layout.hpp"
#include "staged_group_by/group_columns.hpp"
#include "staged_group_by/staged_group_by.hpp"
#include "stream/pack_rows.hpp"

namespace spillway::cuda { inline namespace staged_group_by {

// A column of the result, behind the key.
struct ResultField {
    GroupField field = GroupField::kCopy;
    uint32_t partial = 0;
    uint32_t counts = 0;  // means: the partial column of the count
    uint32_t width = 8;
};

// A partial column whose value is that of the rows with the extreme of another one.
struct DecidedPartial {
    uint32_t value = 0;
    uint32_t by = 0;
};

// What a specification comes to.
struct GroupShape {
    uint32_t key_bytes = 8;
    uint64_t partitions = 1;
    std::vector<PartialColumn> partials;
    std::vector<DecidedPartial> decided;
    std::vector<ResultField> fields;
    RowLayout rows;  // partial rows
    CodeLayout code;
    StagedGroupByMemory memory;

    // Throws kInvalid for what cannot work.
    static GroupShape make(const StagedGroupBySpec& spec);

    // A group-by of a chunk into partial rows, and one of partial rows in columns: [key, accumulators].
    GroupByRequest of_chunk(const DeviceRelation& chunk) const;
    GroupByRequest of_partials(const DeviceRelation& partials) const;
};

DeviceRelation relation_of(const GroupShape& shape, const GroupByResult& groups);

}}  // namespace spillway::cuda::staged_group_by
