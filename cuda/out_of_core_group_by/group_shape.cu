// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "out_of_core/chunk_reader.hpp"
#include "out_of_core_group_by/group_shape.hpp"
#include "out_of_core_group_by/group_writer.hpp"
#include "out_of_core_group_by/out_of_core_group_policy.hpp"
#include "radix_partition/radix_policy.hpp"

namespace spillway::cuda {

namespace {

// Partitions of a pass that keeps its counters in shared memory; more take one pass more.
constexpr int kRadixBitsMax = 12;

[[noreturn]] void refuse(const std::string& why) {
    throw Error(ErrorCode::kInvalid, why);
}

void check(const OutOfCoreGroupBySpec& spec) {
    const OutOfCoreGroupSizes& sizes = spec.sizes;
    if (sizes.radix_bits < 0 || sizes.radix_bits > kRadixBitsMax) {
        refuse("group-bys out of core have 0 to 12 radix bits in their first pass");
    }
    if (sizes.chunk_rows == 0) refuse("chunks have at least a row");
    if (sizes.merge_rows < std::max(sizes.chunk_rows, sizes.page_rows) || sizes.merge_rows > 1ULL << 32) {
        refuse("rows that are aggregated at once are those of a chunk and of a page at least, and 2^32 at most");
    }
    if (sizes.pages * sizes.page_rows < sizes.chunk_rows + sizes.page_rows) {
        refuse("the pages of partial rows hold less than one chunk");
    }
    for (const uint32_t width : spec.widths) {
        if (width != 1 && width != 2 && width != 4 && width != 8) refuse("columns have 1, 2, 4 or 8 bytes");
    }
}

PartialColumn partial_of(const OutOfCoreGroupBySpec& spec, const OutOfCoreAggregate& aggregate) {
    if (aggregate.column >= spec.widths.size()) refuse("an aggregate is of a column that chunks do not have");
    PartialColumn partial;
    partial.kind = aggregate.kind == GroupAggregateKind::kMean ? GroupAggregateKind::kSum : aggregate.kind;
    partial.value_kind = aggregate.value_kind;
    partial.column = aggregate.column;
    partial.column_bytes = spec.widths[aggregate.column];
    partial.width = partial.kind == GroupAggregateKind::kSum ? 8 : partial.column_bytes;
    if (partial.value_kind == ValueKind::kFloat && partial.column_bytes < 4) refuse("floats have 4 or 8 bytes");
    return partial;
}

// The place of an accumulator; one that is there already serves both.
uint32_t place_of(GroupShape& shape, const PartialColumn& wanted) {
    for (uint32_t i = 0; i < shape.partials.size(); ++i) {
        if (shape.partials[i].same(wanted)) return i;
    }
    shape.partials.push_back(wanted);
    return static_cast<uint32_t>(shape.partials.size() - 1);
}

ResultField field_of(GroupShape& shape, const OutOfCoreGroupBySpec& spec, const OutOfCoreAggregate& aggregate) {
    ResultField field;
    switch (aggregate.kind) {
        case GroupAggregateKind::kFirst:
            refuse("first values are not among the aggregates out of core");
        case GroupAggregateKind::kCountRows:
        case GroupAggregateKind::kCount:
            field.partial = place_of(shape, {});
            return field;
        case GroupAggregateKind::kMean:
            field.counts = place_of(shape, {});
            field.field = aggregate.value_kind == ValueKind::kFloat    ? GroupField::kMeanFloat
                          : aggregate.value_kind == ValueKind::kSigned ? GroupField::kMeanSigned
                                                                       : GroupField::kMeanUnsigned;
            break;
        default:
            break;
    }
    const PartialColumn partial = partial_of(spec, aggregate);
    field.partial = place_of(shape, partial);
    field.width = partial.width;
    return field;
}

}  // namespace

GroupShape GroupShape::make(const OutOfCoreGroupBySpec& spec) {
    check(spec);
    if (spec.aggregates.size() > static_cast<size_t>(kGroupAggregatesMax)) {
        refuse("more than " + std::to_string(kGroupAggregatesMax) + " aggregates in one group-by");
    }
    GroupShape shape;
    shape.key_bytes = spec.key_bytes;
    shape.partitions = 1ULL << spec.sizes.radix_bits;
    for (const OutOfCoreAggregate& aggregate : spec.aggregates) {
        shape.fields.push_back(field_of(shape, spec, aggregate));
    }
    std::vector<uint32_t> widths;
    for (const PartialColumn& partial : shape.partials) widths.push_back(partial.width);
    shape.rows = RowLayout::make(spec.key_bytes, widths);
    shape.code = CodeLayout::make(shape.rows, spec.sizes.radix_bits);
    shape.run_words = packed_words_max(shape.code, spec.sizes.chunk_rows, shape.partitions);
    shape.slot_bytes = std::max(shape.run_words * sizeof(uint32_t),
                                ChunkReader::slot_bytes(spec.key_bytes, spec.widths, spec.sizes.chunk_rows));
    return shape;
}

uint64_t GroupShape::widened_row_bytes() const {
    uint64_t bytes = 0;
    for (const PartialColumn& partial : partials) bytes += partial.column_bytes < partial.width ? partial.width : 0;
    return bytes;
}

uint64_t GroupShape::device_bytes(const OutOfCoreGroupBySpec& spec) const {
    const OutOfCoreGroupSizes& sizes = spec.sizes;
    const uint64_t row_bytes = rows.row_bytes();
    // Partitioned chunks: two, of which one may be in its second pass.
    const uint64_t passes = sizes.radix_bits > kPassBitsMax ? 2 : 1;
    const uint64_t gaps = partitions * kRegionAlignRows * row_bytes;
    uint64_t bytes = sizes.chunk_slots * slot_bytes + (1 + passes) * (sizes.chunk_rows * row_bytes + gaps);
    bytes += kRunBuffers * run_words * sizeof(uint32_t);
    bytes += sizes.pages * sizes.page_rows * row_bytes;
    // Rows that leave or come back, groups of the last chunk, columns of it that are widened, keys of keyless rows;
    // columns of rows that are aggregated.
    bytes += sizes.chunk_rows * (2 * row_bytes + widened_row_bytes() + (spec.null_group ? 5 : 0));
    bytes += sizes.merge_rows * row_bytes;
    bytes += kGroupByRowsPerRow * sizes.merge_rows * row_bytes + gaps;
    bytes += sizes.result_slots * GroupWriter::slot_bytes(*this, spec.null_group, sizes.result_rows);
    // Lists on their way, extremes of fields, tables of a group-by at least, and what rounding up takes.
    const uint64_t lists = (partitions + sizes.merge_rows / sizes.page_rows) * 96;
    return bytes + kParcelSlots * lists + 2 * partitions * (kCodeFieldsMax * sizeof(FieldExtremes) + 256) +
           (32ULL << 20);
}

GroupByRequest GroupShape::of_chunk(const DeviceRelation& chunk) const {
    GroupByRequest request;
    request.rows = chunk.rows;
    request.key = chunk.key;
    request.key_valid = chunk.key_valid;
    for (const PartialColumn& partial : partials) {
        GroupAggregate aggregate;
        aggregate.kind = partial.kind;
        aggregate.value_kind = partial.value_kind;
        if (partial.column != kNoColumn) aggregate.values = chunk.columns[partial.column];
        request.aggregates.push_back(aggregate);
    }
    return request;
}

GroupByRequest GroupShape::of_partials(const DeviceRelation& partials_of) const {
    GroupByRequest request;
    request.rows = partials_of.rows;
    request.key = partials_of.key;
    for (size_t i = 0; i < partials.size(); ++i) {
        GroupAggregate aggregate;
        // A sum of counts, of sums, or the least of the least values.
        const bool counts = partials[i].kind == GroupAggregateKind::kCountRows;
        aggregate.kind = counts ? GroupAggregateKind::kSum : partials[i].kind;
        aggregate.value_kind = partials[i].value_kind;
        aggregate.values = partials_of.columns[i];
        request.aggregates.push_back(aggregate);
    }
    return request;
}

void check_sums(const GroupByResult& groups) {
    if (groups.sum_overflows == 0) return;
    throw Error(ErrorCode::kOverflow, "a sum of integers does not fit 64 bits");
}

DeviceRelation relation_of(const GroupShape& shape, const GroupByResult& groups) {
    DeviceRelation relation;
    relation.rows = groups.groups;
    relation.key = {groups.keys.as(), shape.key_bytes};
    for (size_t i = 0; i < shape.partials.size(); ++i) {
        relation.columns.push_back({groups.values[i].as(), shape.partials[i].width});
    }
    return relation;
}

}  // namespace spillway::cuda
