// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "group_by/group_by.hpp"
#include "relation/device_table.hpp"
#include "relation/group_table.hpp"

namespace spillway::cuda { inline namespace relation {

// The limbs of 4-, 8- or 16-byte integers, columns one behind the other, the lowest first. Only the last is signed.
struct Limbs {
    Allocation memory;  // empty: values of 4 bytes are their only limb
    std::vector<DeviceColumn> columns;
};

// Sums of integers in 128 bits and means of decimals, which 64 bits do not hold: as sums of 32-bit limbs, each of which
// is an ordinary sum whatever the algorithm. The lowest limb is in the aggregate's own place in the request, the others
// and the counts of means behind all aggregates.
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
