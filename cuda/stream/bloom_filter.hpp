// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "primitive/device_relation.hpp"

namespace spillway::cuda { inline namespace stream {

// Which keys the build side may have (Bloom, Space/time trade-offs in hash coding with allowable errors, CACM 1970;
// all bits of a key in one word, so that a look is one access: Putze, Sanders and Singler, Cache-, hash-, and
// space-efficient Bloom filters, 2009). A probe row whose key is not in it has no partner, and need not be partitioned,
// spilled and read back. It has a hash of its own: bits that chose a partition say nothing new inside of it.
class BloomFilter {
  public:
    // words: of 8 bytes, a power of two. With one for every 8 build rows some 4 % of other keys pass, with one for
    // every 4 some 0.5 %.
    BloomFilter(Device& device, uint64_t words);

    // Keys of build rows. One atomic operation per row.
    void add(const DeviceRelation& relation);
    // Rows whose keys may be among them, a bit each, in (rows + 31) / 32 words; rows without a key are not. Reads each
    // key and a word for it.
    void test(const DeviceRelation& relation, uint32_t* passes);

  private:
    Device& device_;
    const uint64_t words_;
    Allocation memory_;
};

}}  // namespace spillway::cuda::stream
