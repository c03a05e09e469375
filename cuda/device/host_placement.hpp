// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/plain_host_memory.hpp"

namespace spillway::cuda { inline namespace device {

// An attribute of the driver API, asked for at run time, as the plugin links no driver library; `otherwise` where the
// driver does not know it. The number of a CUdevice_attribute: older toolkits lack the names of some.
int driver_attribute(int attribute, int ordinal, int otherwise);

// The node of the host's memory that is nearest to the GPU, -1: the system does not tell nodes apart, or the driver is
// too old to say.
int nearest_host_numa_node(int ordinal);

// The same for calls that want a node: 0 where the system knows none, as all of its memory is node 0 then.
int host_numa_node(int ordinal);

// What the device asks for.
HostPlacement host_placement_of(int ordinal);

}}  // namespace spillway::cuda::device
