// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/launch.hpp"
#include "out_of_core/parcels.hpp"

namespace spillway::cuda {

namespace {

// Reads each word once over the link and writes it once.
__global__ void fetch_words(const uint32_t* from, uint32_t* to, uint64_t words) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += step) {
        to[i] = from[i];
    }
}

}  // namespace

Parcels::~Parcels() {
    // The memory goes back to pools whose other users are ordered by the device's stream; pinned memory by the host.
    for (const Slot& slot : slots_) {
        try {
            slot.fetched.synchronize();
        } catch (const Error&) {  // a lost device uses nothing any more
        }
    }
}

const void* Parcels::send_bytes(const void* from, uint64_t bytes) {
    if (bytes == 0) return nullptr;
    Slot& slot = slots_[next_];
    next_ = (next_ + 1) % slots_.size();
    slot.fetched.synchronize();
    const uint64_t padded = (bytes + 3) / 4 * 4;
    if (slot.host.bytes() < padded) {
        // Half as much again, for arrays of later chunks are a little longer.
        const uint64_t room = padded + padded / 2;
        slot.host.reset();
        slot.device.reset();
        slot.host = device_.staging().allocate(room, "arrays for kernels");
        slot.device = device_.memory().allocate(room, "arrays for kernels");
    }
    std::memcpy(slot.host.as(), from, bytes);
    const uint64_t words = padded / 4;
    const auto blocks = static_cast<unsigned>(
        std::min<uint64_t>((words + kOutOfCoreThreads - 1) / kOutOfCoreThreads, device_.properties().multiprocessors));
    launch(fetch_words, dim3(blocks), dim3(kOutOfCoreThreads), 0, device_.stream(), slot.host.as<const uint32_t>(),
           slot.device.as<uint32_t>(), words);
    slot.fetched.record(device_.stream());
    return slot.device.as();
}

}  // namespace spillway::cuda
