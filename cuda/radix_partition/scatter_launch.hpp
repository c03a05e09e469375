// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/device.hpp"
#include "radix_partition/regions.hpp"

namespace spillway::cuda { inline namespace radix_partitioning {

// One pass, enqueued on the device's stream: the first one from columns, later ones from rows in regions.
void launch_scatter_columns(Device& device, const ScatterPass& pass, const RowLayout& layout);
void launch_scatter_rows(Device& device, const ScatterPass& pass, const RowLayout& layout);

}}  // namespace spillway::cuda::radix_partitioning
