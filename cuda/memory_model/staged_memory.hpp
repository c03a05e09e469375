// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "memory_model/stream_memory.hpp"

namespace spillway::cuda { inline namespace memory_model {

// What the sizes of a staged join come to. Bytes of the two sides, by side.
struct StagedJoinMemory {
    uint64_t row_bytes[2] = {};     // of a packed row: whole words
    uint64_t chunk_bytes[2] = {};   // of a chunk as it comes, also by a pipe, which takes as much of its own
    uint64_t packed_bytes[2] = {};  // of a chunk whose rows all leave, packed, if packing gains nothing
    uint64_t result_row_bytes = 0;  // of a result row
    uint64_t result_bytes = 0;      // of a buffer of result rows
    uint64_t slot_bytes = 0;        // of the ring: a chunk of either side, or packed rows that come back
    uint64_t run_words = 0;         // packed rows of a chunk at most
    uint64_t probe_tiles = 0;       // of a chunk, or of what comes back at once, at most
    uint64_t index_rows = 0;        // of a partition that can be indexed
    uint64_t marked_rows = 0;       // probe rows that are marked at once, a byte each
    uint64_t device_bytes = 0;      // all GPU memory that the join takes
};
StagedJoinMemory staged_join_memory(const StagedJoinSpec& spec);
// The part of device_bytes that build rows in pages, their index, probes of it and buffers of result rows take.
uint64_t indexed_join_bytes(const StagedJoinSpec& spec, const StagedJoinMemory& memory);

constexpr uint32_t kNoColumn = ~0U;

// An accumulator of a partial row of a group-by.
struct PartialColumn {
    GroupAggregateKind kind = GroupAggregateKind::kCountRows;  // or kSum, kMin, kMax, kFirst
    ValueKind value_kind = ValueKind::kUnsigned;
    uint32_t column = kNoColumn;  // of the chunk
    uint32_t column_bytes = 0;
    uint32_t width = 8;
    uint32_t decided_by = kNothingDecides;  // column of the chunk

    bool same(const PartialColumn& other) const {
        return kind == other.kind && value_kind == other.value_kind && column == other.column &&
               decided_by == other.decided_by;
    }
};
// The accumulator of an aggregate; that of its count, where it has one beside: kCountRows by default.
PartialColumn partial_of(const StagedGroupBySpec& spec, const StagedAggregate& aggregate);
// Returns the accumulators of all aggregates in their order; equal ones come once.
std::vector<PartialColumn> partial_columns(const StagedGroupBySpec& spec);

// What the sizes of a staged group-by come to.
struct StagedGroupByMemory {
    uint64_t row_bytes = 0;     // of a partial row: whole words
    uint64_t chunk_bytes = 0;   // of a chunk as it comes, also by a pipe, which takes as much of its own
    uint64_t packed_bytes = 0;  // of a chunk whose rows all leave, packed, if packing gains nothing
    uint64_t result_bytes = 0;  // of a buffer of groups
    uint64_t slot_bytes = 0;    // of the ring
    uint64_t run_words = 0;     // packed rows of a chunk at most
    uint64_t list_rows = 0;     // partial rows of chunks with few groups
    uint64_t device_bytes = 0;
};
StagedGroupByMemory staged_group_by_memory(const StagedGroupBySpec& spec);

}}  // namespace spillway::cuda::memory_model
