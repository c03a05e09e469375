// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "hash_join/join_pass.hpp"

// How many rows a join gives, range by range: what a result in pieces is cut by.
namespace spillway::cuda { inline namespace hash_join {

// Rows of both sides of one partition, all pairs of which are looked at. Both begin at multiples of kRegionAlignRows.
struct MatchRange {
    uint64_t build_first = 0;
    uint64_t build_rows = 0;  // at most counted_build_rows()
    uint64_t probe_first = 0;
    uint64_t probe_rows = 0;
};

// Build rows of a range at most, a multiple of kRegionAlignRows.
uint64_t counted_build_rows(Device& device, uint32_t key_words);

// Matches of each range. Sets marks of both sides where there are any. Waits for the device.
std::vector<uint64_t> count_range_matches(Device& device, const JoinSide& build, const JoinSide& probe,
                                          uint32_t key_words, int radix_bits, const std::vector<MatchRange>& ranges);

struct RowRange {
    uint64_t first = 0;
    uint64_t end = 0;
};

// Rows of each range whose mark is set, or is not. Waits for the device.
std::vector<uint64_t> count_marked_rows(Device& device, const uint8_t* marks, bool marked,
                                        const std::vector<RowRange>& ranges);
// Rows of each range whose bit is not set. Ranges begin at multiples of 32.
std::vector<uint64_t> count_keyless_rows(Device& device, const uint32_t* key_valid,
                                         const std::vector<RowRange>& ranges);

}}  // namespace spillway::cuda::hash_join
