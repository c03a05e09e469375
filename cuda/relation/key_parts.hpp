// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "relation/key_columns.hpp"
#include "relation/relation_policy.hpp"

namespace spillway::cuda { inline namespace relation {

// A key column as kernels see it.
struct PartView {
    const uint8_t* values = nullptr;
    const uint64_t* offsets = nullptr;  // kBytes
    const uint32_t* valid = nullptr;
    uint32_t from_width = 0;  // of the column's values
    uint32_t width = 0;       // normalized; kBytes: 0
    KeyPartKind kind = KeyPartKind::kSigned;
};

// The key columns of one side.
struct KeyView {
    uint64_t rows = 0;
    int parts = 0;
    bool nulls_equal = false;
    PartView part[kKeyPartsMax];
};

// Keys as numbers of rows, see number_keys.cu.
struct NumberedKeys {
    Allocation numbers;
    Allocation found;  // of the probe side: a bit per row, 1 = the build side has the key
};
struct NumberedSides {
    uint32_t width = 4;  // of the numbers
    NumberedKeys build;
    NumberedKeys probe;
};
// probe: nullptr for a group-by.
NumberedSides number_keys(Device& device, const KeyView& build, const KeyView* probe, const KeyOptions& options);

}}  // namespace spillway::cuda::relation
