// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "api/gpu_facts.hpp"
#include "memory_model/stream_memory.hpp"

namespace spillway::cuda { inline namespace memory_model {

// What the options of a coherent join come to.
struct CoherentMemory {
    uint32_t row_words = 0;  // of either side
    uint64_t partitions = 1;
    uint64_t page_rows = 0;
    uint64_t pages = 0;        // of both sides, whatever the keys
    uint64_t group_pages = 0;  // of a side's rows that are joined together, or of build rows that are indexed
    uint64_t staged_rows = 0;  // probe rows that are gathered at once; 0: probes read far pages
    uint64_t probe_tiles = 0;
    // Marks, a byte each, of what has met a partner, where the kind of join asks for them: places of the index, and
    // probe rows of a build partition that comes in parts, as many at once.
    uint64_t build_marks = 0;
    uint64_t marked_rows = 0;
    bool second_pass = false;   // of both sides, not an index
    int split_bits = 0;         // radix bits of the second pass
    uint64_t result_bytes = 0;  // of a buffer of result rows
    // GPU memory that the first pass and the join take, beside pages; they follow each other.
    uint64_t partition_bytes = 0;
    uint64_t join_bytes = 0;
    // The cache of pages leaves this much GPU memory free for lists on their way and for rounding.
    uint64_t reserve_bytes = 0;

    uint64_t row_bytes() const { return row_words * sizeof(uint32_t); }
    uint64_t page_bytes() const { return page_rows * row_bytes(); }
    uint64_t group_rows() const { return group_pages * page_rows; }
    // Second pass: room for a group of one side, its regions aligned.
    uint64_t split_rows() const;
    // All but pages.
    uint64_t taken_bytes() const;
    // Pages that fit so much GPU memory beside the rest.
    uint64_t near_pages(uint64_t free_bytes) const;
};

// Stripes of a range of addresses that so many bytes of pages are cut from, where they are mapped.
uint64_t mapped_stripe_bytes(uint64_t bytes);

// limit_bytes: GPU memory that the join may take in all. Throws kInvalid for what cannot work.
CoherentMemory coherent_join_memory(const CoherentJoinSpec& spec, const GpuFacts& gpu, uint64_t limit_bytes);

}}  // namespace spillway::cuda::memory_model
