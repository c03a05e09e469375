// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "api/host_device.hpp"

// Values of a column as they cross the link: in as many bits as they need (frame of reference, bit-packed in transposed
// lanes as in Afroozeh and Boncz, "The FastLanes Compression Layout", VLDB 2023, section 3).
namespace spillway::cuda { inline namespace api {

// Values of a block, of which the least is the frame of reference of all.
constexpr uint32_t kPackedValues = 1024;

// Where a block lies and how. Value i of it is the one in row i / lanes of lane i % lanes; each lane has the bits of
// its rows one behind the other, lowest first, in words of its own, and word k of all lanes lie side by side. Values of
// 8 bytes have 16 lanes of 64-bit words, narrower ones 32 lanes of 32-bit words, so that a block of either kind takes
// 128 bytes per bit. Values that need all bits of their words have the base 0, and are then the words themselves. The
// last block of a column may have fewer values; in their words stands 0 for those that it lacks.
struct PackedBlock {
    uint64_t base = 0;  // added to what is unpacked, modulo 2^(8 * width); less than that
    uint32_t line = 0;  // where the words begin: lines of 64 bytes behind the first of the column
    uint32_t bits = 0;  // 0 to 8 * width, or to 64 for each plane of values of 16 bytes
};

// Values of 16 bytes are two blocks: one of their low words, then one of their high ones.
SPILLWAY_HOST_DEVICE constexpr uint32_t packed_word_bytes(uint32_t width) {
    return width >= 8 ? 8 : 4;
}
SPILLWAY_HOST_DEVICE constexpr uint32_t packed_lanes(uint32_t width) {
    return 128 / packed_word_bytes(width);
}
SPILLWAY_HOST_DEVICE constexpr uint32_t packed_planes(uint32_t width) {
    return width == 16 ? 2 : 1;
}
SPILLWAY_HOST_DEVICE constexpr uint64_t packed_bytes(uint32_t bits) {
    return uint64_t{128} * bits;
}
SPILLWAY_HOST_DEVICE constexpr bool can_pack(uint32_t width) {
    return width == 1 || width == 2 || width == 4 || width == 8 || width == 16;
}

}}  // namespace spillway::cuda::api
