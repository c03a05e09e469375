// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/spill_disk.hpp"

#include <utility>

namespace spillway {

namespace {

// As many as the plugin's threads that write (kDiskThreads in cuda/out_of_core/out_of_core_policy.hpp).
constexpr int kShards = 4;

// Extents begin at whole pages, which have 4 KiB at least: the bits below are the shard's.
static_assert(SpillFile::kShardsMax <= 4096);
constexpr uint64_t kShardMask = 4095;

}  // namespace

SpillDisk::SpillDisk(std::shared_ptr<SpillSpace> space, JobControl& control)
    : file_(std::move(space), control, kShards) {}

uint64_t SpillDisk::write(const void* data, uint64_t bytes) {
    const uint64_t writer = writes_.fetch_add(1, std::memory_order_relaxed);
    const SpillFile::Position position = file_.write({{data, bytes}}, writer);
    return static_cast<uint64_t>(position.offset) | position.shard;
}

void SpillDisk::read(uint64_t at, uint64_t offset, void* data, uint64_t bytes) {
    const auto begin = static_cast<int64_t>((at & ~kShardMask) + offset);
    file_.read({begin, static_cast<uint8_t>(at & kShardMask)}, data, bytes);
}

}  // namespace spillway
