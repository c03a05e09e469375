// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "group_by/plan/group_plan.hpp"
#include "radix_partition/row_layout.hpp"

namespace spillway::cuda { inline namespace grouping {

namespace {

constexpr int kMaskBitsMax = 32;
constexpr unsigned kMaskThreads = 256;

struct Bitmaps {
    const uint32_t* bits[kMaskBitsMax] = {};
    int32_t count = 0;

    uint8_t add(const uint32_t* valid) {
        for (int i = 0; i < count; ++i) {
            if (bits[i] == valid) return static_cast<uint8_t>(i);
        }
        bits[count] = valid;  // at most one per aggregate and the key's
        return static_cast<uint8_t>(count++);
    }
};

// A bit of each bitmap per row. Bytes: the bitmaps once, the masks once.
__global__ void gather_masks(const __grid_constant__ Bitmaps from, uint64_t rows, uint32_t width, void* masks) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t row = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; row < rows; row += step) {
        uint32_t mask = 0;
        for (int i = 0; i < from.count; ++i) mask |= (__ldg(&from.bits[i][row / 32]) >> (row % 32) & 1) << i;
        if (width == 1) {
            static_cast<uint8_t*>(masks)[row] = static_cast<uint8_t>(mask);
        } else if (width == 2) {
            static_cast<uint16_t*>(masks)[row] = static_cast<uint16_t>(mask);
        } else {
            static_cast<uint32_t*>(masks)[row] = mask;
        }
    }
}

bool same(const Accumulator& a, const Accumulator& b) {
    return a.op == b.op && a.flip == b.flip && a.is_signed == b.is_signed && a.is_float == b.is_float &&
           a.counts == b.counts && a.words == b.words && a.valid_bit == b.valid_bit && a.value.width == b.value.width;
}

class Planner {
  public:
    Planner(Device& device, const GroupByRequest& request) : device_(device), request_(request) {
        check(request);
        plan_.key_words = request.key.width / 4;
        plan_.row_number_width = request.rows > 1ULL << 32 ? 8 : 4;
    }

    GroupPlan run() {
        if (request_.key_valid != nullptr) plan_.slots.key_bit = bitmaps_.add(request_.key_valid);
        for (GroupAggregate aggregate : request_.aggregates) {
            if (aggregate.values.data == nullptr) aggregate.value_kind = ValueKind::kUnsigned;  // row numbers
            add(aggregate);
        }
        gather_bitmaps();
        return std::move(plan_);
    }

  private:
    static void check_column(const DeviceColumn& column) {
        if (reinterpret_cast<uintptr_t>(column.data) % 16 != 0) {
            refuse("columns of a group-by begin at multiples of 16 bytes");
        }
    }

    static void check(const GroupByRequest& request) {
        if (request.key.width != 4 && request.key.width != 8) refuse("keys have 4 or 8 bytes");
        if (request.aggregates.size() > static_cast<size_t>(kGroupAggregatesMax)) {
            refuse("more than " + std::to_string(kGroupAggregatesMax) + " aggregates in one group-by");
        }
        if (request.rows > 0 && request.key.data == nullptr) refuse("a group-by without a key column");
        check_column(request.key);
        for (const GroupAggregate& aggregate : request.aggregates) {
            if (aggregate.kind == GroupAggregateKind::kCountRows) continue;
            const uint32_t width = aggregate.values.width;
            if (width != 1 && width != 2 && width != 4 && width != 8) refuse("values have 1, 2, 4 or 8 bytes");
            const bool is_narrow = width < 4;
            const bool is_row_number = aggregate.values.data == nullptr && request.rows > 0;
            if (is_narrow && is_row_number) refuse("row numbers have 4 or 8 bytes");
            if (is_narrow && aggregate.value_kind == ValueKind::kFloat) refuse("floats have 4 or 8 bytes");
            if (width == 4 && aggregate.values.data == nullptr && request.rows > 1ULL << 32) {
                refuse("row numbers of 4 bytes for more than 2^32 rows");
            }
            const bool adds = aggregate.kind == GroupAggregateKind::kSum || aggregate.kind == GroupAggregateKind::kMean;
            if (adds && width == 8 && aggregate.value_kind != ValueKind::kFloat && request.rows > 1ULL << 32) {
                refuse("sums of 8-byte integers have 96 bits, which more than 2^32 rows could overflow");
            }
            check_column(aggregate.values);
        }
    }

