// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/plan/accumulators.hpp"
#include "group_by/plan/tile_stream.cuh"
#include "group_by/tables/slot_words.cuh"

namespace spillway::cuda { inline namespace grouping {

struct GroupUnit {
    uint64_t begin;  // rows begin, begin + step, ..., a tile each
    uint64_t end;
    uint64_t step_rows;
    bool merges;        // other units have the same keys
    bool merges_edges;  // other units may have its first and its last key, but no others
};

struct AggregatePass {
    SlotPlan plan;
    StagedArrays source;
    uint32_t slots = 0;  // of a block's table
    bool pairs = false;  // it is looked at by pairs (find_rows.cuh); kernels of the commonest shapes, keys of 4 bytes
    uint32_t slices = 1;
    uint32_t radix_bits = 0;           // top bits that the keys of a unit have in common
    uint64_t rows = 0;                 // units nullptr: all blocks share these
    const GroupUnit* units = nullptr;  // else
    const unsigned long long* unit_count = nullptr;
    unsigned long long* next_unit = nullptr;
    GlobalGroups global;
    uint32_t elsewhere_max = 0;  // rows of a block that may go there one by one before the attempt fails; 0: all
    GroupSink sink;

    __host__ __device__ uint32_t entries() const { return (slots + 2) & ~1U; }
    __host__ __device__ uint32_t keys_bytes(int key_words) const { return (entries() * 4 * key_words + 15) & ~15U; }
    __host__ __device__ uint32_t table_bytes(int key_words) const {
        return keys_bytes(key_words) + entries() * 4 * plan.words;
    }
};

}}  // namespace spillway::cuda::grouping
