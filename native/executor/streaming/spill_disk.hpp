// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/error.hpp"
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

// The way to disk of a job's operators. Plans always have one, and most queries never take it: where the spill folder
// cannot be used, that matters to those alone that run out of host memory, and their error says so.
class SpillWay {
  public:
    SpillWay(std::shared_ptr<SpillSpace> space, JobControl& control) : space_(std::move(space)), control_(control) {}

    // A disk for one operator; nullptr: there is none. disk_blocks: of its plan.
    std::unique_ptr<SpillDisk> open(uint32_t disk_blocks) {
        if (space_ == nullptr || disk_blocks == 0) return nullptr;
        if (space_->directory().empty()) {
            why_none_ = std::string("there is no folder for spill files; set ") + kOption + " to one";
            return nullptr;
        }
        try {
            return std::make_unique<SpillDisk>(space_, control_);
        } catch (const Error& error) {
            if (error.code() != ErrorCode::kInvalidArgument) throw;
            why_none_ = error.message();
            return nullptr;
        }
    }

    // What ended the job; of host memory for spilled rows, with why disk took none of them.
    Error told(const Error& error) const {
        if (why_none_.empty() || error.message().rfind(cuda::kSpilledRows, 0) != 0) return error;
        auto details = error.details();
        details.emplace_back("otherOption", kOption);
        return Error(error.code(), error.message() + "; or let them go to disk: " + why_none_, std::move(details));
    }

  private:
    static constexpr const char* kOption = "memory.spillDirectory";

    const std::shared_ptr<SpillSpace> space_;
    JobControl& control_;
    std::string why_none_;
};

}  // namespace spillway