    int source_of(const DeviceColumn& column) {
        if (column.data == nullptr) {
            plan_.needs_row_number = true;
            return kRowNumberField;
        }
        for (size_t c = 0; c < plan_.columns.size(); ++c) {
            if (plan_.columns[c].data == column.data && plan_.columns[c].width == column.width) {
                return static_cast<int>(c);
            }
        }
        plan_.columns.push_back(column);
        return static_cast<int>(plan_.columns.size() - 1);
    }

    // The first word of the accumulator in the slot; one that is there already serves both.
    uint8_t word_of(Accumulator wanted, int source) {
        SlotPlan& slots = plan_.slots;
        for (int i = 0; i < slots.accumulators; ++i) {
            if (plan_.sources[i] == source && same(slots.accumulator[i], wanted)) return slots.accumulator[i].word;
        }
        if (slots.accumulators == kAccumulatorsMax) refuse("too many different aggregates in one group-by");
        wanted.word = slots.words;
        slots.accumulator[slots.accumulators++] = wanted;
        slots.words = static_cast<uint8_t>(slots.words + wanted.words);
        plan_.sources.push_back(source);
        return wanted.word;
    }

    uint8_t count_word(uint8_t valid_bit) {
        Accumulator count;
        count.op = AccumulatorOp::kAdd;
        count.counts = true;
        count.words = 2;
        count.valid_bit = valid_bit;
        return word_of(count, kNoField);
    }
    uint8_t flags_word() {
        Accumulator flags;
        flags.op = AccumulatorOp::kOr;
        return word_of(flags, kMaskField);
    }

    void add(const GroupAggregate& aggregate) {
        const bool has_nulls = aggregate.valid != nullptr && aggregate.kind != GroupAggregateKind::kCountRows;
        const bool is_first = aggregate.kind == GroupAggregateKind::kFirst;
        const uint8_t bit = has_nulls && !is_first ? bitmaps_.add(aggregate.valid) : kNoBit;
        GroupOutput output;
        switch (aggregate.kind) {
            case GroupAggregateKind::kCountRows:
            case GroupAggregateKind::kCount:
                output.words = 2;
                output.word = count_word(bit);
                plan_.outputs.push_back(output);
                return;
            case GroupAggregateKind::kSum:
            case GroupAggregateKind::kMean:
                add_sum(aggregate, bit, output);
                break;
            case GroupAggregateKind::kFirst:
                add_first(aggregate, output);
                break;
            default:
                add_extreme(aggregate, bit, output);
        }
        if (bit != kNoBit) {
            output.flags_word = flags_word();
            output.valid_bit = bit;
        }
        plan_.outputs.push_back(output);
    }

    void add_sum(const GroupAggregate& aggregate, uint8_t bit, GroupOutput& output) {
        const bool is_float = aggregate.value_kind == ValueKind::kFloat;
        const bool is_mean = aggregate.kind == GroupAggregateKind::kMean;
        Accumulator sum;
        sum.op = is_float ? AccumulatorOp::kAddDouble : AccumulatorOp::kAdd;
        sum.is_float = is_float;
        sum.is_signed = aggregate.value_kind == ValueKind::kSigned;
        // 2^32 values of 4 bytes fit 64 bits.
        const bool is_long = aggregate.values.width == 8 || request_.rows > 1ULL << 32;
        sum.words = !is_float && is_long ? 3 : 2;
        sum.valid_bit = bit;
        sum.value.width = static_cast<uint8_t>(aggregate.values.width);
        output.word = word_of(sum, source_of(aggregate.values));
        output.words = sum.words;
        output.is_signed = sum.is_signed;
        output.is_float = is_float;
        if (is_mean) {
            output.kind = is_float ? OutputKind::kMeanDouble : OutputKind::kMeanInteger;
            output.count_word = count_word(bit);
        } else {
            output.kind = is_float ? OutputKind::kDouble : OutputKind::kInteger;
        }
    }

