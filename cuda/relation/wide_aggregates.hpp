// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "relation/group_table.hpp"
#include "relation/wide_sums.hpp"

namespace spillway::cuda { inline namespace relation {

// Sums and means of a group-by that 64 bits do not hold, made of sums of limbs (wide_sums.hpp): the lowest limb in the
// aggregate's own place in the request, the others and the counts of means behind all aggregates.
class WideAggregates {
  public:
    WideAggregates(Device& device, size_t aggregates, uint64_t rows)
        : device_(device), aggregates_(aggregates), rows_(rows) {}

    // Sums of decimals, whose result has 16 bytes, and means of those that have a scale or 16 bytes themselves.
    static bool takes(const TableAggregate& aggregate);

    // What stands in the place of aggregate `number`. count: of the column's values. Throws kInvalid.
    GroupAggregate add(size_t number, const TableAggregate& aggregate, const TableColumn& column,
                       const GroupAggregate& count);
    // What comes behind the aggregates, when all have been added.
    const std::vector<GroupAggregate>& more() const { return more_; }

    bool has(size_t number) const { return find(number) != nullptr; }
    // Makes the values of an aggregate that was added. Throws kOverflow.
    Allocation values(size_t number, const TableAggregate& aggregate, const GroupByResult& result);

  private:
    struct Parts {
        size_t number = 0;
        std::vector<size_t> sums;  // places of the limbs' sums in the request
        size_t count = 0;          // for means: place of the count of values in the request
    };
    struct ColumnLimbs {
        uint32_t column;
        Limbs limbs;
    };

    const Parts* find(size_t number) const;
    const Limbs& limbs_of(uint32_t number, const TableColumn& column);
    size_t push(const GroupAggregate& aggregate);

    Device& device_;
    const size_t aggregates_;
    const uint64_t rows_;
    std::vector<GroupAggregate> more_;
    std::vector<Parts> parts_;
    std::vector<ColumnLimbs> limbs_;  // of each column once
};

}}  // namespace spillway::cuda::relation
