// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "stream/fragment_set.hpp"
#include "stream/parcels.hpp"

namespace spillway::cuda { inline namespace stream {

// Extremes of the fields of each partition's rows [begin[p], end[p]), all in device memory, into
// extremes[partition * fields + field]; all_rows: of all of them. Reads each row once per field from the caches, once
// from memory.
void find_extremes(Device& device, const CodeLayout& layout, const uint32_t* rows, const uint64_t* begin,
                   const uint64_t* end, uint64_t partitions, uint64_t all_rows, FieldExtremes* extremes);

// Packs the pieces of `set` among `rows` into set.words words at `packed`. Reads each row and writes its bits.
void pack_rows(Device& device, Parcels& parcels, const CodeLayout& layout, const uint32_t* rows, const FragmentSet& set,
               uint32_t* packed);
// The other way.
void unpack_rows(Device& device, Parcels& parcels, const CodeLayout& layout, const uint32_t* packed,
                 const FragmentSet& set, uint32_t* rows);

}}  // namespace spillway::cuda::stream
