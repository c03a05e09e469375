// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "device/error.hpp"
#include "plugin/functions.hpp"
#include "plugin/handles.hpp"
#include "tier/page_pool.hpp"
#include "tier/tier_policy.hpp"

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

// Bytes per millisecond, the best of a few times.
double copy_rate(Device& device, const Allocation& to, const Allocation& from) {
    double best = 0;
    for (int trial = 0; trial < kPeerTrials; ++trial) {
        Event begin(EventTiming::kOn);
        Event end(EventTiming::kOn);
        begin.record(device.stream());
        for (int i = 0; i < kPeerCopies; ++i) {
            SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(to.as(), from.as(), to.bytes(), cudaMemcpyDefault, device.stream()));
        }
        end.record(device.stream());
        end.synchronize();
        const double ms = end.milliseconds_since(begin);
        if (ms > 0) best = std::max(best, static_cast<double>(kPeerCopies * to.bytes()) / ms);
    }
    return best;
}

// Nothing is told where one of them has too little memory for that.
void measure(Device& device, Device& other, spillway_cuda_peer* peer) {
    const uint64_t most = std::min(device.memory().free_bytes(), other.memory().free_bytes()) / 2;
    const uint64_t bytes = std::min(kPeerTrialBytes, most);
    if (bytes < kPeerTrialBytesMin) return;
    try {
        constexpr char kPurpose[] = "copies that are timed";
        const Allocation there = other.memory().allocate(bytes, kPurpose);
        // Bytes that nobody wrote may be copied, but tools that look for such reads cannot know that it does no harm.
        other.make_current();
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(there.as(), 0, bytes, other.stream()));
        device.make_current();
        order_behind_peer(other, device, device.stream());
        const Allocation here = device.memory().allocate(bytes, kPurpose);
        peer->read_bytes_per_ms = copy_rate(device, here, there);
        peer->write_bytes_per_ms = copy_rate(device, there, here);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::kOutOfMemory) throw;
    }
    for (Device* const one : {&other, &device}) {
        one->memory().trim();
        one->memory().reset_peak();
    }
    device.make_current();
}

}  // namespace

void open_peer(spillway_cuda_gpu* gpu, int32_t ordinal, uint64_t memory_limit_bytes, spillway_cuda_peer* peer,
               spillway_cuda_status* status) {
    *peer = {};
    guarded(status, [&] {
        const std::lock_guard<std::mutex> lock(gpu->mutex);
        require(gpu->peer == nullptr, "a GPU has one peer");
        const int own = gpu->device.ordinal();
        const int ordinal_there = ordinal < 0 ? first_peer(own) : ordinal;
        if (ordinal_there < 0) return;
        auto other = std::make_unique<Device>(ordinal_there, memory_limit_bytes);
        enable_peer_access(*other, gpu->device);
        enable_peer_access(gpu->device, *other);
        gpu->device.make_current();
        measure(gpu->device, *other, peer);
        peer->memory_bytes = other->memory().limit_bytes();
        gpu->peer = std::move(other);
    });
}

}}  // namespace spillway::cuda::plugin
