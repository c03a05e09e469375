// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Memory of the system without any CUDA, so that it is tested on machines without a GPU.

namespace spillway::cuda { inline namespace device {

// Fresh anonymous memory that begins at a multiple of 2 MiB, in huge pages where the system has them; nullptr: there is
// none. Nothing is backed by pages yet. Processes that are forked do not get it: a device that writes into pages which
// a fork has shared would write into the wrong ones, and copying them would make each fork as slow as all of this.
void* map_host_memory(uint64_t bytes) noexcept;
void unmap_host_memory(void* data, uint64_t bytes) noexcept;  // all that one call of the above has mapped

// First touch: gives every page of fresh memory its backing, on several threads, as clearing pages is what it costs.
// False: the system has no more, and some pages are without.
bool touch_host_memory(void* data, uint64_t bytes) noexcept;

// Before the first touch: the pages come from this NUMA node while it has any, and then from others, as a process that
// insisted on one full node would be ended. False: the system does not let it choose, and nothing has changed.
bool prefer_numa_node(void* data, uint64_t bytes, int node) noexcept;

// What the system could give without ending processes; the largest number if it does not say. For asking first:
// touching more than there is does not fail, it ends this process or another one.
uint64_t available_host_bytes() noexcept;

}}  // namespace spillway::cuda::device
