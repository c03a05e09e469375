// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace spillway::cuda { inline namespace primitive {

// A column in device memory, at a multiple of 16 bytes; data nullptr: the row's number, of 4 or 8 bytes.
struct DeviceColumn {
    const void* data = nullptr;
    uint32_t width = 4;  // bytes: 1, 2, 4, 8 or 16
};

struct DeviceRelation {
    uint64_t rows = 0;
    DeviceColumn key;                     // 4 or 8 bytes; equal keys have equal bytes
    const uint32_t* key_valid = nullptr;  // a bit per row, 1 = has a key; rows without are left out; nullptr: all have
    std::vector<DeviceColumn> columns;    // carried along
};

// Bits [begin, end) of keys, outside of which all keys of a set agree. Order by these bits is order by the whole key,
// and each 8 bits that need not be looked at save a pass of a radix sort.
struct KeyBits {
    int begin = 0;
    int end = 1;  // above begin
};

}}  // namespace spillway::cuda::primitive
