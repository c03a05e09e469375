// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/device.hpp"
#include "materialize/match_output.cuh"

namespace spillway::cuda { inline namespace materialize {

// Closes the holes of an output of `rows` matches in reserved_rows rows: rows behind the `rows`-th move into the
// holes before it, all columns alike. Afterwards the first `rows` rows are the result. Moves at most the rest of one
// chunk per warp that wrote: less than 0.1 ms on an H200.
void close_holes(Device& device, const MatchOutput& out, uint32_t key_width, uint64_t rows, uint64_t reserved_rows);

}}  // namespace spillway::cuda::materialize
