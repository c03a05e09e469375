// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "group_by/group_by.hpp"
#include "relation/device_table.hpp"

// Sums of integers in 128 bits and means of decimals: as sums of 32-bit limbs, each of which is an ordinary sum
// whatever the algorithm. 2^32 limbs fit 64 bits.
namespace spillway::cuda { inline namespace relation {

constexpr uint64_t kWideSumRowsMax = 1ULL << 32;
constexpr uint32_t kWideLimbsMax = 4;

// The limbs of 4-, 8- or 16-byte integers, columns one behind the other, the lowest first. Only the last is signed.
struct Limbs {
    Allocation memory;  // empty: values of 4 bytes are their only limb
    std::vector<DeviceColumn> columns;
};

// Enqueued on the device's stream. Throws kInvalid for other widths and for more than kWideSumRowsMax rows.
Limbs split_limbs(Device& device, const TableColumn& column, uint64_t rows);

// What a group-by found of each limb, put together.
struct LimbSums {
    const void* sums[kWideLimbsMax] = {};  // uint64_t[groups]
    uint32_t limbs = 0;
};

// Sums of 16 bytes. Waits for the device. Throws kOverflow, with the text, where one has more than 38 decimal digits.
Allocation wide_sums(Device& device, const LimbSums& sums, uint64_t groups, const char* too_large);

// Doubles: the nearest ones to the sum by the count by 10^scale. counts: uint64_t[groups]; scale: -76 to 76. Enqueued
// on the device's stream. Throws kInvalid.
Allocation wide_means(Device& device, const LimbSums& sums, const void* counts, int32_t scale, uint64_t groups);

}}  // namespace spillway::cuda::relation
