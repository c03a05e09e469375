// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "device/memory_pool.hpp"
#include "materialize/join_output.hpp"
#include "materialize/match_pairs.hpp"
#include "primitive/device_relation.hpp"

// What the partitioned joins of (key, row number) share: the join of co-partitions in shared memory, whose result is
// pairs of row numbers, by which payloads are gathered from the untransformed relations (GFUR), or of places, by which
// they are gathered from copies in the same order (GFTR).
namespace spillway::cuda { inline namespace pair_join {

// Tuples of (mixed key, row number), in 2^radix_bits partitions by the top bits of the mixed key. Keys and row numbers
// are columns: the place of a tuple is the same in both. Rows without a key are left out.
struct PartitionedTuples {
    uint32_t key_width = 4;
    uint32_t row_width = 4;
    int radix_bits = 0;
    uint64_t relation_rows = 0;  // of which these are those with a key
    Allocation keys;
    Allocation rows;   // empty: a tuple's row number is its place
    Allocation sizes;  // uint64_t[partitions()]

    // bucket_tuples = 0: partition p is the tuples [begin[p], begin[p + 1]). Else it is a chain of buckets of so many
    // tuples (a power of two), all full but the last one: those with the numbers bucket_list[begin[p]] and following.
    // Bucket b is the tuples from b * bucket_tuples on.
    Allocation begin;  // uint64_t[partitions() + 1]
    uint32_t bucket_tuples = 0;
    Allocation bucket_list;  // uint32_t

    uint64_t partitions() const { return 1ULL << radix_bits; }
};

// What partitions a block joins at a time: the shapes of pair_policy.hpp.
enum class TupleParts : uint8_t { kLarge, kSmall };

// Who takes places for pairs of direct output, when the places that it has are filled: a warp, a block through a
// pointer in shared memory, or each thread by itself (the last two as in section 3.2.2 of Rui and Tu's paper).
enum class PairOutput : uint8_t { kWarpChunks, kBlockChunks, kThreadPages };

struct PairJoinOptions {
    int radix_bits = -1;                     // -1: as many as fit shared memory
    OutputPlan plan = OutputPlan::kOnePass;  // of pairs: direct output, or count, prefix sum and write
    uint64_t expected_rows = 0;              // pairs, kOnePass: what memory is taken for at first
    TupleParts parts = TupleParts::kLarge;
    PairOutput output = PairOutput::kWarpChunks;  // kOnePass
    // Large partitions are joined by kernels that blocks launch (section 3.2.3 of the same paper) instead of in units
    // that all blocks share. Of small parts alone: others need more shared memory than such kernels may have.
    bool child_kernels = false;
    int64_t child_blocks = -1;      // for tests: blocks of all these kernels together; -1: what policy says
    bool wide_row_numbers = false;  // for tests: 64-bit row numbers as if a side had more than 2^32 rows
};

// Throws kInvalid: widths, rows, radix bits that no caller may give.
void check_pair_join(const DeviceRelation& build, const DeviceRelation& probe, const PairJoinOptions& options);
// Returns the radix bits that the options name, or else chooses them by the size of the build side.
int tuple_radix_bits(uint64_t build_rows, const PairJoinOptions& options);
uint32_t tuple_row_width(const DeviceRelation& build, const DeviceRelation& probe, const PairJoinOptions& options);

// Tuples of equal widths and radix bits. A wish for marks alone is not counted: it needs no more than one match per
// row, where a key that both sides repeat takes quadratic time to count; nor does it wait for the device, as the others
// do. Throws kOutOfMemory, kCancelled.
MatchPairs join_tuples(Device& device, const PartitionedTuples& build, const PartitionedTuples& probe,
                       const MatchWish& wish, const PairJoinOptions& options);

}}  // namespace spillway::cuda::pair_join
