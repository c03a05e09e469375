// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/job_control.hpp"
#include "device/gpu_stream.hpp"
#include "memory/spill_file.hpp"

namespace spillway {

// The spill files of a job, as the storage of an operation out of core: what the CPU engine's spilled rows are kept in.
class SpillDisk final : public GpuSpillDisk {
  public:
    // Throws as SpillFile.
    SpillDisk(std::shared_ptr<SpillSpace> space, JobControl& control) : file_(std::move(space), control, kShards) {}

    uint64_t write(const void* data, uint64_t bytes) override {
        const uint64_t writer = writes_.fetch_add(1, std::memory_order_relaxed);
        const SpillFile::Position position = file_.write({{data, bytes}}, writer);
        return static_cast<uint64_t>(position.offset) | position.shard;
    }
    void read(uint64_t at, uint64_t offset, void* data, uint64_t bytes) override {
        const auto begin = static_cast<int64_t>((at & ~kShardMask) + offset);
        file_.read({begin, static_cast<uint8_t>(at & kShardMask)}, data, bytes);
    }

  private:
    // As many as the plugin's threads that write (kDiskThreads in cuda/stream/stream_policy.hpp).
    static constexpr int kShards = 4;
    // Extents begin at whole pages, which have 4 KiB at least: the bits below are the shard's.
    static constexpr uint64_t kShardMask = 4095;
    static_assert(SpillFile::kShardsMax <= 4096);

    SpillFile file_;
    std::atomic<uint64_t> writes_{0};
};

}  // namespace spillway
