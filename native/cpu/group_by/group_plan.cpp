// SPDX-License-Identifier: Apache-2.0
#include "cpu/group_by/group_plan.hpp"

#include <algorithm>
#include <cstring>

#include "base/checked_size.hpp"
#include "cpu/group_by/aggregate_state.hpp"
#include "model/type_size.hpp"

namespace spillway {

namespace {

// What is not counted in the budget otherwise: smaller blocks need not be.
constexpr uint64_t kUncountedBytesMax = 4096;

// Offsets are of 32 bits. Those of a record that is too large wrap, and nobody sees them: check_size() throws.
uint32_t offset_of(uint64_t bytes) {
    return static_cast<uint32_t>(bytes);
}

class PlanMaker {
  public:
    PlanMaker(GroupPlan& plan, MemoryBudget& budget) : plan_(plan), budget_(budget) {}

    void place_keys(const std::vector<int32_t>& key_fields) {
        const RowLayout& layout = plan_.layout;
        plan_.copies.push_back({0, 0, layout.key_end});
        end_ = layout.key_end;
        for (uint32_t offset : layout.var_keys) add_var(offset);
        plan_.compared_vars = plan_.var_copies.size();
        for (int32_t index : key_fields) place_key_field(layout.fields[static_cast<size_t>(index)]);
        plan_.record_layout.null_offset = offset_of(end_);
        place_null_bits();
        end_ = round_up_or_max(end_, 8);
        plan_.states_offset = offset_of(end_);
    }

    void place_states(const std::vector<AggregateSpec>& aggregates, const RowLayout& layout) {
        for (const AggregateSpec& spec : aggregates) plan_.aggregates.push_back(make_aggregate(spec, layout));
        for (AggregatePlan& aggregate : plan_.aggregates) {
            aggregate.offset = offset_of(end_);
            end_ += round_up_or_max(state_bytes(aggregate), 8);
        }
        for (AggregatePlan& aggregate : plan_.aggregates) {
            if (has_flag(aggregate.state)) aggregate.flag_offset = offset_of(end_++);
        }
        end_ = round_up_or_max(end_, 8);
        check_size();
        plan_.record_bytes = offset_of(end_);
        const uint64_t empty_bytes = plan_.record_bytes - plan_.states_offset;
        // Twice: empty_record() is a copy.
        if (empty_bytes > kUncountedBytesMax) plan_.empty_memory = budget_.reserve(2 * empty_bytes, "states of groups");
        plan_.empty_states.assign(empty_bytes, 0);
        for (const AggregatePlan& aggregate : plan_.aggregates) {
            const bool all_ones = aggregate.state == StateKind::kMinWord || aggregate.state == StateKind::kFirstFixed ||
                                  aggregate.state == StateKind::kFirstBytes;
            if (all_ones) std::memset(&plan_.empty_states[aggregate.offset - plan_.states_offset], 0xff, 8);
        }
    }

  private:
    void check_size() const {
        if (end_ <= kRowBytesMax) return;
        throw Error(ErrorCode::kUnsupportedType,
                    "a group of this query takes " + std::to_string(end_) + " bytes (" +
                        std::to_string(plan_.key_outputs.size()) + " keys and " +
                        std::to_string(plan_.aggregates.size()) + " aggregates), more than the " +
                        std::to_string(kRowBytesMax) +
                        " that it may take; ask for fewer aggregates of wide columns in one query",
                    {{"rowBytes", std::to_string(end_)}, {"largestRowBytes", std::to_string(kRowBytesMax)}});
    }

    int32_t add_var(uint32_t row_offset) {
        for (size_t i = 0; i < plan_.var_copies.size(); ++i) {
            if (plan_.var_copies[i].from == row_offset) return static_cast<int32_t>(i);
        }
        end_ = round_up_or_max(end_, 8);
        plan_.var_copies.push_back({row_offset, offset_of(end_), sizeof(KeyBytes)});
        end_ += sizeof(KeyBytes);
        return static_cast<int32_t>(plan_.var_copies.size()) - 1;
    }

    void place_key_field(const RowField& source) {
        GroupPlan::KeyOutput output{source, -1};
        if (source.kind == FieldKind::kBytes || source.kind == FieldKind::kNested) {
            output.var_slot = add_var(source.offset);
        } else if (source.kind != FieldKind::kNull && !source.in_key_word && source.offset >= plan_.layout.key_end) {
            end_ = round_up_or_max(end_, source.width >= 8 ? 8 : 1);
            output.field.offset = offset_of(end_);
            plan_.copies.push_back({source.offset, offset_of(end_), source.width});
            end_ += source.width;
            const bool is_float = source.type->layout == Layout::kFixed && source.type->order == Order::kFloat;
            if (is_float) plan_.float_keys.push_back({output.field.offset, source.width});
        }
        plan_.key_outputs.push_back(std::move(output));
    }

