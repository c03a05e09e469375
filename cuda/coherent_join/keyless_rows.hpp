// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "far_partition/far_partition.hpp"

namespace spillway::cuda { inline namespace coherent_join {

// Writes the rows of a chunk that have no key, as [0][payload], to pages, one behind the other from the first page on:
// partitioners leave them out. Returns how many there are; those that find no page are not written. Waits for the
// device. Reads the bitmap of the chunk and the payloads of such rows.
uint64_t write_keyless_rows(Device& device, const FarRelation& chunk, const FarPages& pages);

}}  // namespace spillway::cuda::coherent_join
