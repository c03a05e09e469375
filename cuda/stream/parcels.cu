// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/launch.hpp"
#include "stream/parcels.hpp"

namespace spillway::cuda { inline namespace stream {

namespace {

static_assert(sizeof(uint4) == kParcelAlignBytes);

// Reads each word once over the link and writes it once.
__global__ void fetch_words(const uint4* from, uint4* to, uint64_t words) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += step) {
        to[i] = from[i];
    }
}

uint64_t padded(uint64_t bytes) {
    return (bytes + kParcelAlignBytes - 1) / kParcelAlignBytes * kParcelAlignBytes;
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

void Parcels::send_parts(const Part* parts, size_t count, const void** sent) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; ++i) bytes += padded(parts[i].bytes);
    if (bytes == 0) return;
    Slot& slot = slots_[next_];
    next_ = (next_ + 1) % slots_.size();
    slot.fetched.synchronize();
    if (slot.host.bytes() < bytes) {
        // Half as much again, for arrays of later chunks are a little longer.
        const uint64_t room = padded(bytes + bytes / 2);
        slot.host.reset();
        slot.device.reset();
        slot.host = device_.staging().allocate(room, "arrays for kernels");
        slot.device = device_.memory().allocate(room, "arrays for kernels");
    }
    uint64_t at = 0;
    for (size_t i = 0; i < count; ++i) {
        if (parts[i].bytes == 0) continue;
        std::memcpy(slot.host.as<uint8_t>() + at, parts[i].from, parts[i].bytes);
        sent[i] = slot.device.as<uint8_t>() + at;
        at += padded(parts[i].bytes);
    }
    const uint64_t words = bytes / sizeof(uint4);
    const auto blocks = static_cast<unsigned>(
        std::min<uint64_t>((words + kStreamThreads - 1) / kStreamThreads, device_.properties().multiprocessors));
    launch(fetch_words, dim3(blocks), dim3(kStreamThreads), 0, device_.stream(), slot.host.as<const uint4>(),
           slot.device.as<uint4>(), words);
    slot.fetched.record(device_.stream());
}

}}  // namespace spillway::cuda::stream
