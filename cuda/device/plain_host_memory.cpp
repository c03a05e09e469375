// SPDX-License-Identifier: Apache-2.0
#include "device/plain_host_memory.hpp"

#include "device/host_memory.hpp"

namespace spillway::cuda { inline namespace device {

PlainHostMemory::PlainHostMemory(uint64_t bytes, int numa_node) noexcept {
    if (bytes > available_host_bytes()) return;
    void* const data = map_host_memory(bytes);
    if (data == nullptr) return;
    prefer_numa_node(data, bytes, numa_node);  // a system that does not let it choose places it by the first touch
    if (!touch_host_memory(data, bytes)) {
        unmap_host_memory(data, bytes);
        return;
    }
    data_ = data;
    bytes_ = bytes;
}

PlainHostMemory::~PlainHostMemory() {
    if (data_ != nullptr) unmap_host_memory(data_, bytes_);
}

void* PlainBacking::acquire(uint64_t bytes) {
    return PlainHostMemory(bytes, numa_node_).release();
}

void PlainBacking::release(void* data, uint64_t bytes) noexcept {
    unmap_host_memory(data, bytes);
}

}}  // namespace spillway::cuda::device
