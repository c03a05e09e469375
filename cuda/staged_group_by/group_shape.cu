// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "staged_group_by/group_shape.hpp"

namespace spillway::cuda { inline namespace staged_group_by {

namespace {

void check(const StagedGroupBySpec& spec) {
    const StreamSizes& sizes = spec.sizes;
    check_sizes(sizes);
    if (sizes.merge_rows < std::max(sizes.chunk_rows, sizes.page_rows) || sizes.merge_rows > 1ULL << 32) {
        refuse("rows that are aggregated at once are those of a chunk and of a page at least, and 2^32 at most");
    }
    if (sizes.pages * sizes.page_rows < sizes.chunk_rows + sizes.page_rows) {
        refuse("the pages of partial rows hold less than one chunk");
    }
    for (const uint32_t width : spec.widths) {
        if (!is_value_width(width, kAggregatedBytesMax)) refuse("columns have 1, 2, 4 or 8 bytes");
    }
}

void check(const StagedGroupBySpec& spec, const StagedAggregate& aggregate) {
    if (aggregate.kind == GroupAggregateKind::kCountRows || aggregate.kind == GroupAggregateKind::kCount) return;
    if (aggregate.column >= spec.widths.size()) refuse("an aggregate is of a column that chunks do not have");
    if (aggregate.value_kind == ValueKind::kFloat && spec.widths[aggregate.column] < 4) {
        refuse("floats have 4 or 8 bytes");
    }
    const bool is_first = aggregate.kind == GroupAggregateKind::kFirst;
    if (aggregate.decided_by == kNothingDecides) {
        if (is_first) refuse("a column decides which value is the first one");
        return;
    }
    const bool compares = aggregate.kind == GroupAggregateKind::kMin || aggregate.kind == GroupAggregateKind::kMax;
    if (!is_first && !compares) refuse("what is added up is decided by no column");
    if (aggregate.decided_by >= spec.widths.size() || spec.widths[aggregate.decided_by] < 4) {
        refuse("an aggregate is decided by a column of 4 or 8 bytes");
    }
    if (compares && (aggregate.value_kind != ValueKind::kUnsigned || spec.widths[aggregate.column] != 8)) {
        refuse("low words of values have 8 bytes without a sign");
    }
}

uint32_t place_of(const GroupShape& shape, const PartialColumn& wanted) {
    const auto found = std::find_if(shape.partials.begin(), shape.partials.end(),
                                    [&](const PartialColumn& partial) { return partial.same(wanted); });
    return static_cast<uint32_t>(found - shape.partials.begin());
}

// Where values of the column that decides are; they are compared as integers are.
uint32_t deciding_place(const GroupShape& shape, const StagedAggregate& aggregate) {
    const auto found = std::find_if(shape.partials.begin(), shape.partials.end(), [&](const PartialColumn& partial) {
        return partial.kind == aggregate.deciding_kind() && partial.column == aggregate.decided_by &&
               partial.decided_by == kNothingDecides && partial.value_kind != ValueKind::kFloat;
    });
    if (found == shape.partials.end()) refuse("the column that decides an aggregate has no such extreme itself");
    return static_cast<uint32_t>(found - shape.partials.begin());
}

void add_decided(GroupShape& shape, const StagedGroupBySpec& spec) {
    for (const StagedAggregate& aggregate : spec.aggregates) {
        if (aggregate.decided_by == kNothingDecides) continue;
        const uint32_t value = place_of(shape, partial_of(spec, aggregate));
        const bool is_new = std::none_of(shape.decided.begin(), shape.decided.end(),
                                         [&](const DecidedPartial& known) { return known.value == value; });
        if (is_new) shape.decided.push_back({value, deciding_place(shape, aggregate)});
    }
}

// The group-by itself takes any value of the group: decide_values() puts the right one there.
GroupAggregate asked(const PartialColumn& partial) {
    GroupAggregate aggregate;
    const bool is_first = partial.kind == GroupAggregateKind::kFirst;
    aggregate.kind = is_first ? GroupAggregateKind::kMax : partial.kind;
    aggregate.value_kind = is_first ? ValueKind::kUnsigned : partial.value_kind;
    return aggregate;
}

ResultField field_of(const GroupShape& shape, const StagedGroupBySpec& spec, const StagedAggregate& aggregate) {
    const PartialColumn partial = partial_of(spec, aggregate);
    ResultField field;
    field.partial = place_of(shape, partial);
    field.width = partial.width;
    if (aggregate.kind != GroupAggregateKind::kMean) return field;
    field.counts = place_of(shape, {});
    field.field = aggregate.value_kind == ValueKind::kFloat    ? GroupField::kMeanFloat
                  : aggregate.value_kind == ValueKind::kSigned ? GroupField::kMeanSigned
                                                               : GroupField::kMeanUnsigned;
    return field;
}

}  // namespace

GroupShape GroupShape::make(const StagedGroupBySpec& spec) {
    check(spec);
    for (const StagedAggregate& aggregate : spec.aggregates) check(spec, aggregate);
    GroupShape shape;
    shape.key_bytes = spec.key_bytes;
    shape.partitions = 1ULL << spec.sizes.radix_bits;
    shape.partials = partial_columns(spec);
    add_decided(shape, spec);
    for (const StagedAggregate& aggregate : spec.aggregates) shape.fields.push_back(field_of(shape, spec, aggregate));
    std::vector<uint32_t> widths;
    for (const PartialColumn& partial : shape.partials) widths.push_back(partial.width);
    shape.rows = RowLayout::make(spec.key_bytes, widths, kPartialWordsMax);
    shape.code = CodeLayout::make(shape.rows, spec.sizes.radix_bits);
    shape.memory = staged_group_by_memory(spec);
    return shape;
}

GroupByRequest GroupShape::of_chunk(const DeviceRelation& chunk) const {
    GroupByRequest request;
    request.rows = chunk.rows;
    request.key = chunk.key;
    request.key_valid = chunk.key_valid;
    for (const PartialColumn& partial : partials) {
        GroupAggregate aggregate = asked(partial);
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
        GroupAggregate aggregate = asked(partials[i]);
        // A sum of counts, of sums, or the least of the least values.
        if (partials[i].kind == GroupAggregateKind::kCountRows) aggregate.kind = GroupAggregateKind::kSum;
        aggregate.values = partials_of.columns[i];
        request.aggregates.push_back(aggregate);
    }
    return request;
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

}}  // namespace spillway::cuda::staged_group_by
