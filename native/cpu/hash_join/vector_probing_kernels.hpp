// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace spillway {

constexpr uint64_t kBucketWords = 8;  // one cache line

// Words in buckets of a cache line. A bucket fills from its front; what does not fit goes to the next bucket.
struct WordBuckets {
    uint64_t* words = nullptr;  // 64-byte aligned
    uint64_t count = 0;         // buckets
    uint64_t hash_mask = 0;     // tests: 0 sends every word to bucket 0
    uint64_t free_word = 0;     // marks free slots
    bool prefetch = false;      // larger than the L2 cache
};

constexpr uint64_t kNoSlot = ~0ULL;

// The inner loops of VectorProbingTable, compiled for one instruction set. They use nothing but raw memory, so that no
// inline function of the rest of the engine is ever compiled for a machine that may lack these instructions.
struct VectorProbingKernels {
    // Inserts rows until one is found whose word is there already (or is the free word): returns how many were
    // inserted, and in *equal_slot where the next one's equal is. slots (may be nullptr): slot of each inserted row.
    uint32_t (*insert)(const WordBuckets& buckets, const uint8_t* rows, uint32_t row_bytes, uint32_t count,
                       uint64_t* slots, uint64_t* equal_slot);
    // Slot of each row's word, or kNoSlot.
    void (*find)(const WordBuckets& buckets, const uint8_t* const* rows, uint32_t count, uint64_t* slots);
    // Number of rows whose word is there.
    uint64_t (*count)(const WordBuckets& buckets, const uint8_t* const* rows, uint32_t count);
};

// nullptr: this processor has no kernels.
const VectorProbingKernels* vector_probing_kernels();
// Those for AVX2, whether the processor has it or not; nullptr on other architectures.
const VectorProbingKernels* avx2_probing_kernels();

}  // namespace spillway
