// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "out_of_core/fragment_set.hpp"
#include "out_of_core_group_by/group_columns.hpp"
#include "out_of_core_group_by/out_of_core_group_by.hpp"
#include "radix_partition/row_layout.hpp"

namespace spillway::cuda {

constexpr uint32_t kNoColumn = ~0U;

// An accumulator of a partial row.
struct PartialColumn {
    GroupAggregateKind kind = GroupAggregateKind::kCountRows;  // or kSum, kMin, kMax
    ValueKind value_kind = ValueKind::kUnsigned;
    uint32_t column = kNoColumn;  // of the chunk
    uint32_t column_bytes = 0;
    uint32_t width = 8;

    bool same(const PartialColumn& other) const {
        return kind == other.kind && value_kind == other.value_kind && column == other.column;
    }
};

// A column of the result, behind the key.
struct ResultField {
    GroupField field = GroupField::kCopy;
    uint32_t partial = 0;
    uint32_t counts = 0;  // means: the partial column of the count
    uint32_t width = 8;
};

// What a specification comes to.
struct GroupShape {
    uint32_t key_bytes = 8;
    uint64_t partitions = 1;
    std::vector<PartialColumn> partials;
    std::vector<ResultField> fields;
    RowLayout rows;  // partial rows
    CodeLayout code;
    uint64_t slot_bytes = 0;  // of a chunk, or of packed rows that come back
    uint64_t run_words = 0;   // packed rows of a chunk at most

    // Throws kInvalid for what cannot work.
    static GroupShape make(const OutOfCoreGroupBySpec& spec);
    uint64_t device_bytes(const OutOfCoreGroupBySpec& spec) const;
    // Columns of so many rows on their way to partial rows, beside the chunk's own.
    uint64_t widened_row_bytes() const;

    // A group-by of a chunk into partial rows, and one of partial rows in columns: [key, accumulators].
    GroupByRequest of_chunk(const DeviceRelation& chunk) const;
    GroupByRequest of_partials(const DeviceRelation& partials) const;
};

// Throws kOverflow for groups of which a sum does not fit its accumulator.
void check_sums(const GroupByResult& groups);
DeviceRelation relation_of(const GroupShape& shape, const GroupByResult& groups);

}  // namespace spillway::cuda
