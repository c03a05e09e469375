// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "hash_join/join_kernels.hpp"
#include "radix_partition/row_layout.hpp"

// What a launch of the join kernel is given, from sizes alone.
namespace spillway::cuda {

// What a block of the join kernel has room for.
struct BlockRoom {
    uint32_t rows = 0;
    uint32_t buckets = 4;
};

BlockRoom block_room(Device& device, uint32_t key_words, uint32_t row_words, int radix_bits);

// Further radix bits, of one pass at most, with which a partition of so many build rows, made of `done` bits, fits a
// block's shared memory; as many as one pass takes where it would not with any.
int second_pass_bits(Device& device, const RowLayout& build, uint64_t partition_rows, int done);

// Where partitions are too few for all multiprocessors, as many units of each as these have time for.
uint32_t probe_unit_rows(uint64_t probe_rows, uint64_t partitions, uint64_t multiprocessors);

// [partitions + 1] number of the first unit of each partition, in order on the device's stream.
Allocation first_units(Device& device, const JoinPass& pass);

// No more than keep busy with so many rows of both sides.
uint64_t join_blocks(const Device& device, uint64_t rows);
void launch_join(Device& device, JoinKernel kernel, uint64_t blocks, uint32_t key_words, const JoinPass& pass);

}  // namespace spillway::cuda
