// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "relation/wide_aggregates.hpp"

namespace spillway::cuda { inline namespace relation {

bool WideAggregates::takes(const TableAggregate& aggregate) {
    const bool is_sum = aggregate.kind == TableAggregateKind::kSum;
    if (aggregate.value_kind == TableValueKind::kDecimal) return is_sum || aggregate.kind == TableAggregateKind::kMean;
    if (aggregate.value_kind != TableValueKind::kSigned) return false;
    // Decimals of 4 and 8 bytes are integers whose sums have 16, and whose means have a scale.
    return is_sum ? aggregate.result_width == 16
                  : aggregate.kind == TableAggregateKind::kMean && aggregate.decimal_scale != 0;
}

GroupAggregate WideAggregates::add(size_t number, const TableAggregate& aggregate, const TableColumn& column,
                                   const GroupAggregate& count) {
    const bool is_mean = aggregate.kind == TableAggregateKind::kMean;
    if (aggregate.result_width != (is_mean ? 8 : 16)) {
        throw Error(ErrorCode::kInvalid, "a sum or mean of decimals with a result of " +
                                             std::to_string(aggregate.result_width) + " bytes runs on the CPU engine");
    }
    const std::vector<DeviceColumn>& columns = limbs_of(aggregate.column, column).columns;
    Parts parts;
    parts.number = number;
    GroupAggregate lowest;
    for (size_t limb = 0; limb < columns.size(); ++limb) {
        GroupAggregate sum;
        sum.kind = GroupAggregateKind::kSum;
        sum.value_kind = limb + 1 == columns.size() ? ValueKind::kSigned : ValueKind::kUnsigned;
        sum.values = columns[limb];
        sum.valid = column.validity.as<const uint32_t>();
        if (limb == 0) lowest = sum;
        parts.sums.push_back(limb == 0 ? number : push(sum));
    }
    if (is_mean) parts.count = push(count);
    parts_.push_back(parts);
    return lowest;
}

Allocation WideAggregates::values(size_t number, const TableAggregate& aggregate, const GroupByResult& result) {
    const Parts& parts = *find(number);
    LimbSums sums;
    for (const size_t sum : parts.sums) sums.sums[sums.limbs++] = result.values[sum].as<const void>();
    if (aggregate.kind == TableAggregateKind::kMean) {
        return wide_means(device_, sums, result.values[parts.count].as<const void>(), aggregate.decimal_scale,
                          result.groups);
    }
    const std::string text =
        "the sum of column " + std::to_string(aggregate.column) + " has more than 38 decimal digits for one group";
    return wide_sums(device_, sums, result.groups, text.c_str());
}

const WideAggregates::Parts* WideAggregates::find(size_t number) const {
    for (const Parts& parts : parts_) {
        if (parts.number == number) return &parts;
    }
    return nullptr;
}

const Limbs& WideAggregates::limbs_of(uint32_t number, const TableColumn& column) {
    for (const ColumnLimbs& known : limbs_) {
        if (known.column == number) return known.limbs;
    }
    limbs_.push_back({number, split_limbs(device_, column, rows_)});
    return limbs_.back().limbs;
}

size_t WideAggregates::push(const GroupAggregate& aggregate) {
    more_.push_back(aggregate);
    return aggregates_ + more_.size() - 1;
}

}}  // namespace spillway::cuda::relation
