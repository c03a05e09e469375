// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "group_by/group_by.hpp"
#include "group_by/plan/accumulators.hpp"
#include "stream/result_writer.hpp"
#include "stream/row_pieces.hpp"

namespace spillway::cuda { inline namespace staged_group_by {

// Rows whose mixed keys have this value in so many bits behind the partition's; no bits: all rows.
struct KeySlice {
    uint32_t bits = 0;
    uint32_t reserved = 0;
    uint64_t value = 0;

    KeySlice half(uint64_t which) const { return {bits + 1, 0, value * 2 + which}; }
};

// Rows in pieces on their way to columns.
struct RowsToColumns {
    PieceTiles tiles;
    const uint64_t* first_row = nullptr;  // [pieces]: where a piece goes, if all rows do
    const uint32_t* rows = nullptr;
    uint32_t row_words = 1;
    uint32_t radix_bits = 0;
    KeySlice slice;
    ResultWindow columns;                 // the key and fields of the row; of `rows` rows at most
    unsigned long long* count = nullptr;  // of a slice: rows so far, also of those behind the last one
};

// Reads each row once, writes those of the slice, in no particular order if it is not all.
void rows_to_columns(Device& device, const RowsToColumns& pass);

// Values of 1, 2 or 4 bytes as 8-byte ones, floats as doubles. Reads and writes each once.
void widen_values(Device& device, const DeviceColumn& from, ValueKind kind, uint64_t rows, void* to);
// Writes `rows` times the value 1, of 8 bytes.
void fill_ones(Device& device, uint64_t* to, uint64_t rows);
// Mixed keys from keys, somewhere else. Reads and writes each once.
void mix_keys(Device& device, const void* keys, void* to, uint32_t key_bytes, uint64_t rows);
// Keys from mixed keys, in place. Reads and writes each once.
void unmix_keys(Device& device, void* keys, uint32_t key_bytes, uint64_t rows);
// Bits of rows that have no key, by those of rows that have one.
void invert_validity(Device& device, const uint32_t* from, uint32_t* to, uint64_t rows);

enum class GroupField : uint8_t {
    kCopy,
    kPresence,  // a byte that says whether the group has a key
    kMeanSigned,
    kMeanUnsigned,
    kMeanFloat
};

struct GroupColumn {
    const void* from = nullptr;  // nullptr: zeros
    const uint64_t* counts = nullptr;
    void* to = nullptr;
    uint32_t width = 8;
    GroupField field = GroupField::kCopy;
};

// Groups [first, first + rows) on their way to columns of a result. The key, its presence, and the aggregates.
constexpr int kGroupColumnsMax = kGroupAggregatesMax + 2;
struct GroupsToWrite {
    uint64_t first = 0;
    uint64_t rows = 0;
    int32_t columns = 0;
    uint32_t has_key = 1;
    GroupColumn column[kGroupColumnsMax];
};
// Reads and writes each value once.
void write_groups(Device& device, const GroupsToWrite& groups);

}}  // namespace spillway::cuda::staged_group_by
