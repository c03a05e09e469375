// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "primitive/device_relation.hpp"
#include "radix_partition/column_packs.hpp"

// The first pass over a relation that becomes keys and packs, as its kernel gets it.
namespace spillway::cuda { inline namespace radix_partitioning {

constexpr uint32_t kPackBytesMax = kPackWordsMax * 4;

// A column of 4 bytes or more, which comes to shared memory as it is.
struct PackArray {
    const void* data;
    uint8_t words;   // of a value
    uint8_t before;  // words of the row before it
};

// A part of a word: a column of less than 4 bytes, or a word of the row's number (data nullptr).
struct PackPart {
    const void* data;
    uint8_t width;
    uint8_t word;  // of the row
    uint8_t bit;   // of the word, where it begins
    uint8_t number_shift;
};

struct PackWord {
    uint8_t before;  // words of the row before the array that has it
    uint8_t within;  // words of that array's value before it
    uint8_t stride;  // words of a value
};

struct PackSource {
    uint32_t* rows;
    uint32_t words;
    uint32_t arrays;
    uint32_t parts;
    PackWord word[kPackWordsMax];
    PackArray array[kPackWordsMax];
    PackPart part[kPackBytesMax];
};

struct PackPass {
    const void* key = nullptr;
    const uint32_t* key_valid = nullptr;
    uint64_t rows = 0;
    uint32_t* keys_out = nullptr;       // rows of mixed key and place
    const PackSource* packs = nullptr;  // [pack_count], device memory
    uint32_t pack_count = 0;
    uint64_t* front = nullptr;  // [2^bits, and one more for rows without a key if those are kept]
    uint32_t shift = 0;         // of the digit in the top word of the mixed key
    uint32_t bits = 0;
    bool keeps_keyless = false;
};

void launch_pack_pass(Device& device, const PackPass& pass, uint32_t key_words, uint32_t place_words);

// What the kernel is told of each pack.
std::vector<PackSource> pack_sources(const std::vector<ColumnPack>& packs, const DeviceRelation& relation);

// keyless[0] = rows less the sum of counts. A few words.
void count_keyless(Device& device, const uint64_t* counts, uint64_t partitions, uint64_t rows, uint64_t* keyless);

// A bit per place, 0 from the first one of the last region on: `begin` of it, rows[0] of them.
Allocation keyed_places(Device& device, const uint64_t* begin, const uint64_t* rows, uint64_t places);

}}  // namespace spillway::cuda::radix_partitioning
