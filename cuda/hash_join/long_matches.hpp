// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "hash_join/join_pass.hpp"

// Pairs of probe rows that match hundreds of build rows each. The join kernel finds such rows and lists them
// (LongMatchList); another kernel writes what they give, any warp any piece, so that it does not matter which partition
// or warp had them.
namespace spillway::cuda { inline namespace hash_join {

// What the list has its memory from.
struct LongMatchMemory {
    Allocation matches;
    Allocation words;
};

// Whether a join of so many rows, and pairs as far as they are known, has a list. Marks of `pass` are known.
bool wants_long_matches(uint64_t build_rows, uint64_t probe_rows, uint64_t pairs, uint32_t key_words,
                        const JoinPass& pass);
// Takes memory for the list of `pass` where there is enough; its counters are the caller's, and its marks are known.
LongMatchMemory allocate_long_matches(Device& device, uint64_t build_rows, uint64_t pairs, uint32_t key_words,
                                      JoinPass& pass);

// Writes what the join kernel has listed.
void launch_long_matches(Device& device, uint32_t key_words, const JoinPass& pass);
uint64_t long_match_warps(const Device& device);

}}  // namespace spillway::cuda::hash_join
