// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "hash_join/join_pass.hpp"
#include "radix_partition/row_layout.hpp"

// What a launch of the join kernel is given, from sizes alone.
namespace spillway::cuda { inline namespace hash_join {

// Probe rows of a unit at most. Where partitions are too few for all multiprocessors, as many units of each as these
// have time for; where one partition has more rows than others, or a row many matches, no unit takes much longer than
// others. pairs: matches of all probe rows, as far as they are known; 0: nobody knows.
uint32_t probe_unit_rows(uint64_t probe_rows, uint64_t partitions, uint64_t multiprocessors, uint64_t pairs);

// [partitions + 1] number of the first unit of each partition, in order on the device's stream.
Allocation first_units(Device& device, const JoinPass& pass);

// No more than keep busy with so many rows of both sides and of the result.
uint64_t join_blocks(const Device& device, uint64_t rows);
void launch_join(Device& device, JoinKernel kernel, uint64_t blocks, uint32_t key_words, const JoinPass& pass);

}}  // namespace spillway::cuda::hash_join
