// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <mutex>
#include <utility>

#include "device/error.hpp"
#include "plugin/functions.hpp"
#include "plugin/handles.hpp"
#include "tier/page_pool.hpp"

namespace spillway::cuda { inline namespace plugin {

namespace {

bool reaches(int ordinal, int other) {
    int yes = 0;
    SPILLWAY_CUDA_CHECK(cudaDeviceCanAccessPeer(&yes, ordinal, other));
    return yes != 0;
}

// The first device that this one reaches and that reaches it, for the copy engines of either may do the work; -1: there
// is none.
int first_peer(int ordinal) {
    int count = 0;
    SPILLWAY_CUDA_CHECK(cudaGetDeviceCount(&count));
    for (int other = 0; other < count; ++other) {
        if (other != ordinal && reaches(ordinal, other) && reaches(other, ordinal)) return other;
    }
    return -1;
}

}  // namespace

void open_peer(spillway_cuda_gpu* gpu, int32_t ordinal, uint64_t memory_limit_bytes, uint64_t* peer_bytes,
               spillway_cuda_status* status) {
    *peer_bytes = 0;
    guarded(status, [&] {
        const std::lock_guard<std::mutex> lock(gpu->mutex);
        require(gpu->peer == nullptr, "a GPU has one peer");
        const int own = gpu->device.ordinal();
        const int other = ordinal < 0 ? first_peer(own) : ordinal;
        if (other < 0) return;
        auto peer = std::make_unique<Device>(other, memory_limit_bytes);
        if (other != own) {
            enable_peer_access(*peer, gpu->device);
            enable_peer_access(gpu->device, *peer);
        }
        gpu->device.make_current();
        *peer_bytes = peer->memory().limit_bytes();
        gpu->peer = std::move(peer);
    });
}

}}  // namespace spillway::cuda::plugin
