// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "api/gpu_facts.hpp"
#include "device/device.hpp"
#include "hash_join/join_pass.hpp"

// Counts and sums of co-partitions by perfect hashing, as the Triton join's paper has it beside bucket chaining (its
// section 6.1, and radix_join.cu of its code): what is left of a key without the radix bits is the place of its row in
// an array in shared memory. Keys are stored with their bits in reverse order (FarPartitionOptions::reversed_keys), so
// that those of a partition have their lowest bits in common and lie densely but for these. An array begins at the
// smallest key of its partition, and its slots say whether they are filled, which the authors' do not.
namespace spillway::cuda { inline namespace hash_join {

// What a block found that no array can be made of; the sums are wrong then.
enum PerfectRefusal : uint32_t {
    kKeyRepeats = 1,  // a key of the build side comes twice
    kKeysSparse = 2   // keys of a partition lie in a range of more than kPerfectWindowsMax arrays
};

struct PerfectPass {
    JoinPass join;  // sums; of what joins build tables with, build_capacity alone
    uint32_t slots = 0;
    uint32_t* refusals = nullptr;  // PerfectRefusal, added by bits
};

// Slots of the array that a block has room for, a multiple of 32.
uint32_t perfect_slots(const GpuFacts& gpu, uint32_t key_words);

// On the device's stream.
void launch_perfect_sums(Device& device, uint64_t blocks, uint32_t key_words, const PerfectPass& pass);

}}  // namespace spillway::cuda::hash_join
