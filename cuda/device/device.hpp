// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "api/gpu_facts.hpp"
#include "device/device_policy.hpp"
#include "device/memory_pool.hpp"
#include "device/staging.hpp"
#include "device/stream.hpp"

namespace spillway::cuda { inline namespace device {

class PhaseTimes;

struct DeviceProperties : GpuFacts {
    std::string name;
    int ordinal = 0;
    int compute_minor = 0;
    int warp_threads = 0;
    int threads_per_block_max = 0;
    int threads_per_multiprocessor_max = 0;
    int blocks_per_multiprocessor_max = 0;
    int registers_per_multiprocessor = 0;
    int copy_engines = 0;
    uint64_t shared_bytes_per_block = 0;  // without opting in
    uint64_t l2_bytes = 0;
    uint64_t memory_bytes = 0;
};

// One GPU opened for work: its memory, staging memory of the host, and the stream that all its work is ordered on (see
// the hazard in memory_pool.hpp). Calls may come from any host thread, one at a time but for the pools and
// set_cancelled(); every entry makes the device current for the calling thread, as current is what a thread is and not
// what a process is. After a sticky error every entry throws and says that the process must be restarted.
class Device {
  public:
    // memory_limit_bytes: at most this much memory for blocks; 0 = all that is free now less a reserve for the driver
    // (device_policy.hpp). More than the device has is taken as what it has. staging_placement: for tests; otherwise
    // what the device asks for.
    Device(int ordinal, uint64_t memory_limit_bytes, uint64_t staging_limit_bytes = kStagingLimitBytes,
           std::optional<HostPlacement> staging_placement = std::nullopt);
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    int ordinal() const { return properties_.ordinal; }
    const DeviceProperties& properties() const { return properties_; }

    MemoryPool& memory();
    StagingPool& staging();
    cudaStream_t stream();

    void make_current();
    void synchronize();  // until all work on stream() is done; throws what a kernel did wrong
    bool usable() const noexcept { return !is_lost(properties_.ordinal); }

    // From any thread: work ends with kCancelled at its next check_cancelled() until the flag is taken back.
    void set_cancelled(bool cancelled) noexcept { cancelled_.store(cancelled, std::memory_order_relaxed); }
    const std::atomic<bool>& cancelled() const { return cancelled_; }
    void check_cancelled() const {
        if (cancelled_.load(std::memory_order_relaxed)) throw Error(ErrorCode::kCancelled, "the job was aborted");
    }

    // Who wants to know what the phases of an operation take (phase_times.hpp); nullptr: nobody.
    PhaseTimes* phase_times() const { return phase_times_; }
    void set_phase_times(PhaseTimes* listener) { phase_times_ = listener; }

  private:
    DeviceProperties properties_;
    std::unique_ptr<MemoryPool> memory_;
    std::unique_ptr<StagingPool> staging_;
    std::unique_ptr<Stream> stream_;
    std::atomic<bool> cancelled_{false};
    PhaseTimes* phase_times_ = nullptr;
};

// Blocks for a kernel whose blocks go over tiles of so many items in steps of the grid: no more than keep all
// multiprocessors busy; none for no items.
inline dim3 grid_over(const Device& device, uint64_t items, uint64_t tile_items, uint64_t blocks_per_multiprocessor) {
    const uint64_t most = static_cast<uint64_t>(device.properties().multiprocessors) * blocks_per_multiprocessor;
    const uint64_t tiles = (items + tile_items - 1) / tile_items;
    return dim3(static_cast<unsigned>(tiles < most ? tiles : most));
}

}}  // namespace spillway::cuda::device
