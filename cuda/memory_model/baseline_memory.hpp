// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "memory_model/stream_memory.hpp"

namespace spillway::cuda { inline namespace memory_model {

// What the sizes of a join of cuda/baseline_join come to.
struct BaselineMemory {
    uint64_t table_bytes = 0;   // of a hash table, wherever its slots lie; 0: the join has none
    uint64_t stripe_bytes = 0;  // of a table that is spread over several kinds of memory
    uint64_t stripes = 0;
    uint64_t device_stripes = 0;  // of them
    uint64_t device_bytes = 0;    // all GPU memory that the join takes
};

// Slots of a table of linear probing. Throws kInvalid for one that no memory holds.
uint64_t table_slots(uint64_t build_rows, uint32_t load_percent);

// Throws as table_slots(), and where stripes have no memory to lie in.
BaselineMemory baseline_join_memory(const BaselineJoinSpec& spec);

}}  // namespace spillway::cuda::memory_model
