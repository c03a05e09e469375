// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "group_by/plan/group_plan.hpp"
#include "radix_partition/row_layout.hpp"

namespace spillway::cuda { inline namespace grouping {

namespace {

TileField gathered(const void* column, uint32_t width) {
    TileField field;
    field.place = FieldPlace::kGathered;
    field.column = static_cast<const unsigned char*>(column);
    field.width = static_cast<uint8_t>(width);
    return field;
}

std::vector<TileField> gathered(const std::vector<DeviceColumn>& columns) {
    std::vector<TileField> fields;
    for (const DeviceColumn& column : columns) fields.push_back(gathered(column.data, column.width));
    return fields;
}

TileField tile_row(uint32_t width) {
    TileField field;
    field.place = FieldPlace::kTileRow;
    field.width = static_cast<uint8_t>(width);
    return field;
}

TileField staged(uint32_t base_bytes, uint32_t stride_bytes, uint32_t width) {
    TileField field;
    field.base_bytes = base_bytes;
    field.stride_bytes = stride_bytes;
    field.width = static_cast<uint8_t>(width);
    return field;
}

// Columns that are staged, one behind the other in a tile.
class StagedColumns {
  public:
    StagedColumns(uint32_t row_bytes, uint32_t staged_bytes) {
        while (2 * row_bytes * source_.tile_rows > staged_bytes) source_.tile_rows /= 2;
    }
    bool has_room() const { return source_.arrays < kStagedMax; }
    TileField add(const void* column, uint32_t width) {
        const TileField field = staged(source_.tile_bytes, width, width);
        source_.array[source_.arrays++] = {static_cast<const unsigned char*>(column), width, source_.tile_bytes};
        source_.tile_bytes += (source_.tile_rows * width + 15) & ~15U;
        return field;
    }
    const StagedArrays& source() const { return source_; }

  private:
    StagedArrays source_;
};

// The place of each accumulator's value, from those of the columns.
void place_values(GroupPlan& plan, const std::vector<TileField>& columns) {
    for (int i = 0; i < plan.slots.accumulators; ++i) {
        Accumulator& accumulator = plan.slots.accumulator[i];
        const int source = plan.sources[i];
        if (source == kNoField) continue;
        if (source >= 0) {
            accumulator.value = columns[source];
        } else {
            accumulator.value = source == kMaskField ? plan.slots.mask : plan.slots.row_number;
        }
    }
}

}  // namespace

StagedArrays place_columns(GroupPlan& plan, const GroupByRequest& request, uint32_t staged_bytes) {
    uint32_t row_bytes = request.key.width + plan.mask_width;
    size_t most = kStagedMax - (plan.slots.has_mask ? 2 : 1);
    most = std::min(most, plan.columns.size());
    for (size_t c = 0; c < most; ++c) row_bytes += plan.columns[c].width;
    StagedColumns tile(row_bytes, staged_bytes);
    plan.slots.key = tile.add(request.key.data, request.key.width);
    plan.slots.row_number = tile_row(plan.row_number_width);
    if (plan.slots.has_mask) plan.slots.mask = tile.add(plan.mask.as(), plan.mask_width);
    std::vector<TileField> columns;
    for (const DeviceColumn& column : plan.columns) {
        columns.push_back(tile.has_room() ? tile.add(column.data, column.width) : gathered(column.data, column.width));
    }
    place_values(plan, columns);
    return tile.source();
}

void place_unstaged(GroupPlan& plan, const GroupByRequest& request) {
    plan.slots.key = gathered(request.key.data, request.key.width);
    plan.slots.row_number = tile_row(plan.row_number_width);
    if (plan.slots.has_mask) plan.slots.mask = gathered(plan.mask.as(), plan.mask_width);
    place_values(plan, gathered(plan.columns));
}

DeviceRelation relation_to_pack(const GroupPlan& plan, const GroupByRequest& request) {
    DeviceRelation relation;
    relation.rows = request.rows;
    relation.key = request.key;
    relation.key_valid = request.key_valid;
    if (request.algorithm == GroupByAlgorithm::kPartitionedGather) {
        const bool gathers = plan.needs_row_number || plan.slots.has_mask || !plan.columns.empty();
        if (gathers) relation.columns.push_back({nullptr, plan.row_number_width});
        return relation;
    }
    uint32_t bytes = request.key.width;
    const auto carry = [&](const DeviceColumn& column) {
        relation.columns.push_back(column);
        bytes += column.width;
    };
    uint32_t all = bytes + plan.mask_width + (plan.needs_row_number ? plan.row_number_width : 0);
    for (const DeviceColumn& column : plan.columns) all += column.width;
    constexpr uint32_t kRowBytesMax = kRowWordsMax * 4;
    // Row numbers, without which nothing could be gathered, and masks come first.
    if (plan.needs_row_number || all > kRowBytesMax) carry({nullptr, plan.row_number_width});
    if (plan.slots.has_mask) carry({plan.mask.as(), plan.mask_width});
    for (const DeviceColumn& column : plan.columns) {
        if (bytes + column.width <= kRowBytesMax) carry(column);
    }
    return relation;
}

StagedArrays place_packed(GroupPlan& plan, const DeviceRelation& relation, const std::vector<uint32_t>& offsets,
                          const void* rows, uint32_t row_bytes, uint32_t staged_bytes) {
    StagedColumns tile(row_bytes, staged_bytes);
    plan.slots.key = tile.add(rows, row_bytes);
    plan.slots.key.width = static_cast<uint8_t>(relation.key.width);
    plan.slots.keys_are_mixed = true;
    plan.slots.key_bit = kNoBit;  // rows without a key are not among the packed ones
    plan.slots.row_number = tile_row(plan.row_number_width);
    // The field of a column, if it is among those that were packed.
    const auto find = [&](const void* data, uint32_t width, TileField& field) {
        for (size_t c = 0; c < relation.columns.size(); ++c) {
            if (relation.columns[c].data != data || relation.columns[c].width != width) continue;
            field = staged(offsets[c], row_bytes, width);
            return true;
        }
        return false;
    };
    find(nullptr, plan.row_number_width, plan.slots.row_number);
    if (plan.slots.has_mask) {
        plan.slots.mask = gathered(plan.mask.as(), plan.mask_width);
        find(plan.mask.as(), plan.mask_width, plan.slots.mask);
    }
    std::vector<TileField> columns;
    for (const DeviceColumn& column : plan.columns) {
        TileField field = gathered(column.data, column.width);
        find(column.data, column.width, field);
        columns.push_back(field);
    }
    place_values(plan, columns);
    return tile.source();
}

StagedArrays place_sorted(GroupPlan& plan, const void* keys, const void* row_numbers, uint32_t staged_bytes) {
    StagedColumns tile(4 * plan.key_words + plan.row_number_width, staged_bytes);
    plan.slots.key = tile.add(keys, 4 * plan.key_words);
    plan.slots.row_number = tile.add(row_numbers, plan.row_number_width);
    if (plan.slots.has_mask) plan.slots.mask = gathered(plan.mask.as(), plan.mask_width);
    place_values(plan, gathered(plan.columns));
    return tile.source();
}

}}  // namespace spillway::cuda::grouping
