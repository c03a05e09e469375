// SPDX-License-Identifier: Apache-2.0
#include "cpu/hash_join/join_table.hpp"

#include <algorithm>

#include "cpu/hash_join/bucket_chaining_table.hpp"
#include "cpu/hash_join/linear_probing_table.hpp"
#include "cpu/hash_join/perfect_table.hpp"
#include "cpu/hash_join/vector_probing_table.hpp"

namespace spillway {

uint64_t JoinTable::bytes_for(HashingScheme scheme, TableUse use, const RowLayout& build, uint64_t rows,
                              uint64_t numbers, TableRoom room) {
    if (scheme == HashingScheme::kBucketChaining) return BucketChainingTable::bytes_for(rows, numbers);
    // kPerfect: what it may fall back to.
    return VectorProbingTable::usable(build) ? VectorProbingTable::bytes_for(use, room, rows, numbers)
                                             : LinearProbingTable::bytes_for(use, rows, numbers);
}

std::unique_ptr<JoinTable> JoinTable::build(HashingScheme scheme, TableUse use, const BuildRows& rows,
                                            const RowLayout& probe_layout, uint64_t range_max, uint64_t hash_mask,
                                            MemoryBudget& budget, TableRoom room) {
    if (scheme == HashingScheme::kBucketChaining) {
        return std::make_unique<BucketChainingTable>(rows, probe_layout, hash_mask, budget);
    }
    if (scheme == HashingScheme::kPerfect) {
        const auto range = key_range(rows);
        // Never more memory than linear probing of the same rows, which is what was reserved.
        const uint64_t reserved = bytes_for(HashingScheme::kLinearProbing, use, rows.layout(), rows.rows(), 0, room);
        const bool affordable = range && PerfectTable::bytes_for(range->span + 1) <= reserved;
        if (affordable && range->span < range_max) {
            return std::make_unique<PerfectTable>(rows, probe_layout, *range, budget);
        }
    }
    if (VectorProbingTable::usable(rows.layout())) return VectorProbingTable::make(rows, use, room, hash_mask, budget);
    return std::make_unique<LinearProbingTable>(rows, probe_layout, use, hash_mask, budget);
}

bool JoinTable::counts_streamed(HashingScheme scheme, TableUse use, const RowLayout& build) {
    return scheme == HashingScheme::kLinearProbing && use == TableUse::kCount && VectorProbingTable::usable(build);
}

std::unique_ptr<JoinTable> JoinTable::build_counter(uint64_t rows, uint32_t row_bytes, const EachSpan& each,
                                                    uint64_t hash_mask, MemoryBudget& budget, TableRoom room) {
    return VectorProbingTable::make_counter(rows, row_bytes, each, room, hash_mask, budget);
}

}  // namespace spillway
