// SPDX-License-Identifier: Apache-2.0
#include "cpu/group_by/group_aggregator.hpp"

namespace spillway {

DistinctSets::DistinctSets(const GroupPlan& plan, TableMemory& memory, bool shared) {
    const auto counting = shared ? DistinctSet::Counting::kShared : DistinctSet::Counting::kAlone;
    for (const AggregatePlan& aggregate : plan.aggregates) {
        if (aggregate.state != StateKind::kCountDistinct) continue;
        sets_.push_back(std::make_unique<DistinctSet>(aggregate, memory, counting));
    }
}

void DistinctSets::add(const RowBlock& block, FieldGather& gather, const HashRange& values) {
    for (auto& set : sets_) set->add(block, gather, values);
}

void DistinctSets::undo() {
    for (auto& set : sets_) set->undo();
}

void DistinctSets::clear() {
    for (auto& set : sets_) set->clear();
}

uint64_t DistinctSets::bytes() const {
    uint64_t bytes = 0;
    for (const auto& set : sets_) bytes += set->bytes();
    return bytes;
}

uint64_t DistinctSets::pairs() const {
    uint64_t pairs = 0;
    for (const auto& set : sets_) pairs += set->pairs();
    return pairs;
}

GroupAggregator::GroupAggregator(const GroupPlan& plan, TableMemory& memory, uint64_t charge_per_record,
                                 int32_t radix_bits)
    : cutter_(plan.layout.row_bytes, plan.layout.null_offset, radix_bits),
      gather_(std::make_unique<FieldGather>()),
      table_(plan, memory, charge_per_record),
      distinct_(plan, memory, false) {}

void GroupAggregator::clear() {
    distinct_.clear();
    table_.clear();
}

void GroupAggregator::release() {
    distinct_.clear();
    table_.release();
}

}  // namespace spillway
