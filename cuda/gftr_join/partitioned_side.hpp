// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "device/device.hpp"
#include "materialize/row_list.hpp"
#include "pair_join/join_tuples.hpp"
#include "primitive/device_relation.hpp"

namespace spillway::cuda { inline namespace gftr_joins {

constexpr int kNoColumn = -1;

// One side of a join in the order of its partitions, column by column. The radix partition is stable, so that each
// column that is partitioned with the keys, whenever that is, comes out in the same order: a row's place in that order
// is its number in all of them. Rows that have a key come first; those without one, if they are kept, behind.
class PartitionedSide {
  public:
    // Lists the rows that have a key, where some have none, and waits for the device then.
    PartitionedSide(Device& device, const DeviceRelation& input, uint32_t row_width, bool keeps_keyless);

    // Rows of the copy and which of them have a key. Columns and the key have the widths of the input and not yet any
    // place: column() and key() tell.
    const DeviceRelation& relation() const { return relation_; }

    // Partitions the keys by the top bits of the mixed key, together with that column of the input or (kNoColumn)
    // alone. Tuples have no row numbers: these are their places. Bytes: the keys read, written mixed and partitioned.
    PartitionedTuples partition(int column, int radix_bits);

    // A column of the input in the order of the partitions. It stays until the next call, so that one at a time takes
    // memory. Bytes: a radix partition of keys and values, none for the column that is there already.
    DeviceColumn column(int column);

    // Takes the keys of the tuples that partition() gave, once they are joined.
    void keep_keys(Allocation mixed_in_order) { keys_ = std::move(mixed_in_order); }
    // The key column in the order of the partitions, which stays. Bytes: each key read and written, at the first call.
    DeviceColumn key();

  private:
    Allocation allocate(uint64_t rows, uint32_t width);
    void describe_keyless();
    void mix_keys();
    // Partitions the mixed keys, and with them the column into column_.
    void partition_with(int column, void* keys_to);

    Device& device_;
    const DeviceRelation& input_;
    const uint32_t row_width_;
    DeviceRelation relation_;
    uint64_t keyed_rows_ = 0;
    RowList keyed_;    // where some rows have no key
    RowList keyless_;  // where these are kept
    Allocation valid_;
    int radix_bits_ = 0;
    Allocation mixed_;  // keys of rows that have one, in the order of the input
    Allocation keys_;   // of the copy, mixed until key() is called
    bool is_unmixed_ = false;
    int held_ = kNoColumn;
    Allocation column_;
};

}}  // namespace spillway::cuda::gftr_joins
