// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "primitive/device_relation.hpp"
#include "radix_partition/radix_partition.hpp"

// Rows that are too wide to be moved with their keys in every pass: GFTR of the paper (SIGMOD 2025, section 4.1), but
// for several columns together instead of one, and by the first pass alone.
namespace spillway::cuda { inline namespace radix_partitioning {

// A pack is as wide as a memory sector, which an access to any of its columns reads in any case.
constexpr uint32_t kPackWordsMax = 8;

struct PackField {
    uint32_t column = 0;  // of the relation
    uint32_t width = 4;
    uint32_t offset = 0;  // in the pack's row, in bytes: a multiple of the width
};

// Some columns of a relation, as rows of whole words. Row i of all packs of a relation is the same row of it; i is
// called its place.
struct ColumnPack {
    uint32_t words = 0;  // 1, 2, 4 or 8, so that accesses are aligned; what no field has is padding
    std::vector<PackField> fields;
    Allocation rows;

    uint32_t row_bytes() const { return words * 4; }
};

// The widest columns first, into as few packs as hold them. Their memory is not allocated yet.
std::vector<ColumnPack> plan_packs(const std::vector<DeviceColumn>& columns);

struct PackedRelation {
    PartitionedRows keys;           // rows of the mixed key and its place, of 4 or 8 bytes, in all radix bits
    std::vector<ColumnPack> packs;  // in the order of the first radix bits, and of no more
    uint64_t places = 0;            // those that no row has are between partitions
    uint32_t place_width = 4;
    Allocation key_valid;  // a bit per place, 0 = its row has no key; empty: there are no such rows

    // What a join reads of rows by their places: whether they have a key, and a column of the places themselves.
    DeviceRelation by_place() const;
};

// Radix bits with which the packs of so many rows, partitioned by the first of them, are read from the L2 cache by who
// goes through the partitions in their order.
int pack_radix_bits(uint64_t rows);

// Partitions a relation of any width: the first pass brings keys and packs into the order of the first radix bits,
// later ones move keys and places alone. Rows without a key are in no partition; with_keyless: they have places behind
// all others. Memory: the packs, and what radix_partition() takes for rows of a key and a place. Enqueued as that.
// Throws kInvalid, kOutOfMemory.
PackedRelation partition_packed(Device& device, const DeviceRelation& relation, int radix_bits, bool with_keyless);

}}  // namespace spillway::cuda::radix_partitioning
