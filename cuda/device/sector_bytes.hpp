// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"

// What random accesses must move, for count_moved(). GPU memory is read and written in sectors of 32 bytes, so that an
// access to a value alone moves a whole one: that granularity is part of what an algorithm has to move, while what
// caches save beyond the cases below, or fetch in vain, is not.
namespace spillway::cuda { inline namespace device {

constexpr uint64_t kSectorBytes = 32;
constexpr uint64_t kAnyOrder = ~0ULL;

// Bytes of so many accesses to values of value_bytes in an array. A sector for each access (more for wide values), but:
// - an array that fits the L2 cache is moved once at most, whatever the order of the accesses;
// - places that rise in `rising_runs` runs go over the array that many times at most, for neighbours share sectors.
inline uint64_t sector_bytes(const Device& device, uint64_t accesses, uint64_t value_bytes, uint64_t array_bytes,
                             uint64_t rising_runs = kAnyOrder) {
    const auto in_sectors = [](uint64_t bytes) { return (bytes + kSectorBytes - 1) / kSectorBytes * kSectorBytes; };
    const uint64_t each = accesses * in_sectors(value_bytes);
    if (array_bytes == 0) return each;
    const uint64_t whole = in_sectors(array_bytes);
    const uint64_t runs = array_bytes <= device.properties().l2_bytes ? 1 : rising_runs;
    return runs > each / whole ? each : runs * whole;
}

}}  // namespace spillway::cuda::device
