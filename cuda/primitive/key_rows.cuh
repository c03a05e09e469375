// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace spillway::cuda { inline namespace primitive {

// Keys of one side.
template <class Key>
struct KeyRows {
    const Key* keys;
    const uint32_t* valid;  // nullptr: all rows have a key
    uint64_t rows;

    __device__ bool has_key(uint64_t row) const {
        return row < rows && (valid == nullptr || (__ldg(&valid[row / 32]) >> (row % 32) & 1) != 0);
    }
};

}}  // namespace spillway::cuda::primitive
