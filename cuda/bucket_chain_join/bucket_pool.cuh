// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "bucket_chain_join/bucket_policy.hpp"

// Buckets of tuples that the partitions of a pass take from one pool: bucket chains (Sioulas et al., ICDE 2019), which
// need to know no partition's size before. All blocks append to the same open bucket of a partition.
//
// A chain is not a list of links here: each bucket knows its partition and its number in the chain, so that any part of
// a chain is found without walking the rest of it, which for one hot key is a list of a million buckets.
namespace spillway::cuda { inline namespace bucket_chain_join {

struct BucketPool {
    void* keys = nullptr;
    void* rows = nullptr;
    // [partitions] Number of the open bucket plus one, above; tuples in it, below. Zeros: a chain without buckets. More
    // tuples than the bucket has room for: the chain is about to grow.
    unsigned long long* open = nullptr;
    unsigned long long* chain_buckets = nullptr;  // [partitions]
    unsigned long long* taken = nullptr;          // [1] buckets of all chains; below the size of the pool, see below
    uint32_t* owner = nullptr;                    // [buckets] partition
    uint32_t* ordinal = nullptr;                  // [buckets] number in the chain
    uint32_t bucket_tuples = 0;
};

// Every chain has at most one bucket that is not full, so that so many buckets are enough for any distribution.
inline uint64_t bucket_pool_size(uint64_t rows, uint64_t partitions, uint32_t bucket_tuples) {
    return rows / bucket_tuples + (rows < partitions ? rows : partitions);
}

// Where a run of tuples goes: the first `rest` of them from place `first` on, the others from place `then` on.
struct BucketRun {
    uint64_t first;
    uint64_t then;
    uint32_t rest;
};

// Room for `count` > 0 tuples of a partition. False: the chain is growing, ask again. Nobody waits in here, so that the
// lanes of a warp cannot wait for each other; who grows a chain is done when this returns.
__device__ inline bool take_places(const BucketPool& pool, uint64_t partition, uint32_t count, BucketRun& run) {
    const auto tuples_of = [](unsigned long long word) { return static_cast<uint32_t>(word); };
    const auto room_of = [&](unsigned long long word) { return (word >> 32) == 0 ? 0 : pool.bucket_tuples; };
    unsigned long long* const open = &pool.open[partition];
    // What is added to a chain that grows is lost. Looking first keeps those sums below 2^32: no block adds more than
    // one tile before it looks again.
    const unsigned long long seen = *static_cast<volatile unsigned long long*>(open);
    if (tuples_of(seen) > room_of(seen)) return false;
    const unsigned long long before = atomicAdd(open, static_cast<unsigned long long>(count));
    const uint32_t used = tuples_of(before);
    const uint32_t room = room_of(before);
    if (used > room) return false;
    run.first = ((before >> 32) - 1) * pool.bucket_tuples + used;  // of no use in a chain without buckets: rest is 0
    run.rest = min(count, room - used);
    run.then = 0;
    if (run.rest == count) return true;
    // This thread alone has gone beyond the end, and all others wait. The new buckets lie side by side.
    const uint32_t left = count - run.rest;
    const uint32_t buckets = (left + pool.bucket_tuples - 1) / pool.bucket_tuples;
    const unsigned long long fresh = atomicAdd(pool.taken, static_cast<unsigned long long>(buckets));
    const unsigned long long ordinal =
        atomicAdd(&pool.chain_buckets[partition], static_cast<unsigned long long>(buckets));
    for (uint32_t b = 0; b < buckets; ++b) {
        pool.owner[fresh + b] = static_cast<uint32_t>(partition);
        pool.ordinal[fresh + b] = static_cast<uint32_t>(ordinal + b);
    }
    run.then = fresh * pool.bucket_tuples;
    // Whoever grows the chain next must find this growth counted.
    __threadfence();
    atomicExch(open, (fresh + buckets) << 32 | (left - (buckets - 1) * pool.bucket_tuples));
    return true;
}

}}  // namespace spillway::cuda::bucket_chain_join
