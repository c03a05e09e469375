// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "materialize/match_output.cuh"
#include "materialize/row_list.hpp"

namespace spillway::cuda { inline namespace materialize {

// Rows of 1, 2, 4 or 8 words in device memory, of which each has a value of several columns (column_packs.hpp).
struct PackedRows {
    const uint32_t* rows = nullptr;
    uint32_t words = 0;
};

// Which rows of a result have a row of the side: those with a bit of `mask` in their presence; nullptr: all.
struct PresentRows {
    const uint8_t* presence = nullptr;
    uint8_t mask = 0;
};

// Values of the rows that `places` names, into columns of places.count values each; 0 where the row is missing. A
// column's offset is that of its field in a row. Bytes per value row: its place, the presence if there is one, a row of
// the pack, and the columns. Rows of 32 bytes are a sector each in any order; whether they come from the L2 cache is up
// to the order of the places.
void gather_packs(Device& device, const PackedRows& pack, const RowNumbers& places,
                  const std::vector<MatchColumn>& columns, const PresentRows& present);

}}  // namespace spillway::cuda::materialize