    void place_null_bits() {
        int32_t bits = 0;
        for (GroupPlan::KeyOutput& output : plan_.key_outputs) {
            if (output.field.null_bit < 0) continue;
            const int32_t from = output.field.null_bit;
            output.field.null_bit = bits++;
            const int32_t to = output.field.null_bit;
            plan_.null_bits.push_back({plan_.layout.null_offset + static_cast<uint32_t>(from / 8),
                                       offset_of(end_) + static_cast<uint32_t>(to / 8),
                                       static_cast<uint8_t>(1 << (from % 8)), static_cast<uint8_t>(1 << (to % 8))});
        }
        plan_.record_layout.null_bytes = static_cast<uint32_t>(bits + 7) / 8;
        end_ += plan_.record_layout.null_bytes;
    }

    AggregatePlan make_aggregate(const AggregateSpec& spec, const RowLayout& layout) {
        AggregatePlan plan;
        plan.kind = spec.kind;
        plan.result_type = spec.result_type;
        plan.decimal_scale = spec.decimal_scale;
        if (spec.kind == AggregateKind::kCountRows) return plan;
        plan.field = &layout.fields[static_cast<size_t>(spec.field)];
        plan.value_type = plan.field->type.get();
        plan.column = plan.value_type->name;
        plan.value_bytes = plan.field->width;
        plan.number = number_kind(*plan.value_type);
        if (spec.kind == AggregateKind::kCount) {
            plan.state = plan.field->kind == FieldKind::kNull ? StateKind::kNull : StateKind::kCountValues;
        } else if (spec.kind == AggregateKind::kCountDistinct) {
            plan.state = plan.field->kind == FieldKind::kNull ? StateKind::kNull : StateKind::kCountDistinct;
            plan_.has_distinct = plan_.has_distinct || plan.state == StateKind::kCountDistinct;
            if (plan.value_type->layout == Layout::kDictionary) plan.number = NumberKind::kU32;
        } else if (spec.kind == AggregateKind::kSum || spec.kind == AggregateKind::kMean) {
            plan_sum(plan);
        } else {
            plan_choice(plan);
        }
        return plan;
    }

    void plan_sum(AggregatePlan& plan) {
        if (plan.field->kind == FieldKind::kNull) {
            plan.state = StateKind::kNull;
            return;
        }
        if (is_unknown_dictionary(*plan.value_type)) {
            plan.state = StateKind::kNull;
            return;
        }
        if (plan.value_type->layout == Layout::kDictionary) {
            const ColumnView& values = plan.value_type->dictionary->values;
            plan.decode = values.data;
            plan.value_type = values.type;
            plan.value_bytes = static_cast<uint32_t>(values.type->byte_width);
            plan.number = number_kind(*values.type);
        }
        const bool decimal = plan.value_type->layout == Layout::kFixed && plan.value_type->order == Order::kDecimal;
        if (decimal && (plan.value_type->byte_width == 16 || plan.value_type->byte_width == 32)) {
            plan.state = StateKind::kSumDecimal;
        } else if (plan.number == NumberKind::kNone || (plan.decode != nullptr && !values_are_fixed(plan))) {
            throw Error(ErrorCode::kUnsupportedType,
                        "sum and mean need a column of numbers, but '" + plan.column + "' is none",
                        {{"column", plan.column}});
        } else {
            plan.state = is_float(plan.number) ? StateKind::kSumFloat : StateKind::kSumInteger;
        }
    }

    // The input has no rows, so an outer join makes all values NULL.
    static bool is_unknown_dictionary(const ColumnType& type) {
        return type.layout == Layout::kDictionary && type.dictionary == nullptr;
    }

    static bool values_are_fixed(const AggregatePlan& plan) { return plan.value_type->layout == Layout::kFixed; }

