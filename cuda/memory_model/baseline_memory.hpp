// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "memory_model/stream_memory.hpp"

namespace spillway::cuda { inline namespace memory_model {

// What the sizes of a join of cuda/baseline_join come to.
struct BaselineMemory {
    // Bytes that a hash table takes, wherever its slots lie, or the build side where it is kept otherwise. 0: there is
    // neither.
    uint64_t table_bytes = 0;
    uint64_t stripe_bytes = 0;  // of a table that is spread over several kinds of memory
    uint64_t stripes = 0;
    uint64_t device_stripes = 0;  // of them
    uint64_t device_bytes = 0;    // all GPU memory that the join takes
};

// Slots of a table of linear probing. Throws kInvalid for one that no memory holds.
uint64_t table_slots(uint64_t build_rows, uint32_t load_percent);

// All GPU memory of a join that sorts or partitions the build side and each chunk (StreamProbe but kTable): an upper
// bound, as if its stages' memory were never used twice.
uint64_t resident_join_bytes(const StagedJoinSpec& join, uint64_t build_rows, StreamProbe stream_probe);
// The part of it that the build side takes.
uint64_t resident_build_bytes(const StagedJoinSpec& join, uint64_t build_rows, StreamProbe stream_probe);

// Throws as table_slots(), and where stripes have no memory to lie in.
BaselineMemory baseline_join_memory(const BaselineJoinSpec& spec);

}}  // namespace spillway::cuda::memory_model