    void add_extreme(const GroupAggregate& aggregate, uint8_t bit, GroupOutput& output) {
        const bool is_wide = aggregate.values.width == 8;
        Accumulator max;
        max.op = is_wide ? AccumulatorOp::kMax64 : AccumulatorOp::kMax32;
        max.words = is_wide ? 2 : 1;
        max.is_float = aggregate.value_kind == ValueKind::kFloat;
        max.is_signed = aggregate.value_kind == ValueKind::kSigned;
        if (max.is_signed) max.flip = is_wide ? 1ULL << 63 : 1ULL << 31;
        if (aggregate.kind == GroupAggregateKind::kMin) max.flip = ~max.flip;
        max.valid_bit = bit;
        max.value.width = static_cast<uint8_t>(aggregate.values.width);
        output.word = word_of(max, source_of(aggregate.values));
        output.words = max.words;
        output.kind = is_wide ? OutputKind::kOrder64 : OutputKind::kOrder32;
        output.flip = max.flip;
        output.is_float = max.is_float;
        output.width = max.value.width;
    }

    // The smallest row number; its row's value is fetched when the group is finished.
    void add_first(const GroupAggregate& aggregate, GroupOutput& output) {
        const bool is_wide = plan_.row_number_width == 8;
        Accumulator first;
        first.op = is_wide ? AccumulatorOp::kMax64 : AccumulatorOp::kMax32;
        first.words = is_wide ? 2 : 1;
        first.flip = ~0ULL;
        first.value.width = static_cast<uint8_t>(plan_.row_number_width);
        plan_.needs_row_number = true;
        output.word = word_of(first, kRowNumberField);
        output.words = first.words;
        output.kind = OutputKind::kGather;
        output.width = static_cast<uint8_t>(aggregate.values.width);
        output.column = static_cast<const unsigned char*>(aggregate.values.data);
        output.column_valid = aggregate.valid;
    }

    void gather_bitmaps() {
        if (bitmaps_.count == 0) return;
        plan_.slots.has_mask = true;
        plan_.mask_width = bitmaps_.count <= 8 ? 1 : bitmaps_.count <= 16 ? 2 : 4;
        plan_.mask = device_.memory().allocate(request_.rows * plan_.mask_width, "validity of a group-by");
        count_moved(device_, plan_.mask.bytes() + static_cast<uint64_t>(bitmaps_.count) * (request_.rows / 8));
        launch(gather_masks, grid_over(device_, request_.rows, kMaskThreads, 16), dim3(kMaskThreads), 0,
               device_.stream(), bitmaps_, request_.rows, plan_.mask_width, plan_.mask.as());
    }

    Device& device_;
    const GroupByRequest& request_;
    GroupPlan plan_;
    Bitmaps bitmaps_;
};

}  // namespace

GroupPlan GroupPlan::make(Device& device, const GroupByRequest& request) {
    return Planner(device, request).run();
}

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

GroupByResult allocate_groups(MemoryPool& memory, const GroupPlan& plan, uint32_t key_bytes, uint64_t groups) {
    GroupByResult result;
    result.keys = memory.allocate(groups * key_bytes, "keys of groups");
    for (const GroupOutput& output : plan.outputs) {
        const bool has_nulls = output.valid_bit != kNoBit || output.column_valid != nullptr;
        result.values.push_back(memory.allocate(groups * output.width, "aggregates"));
        result.present.push_back(memory.allocate(has_nulls ? groups : 0, "validity of aggregates"));
    }
    return result;
}

std::vector<bool> overflow_flags(const GroupPlan& plan, uint32_t bits) {
    std::vector<bool> flags;
    for (size_t i = 0; i < plan.outputs.size(); ++i) flags.push_back((bits >> i & 1) != 0);
    return flags;
}

GroupSink sink_of(const GroupPlan& plan, const GroupByResult& result, uint64_t capacity) {
    GroupSink sink;
    sink.keys = result.keys.as();
    sink.capacity = capacity;
    sink.outputs = static_cast<int32_t>(plan.outputs.size());
    for (size_t i = 0; i < plan.outputs.size(); ++i) {
        sink.output[i] = plan.outputs[i];
        sink.output[i].values = result.values[i].as();
        sink.output[i].present = result.present[i].as<uint8_t>();
    }
    return sink;
}

}}  // namespace spillway::cuda::grouping