    // min, max, first, any: the result is one of the values, its type the column's.
    void plan_choice(AggregatePlan& plan) {
        plan.result_type = plan.field->type;
        const bool bytes = plan.field->kind != FieldKind::kFixed && plan.field->kind != FieldKind::kNull;
        plan_.has_bytes_state = plan_.has_bytes_state || bytes;
        if (plan.field->kind == FieldKind::kNull || is_unknown_dictionary(*plan.value_type)) {
            plan.state = StateKind::kNull;
        } else if (plan.kind == AggregateKind::kFirst) {
            plan.state = bytes ? StateKind::kFirstBytes : StateKind::kFirstFixed;
        } else if (plan.kind == AggregateKind::kAny) {
            plan.state = bytes ? StateKind::kAnyBytes : StateKind::kAnyFixed;
        } else {
            const bool min = plan.kind == AggregateKind::kMin;
            if (plan.value_type->layout == Layout::kDictionary) {
                plan.order = order_of(*plan.value_type->dictionary);
                plan.number = NumberKind::kI32;
            }
            if (plan.field->kind == FieldKind::kNested) {
                throw Error(ErrorCode::kUnsupportedType,
                            "min and max need values with an order, but column '" + plan.column + "' is nested",
                            {{"column", plan.column}});
            }
            if (bytes) {
                plan.state = min ? StateKind::kMinBytes : StateKind::kMaxBytes;
            } else if (plan.number == NumberKind::kNone) {
                plan.state = min ? StateKind::kMinFixed : StateKind::kMaxFixed;
            } else {
                plan.state = min ? StateKind::kMinWord : StateKind::kMaxWord;
            }
        }
    }

    std::shared_ptr<const DictionaryOrder> order_of(const Dictionary& dictionary) {
        for (const AggregatePlan& other : plan_.aggregates) {
            const bool same = other.order != nullptr && other.value_type->dictionary.get() == &dictionary;
            if (same) return other.order;
        }
        return std::make_shared<const DictionaryOrder>(dictionary, budget_);
    }

    GroupPlan& plan_;
    MemoryBudget& budget_;
    uint64_t end_ = 0;
};

}  // namespace

std::vector<uint8_t> GroupPlan::empty_record() const {
    std::vector<uint8_t> record(states_offset, 0);
    record.insert(record.end(), empty_states.begin(), empty_states.end());
    return record;
}

std::unique_ptr<const GroupPlan> GroupPlan::of_columns(const Columns& input, const GroupBySpec& spec,
                                                       MemoryBudget& budget, bool with_aggregates) {
    const PartitionSpec& partition = input.partition;
    std::vector<int32_t> carried;
    std::vector<int32_t> key_fields;
    for (int32_t field : spec.key_fields) {
        const int32_t column = partition.carry[static_cast<size_t>(field)];
        const auto known = std::find(carried.begin(), carried.end(), column);
        key_fields.push_back(static_cast<int32_t>(known - carried.begin()));
        if (known == carried.end()) carried.push_back(column);
    }
    auto plan = std::make_unique<GroupPlan>();
    plan->value_layout = RowLayout::make(input.columns, partition.keys, partition.carry, input.null_keys);
    plan->layout = RowLayout::make(input.columns, partition.keys, carried, input.null_keys);
    plan->probe_layout = RowLayout::make(input.columns, partition.keys, {}, input.null_keys);
    plan->hash_mask = spec.hash_mask;
    PlanMaker maker(*plan, budget);
    maker.place_keys(key_fields);
    maker.place_states(with_aggregates ? spec.aggregates : std::vector<AggregateSpec>{}, plan->value_layout);
    for (AggregatePlan& aggregate : plan->aggregates) {
        if (aggregate.field == nullptr) continue;
        const auto view = std::find(input.views.begin(), input.views.end(), aggregate.field->column);
        aggregate.view = static_cast<int32_t>(view - input.views.begin());
    }
    return plan;
}

std::unique_ptr<const GroupPlan> GroupPlan::make(const RowLayout& layout, const GroupBySpec& spec, MemoryBudget& budget,
                                                 bool with_aggregates) {
    auto plan = std::make_unique<GroupPlan>();
    plan->layout = layout;
    plan->hash_mask = spec.hash_mask;
    PlanMaker maker(*plan, budget);
    maker.place_keys(spec.key_fields);
    maker.place_states(with_aggregates ? spec.aggregates : std::vector<AggregateSpec>{}, plan->layout);
    for (const AggregatePlan& aggregate : plan->aggregates) {
        if (aggregate.kind != AggregateKind::kFirst) continue;
        SPILLWAY_CHECK(spec.row_number_field >= 0);
        plan->row_number_offset = plan->layout.fields[static_cast<size_t>(spec.row_number_field)].offset;
    }
    return plan;
}

}  // namespace spillway
