// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "far_partition/far_partition.hpp"
#include "memory_model/coherent_memory.hpp"
#include "radix_partition/row_layout.hpp"
#include "stream/result_writer.hpp"

namespace spillway::cuda { inline namespace coherent_join {

// What the options of a coherent join come to.
struct CoherentShape : CoherentMemory {
    RowLayout rows;  // of either side
    ResultWindow columns;

    // Throws kInvalid for what cannot work.
    static CoherentShape make(const CoherentJoinSpec& spec, Device& device);

    // Second pass: rows that a page is cut into.
    uint32_t split_tile_rows(Device& device) const;
    // Tiers of pages. Near ones as wanted, or as many as the device's free memory has room for; where nobody named a
    // share of the peer's, far ones are the peer's as far as sizes and its free memory go.
    StripeShares shares(Device& device, const CoherentJoinSpec& spec, Device* peer) const;
};

FarPartitionOptions first_pass_options(const CoherentJoinSpec& spec, const DeviceProperties& properties);

}}  // namespace spillway::cuda::coherent_join
