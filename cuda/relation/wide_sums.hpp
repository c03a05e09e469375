// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "group_by/group_by.hpp"
#include "relation/device_table.hpp"

// Sums of integers in 128 bits and means of 16-byte decimals: as sums of 32-bit limbs, each of which is an ordinary sum
// whatever the algorithm. 2^32 limbs fit 64 bits.
namespace spillway::cuda {

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

// Doubles: the sum, rounded as the CPU engine does, by the count, by the unit. counts: uint64_t[groups].
// Enqueued on the device's stream.
Allocation wide_means(Device& device, const LimbSums& sums, const void* counts, double unit, uint64_t groups);

}  // namespace spillway::cuda
