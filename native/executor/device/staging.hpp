// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/job_control.hpp"
#include "device/gpu_device.hpp"
#include "device/gpu_lane.hpp"
#include "executor/kept_pinned.hpp"
#include "memory/buffer.hpp"
#include "memory/memory_budget.hpp"

namespace spillway {

constexpr uint64_t kHalfBytesMin = 64ULL << 10;  // of staging memory: smaller copies are dominated by their start

// A call of the GPU for a job. Jobs share the device and its cancel flag: what ends because another job was aborted is
// called again once the flag is down.
template <class Call>
auto device_call(const JobControl& control, Call&& call) {
    for (;;) {
        control.check();
        try {
            return call();
        } catch (const Error& error) {
            if (error.code() != ErrorCode::kAborted) throw;
            control.check();
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

// What copies of a stage have of pinned memory: reserved once for all of its workers, of what stays pinned between
// queries first.
class StagingMemory {
  public:
    StagingMemory(KeptPinned& pinned, uint64_t bytes)
        : pinned_(pinned), reservation_(pinned.reserve(bytes, kPurpose)) {}
    StagingMemory(const StagingMemory&) = delete;

    static constexpr const char* kPurpose = "copies to and from the GPU";
    GpuDevice& device() const { return pinned_.device(); }
    MemoryBudget& budget() const { return pinned_.budget(); }

  private:
    KeptPinned& pinned_;
    PinnedReservation reservation_;
};

// A power of two, so that queries of other sizes find blocks that fit, at most the bytes wanted and at least the least
// half.
inline uint64_t half_bytes_of(uint64_t wanted_bytes) {
    return std::max(std::bit_floor(wanted_bytes), kHalfBytesMin);
}

// Pinned memory of one worker in two halves: one is filled (or read) while the copies of the other are under way. Where
// no more can be pinned it is ordinary memory, which the plugin copies through pinned blocks of its own.
class LaneStaging {
  public:
    // Uses two slots of the lane, which must outlive it.
    LaneStaging(StagingMemory& memory, GpuLane& lane, size_t first_slot, uint64_t half_bytes)
        : lane_(lane), first_slot_(first_slot), half_bytes_(half_bytes) {
        SPILLWAY_CHECK(half_bytes % kAlignBytes == 0);
        try {
            block_ = memory.device().allocate_pinned(2 * half_bytes, StagingMemory::kPurpose);
            data_ = static_cast<uint8_t*>(block_.data());
        } catch (const Error& error) {
            const bool full = error.code() == ErrorCode::kBudgetTooSmall || error.code() == ErrorCode::kOutOfMemory;
            if (!full) throw;
            pageable_ = Buffer::allocate(memory.budget(), 2 * half_bytes, StagingMemory::kPurpose);
            data_ = pageable_.data();
        }
    }
    LaneStaging(const LaneStaging&) = delete;
    ~LaneStaging() {
        try {
            wait_for_all();
        } catch (const Error&) {  // the device is lost, and writes nothing any more
        }
    }

    bool is_pinned() const { return static_cast<bool>(block_); }
    // Areas begin at the same place in so many bytes as what they are copied from or to: kernels read and write 16 at a
    // time, and packed values begin with a line.
    static constexpr uint64_t kAlignBytes = 64;
    // Room in the current half for `bytes` behind a gap, none if they do not fit. `place`: see above.
    uint8_t* take(uint64_t bytes, uint64_t place) {
        const uint64_t gap = (place - used_) % kAlignBytes;
        if (gap > left() || bytes > left() - gap) return nullptr;
        uint8_t* const room = data_ + current_ * half_bytes_ + used_ + gap;
        used_ += gap + bytes;
        return room;
    }
    uint64_t left() const { return half_bytes_ - used_; }

    // For copies from and to what was taken since the last turn.
    size_t slot() {
        used_slots_[current_] = true;
        return first_slot_ + current_;
    }
    // Makes the other half the current one, which is free of what was copied before.
    void turn() {
        current_ = 1 - current_;
        used_ = 0;
        wait(current_);
    }
    void wait_for_all() {
        wait(0);
        wait(1);
    }

  private:
    void wait(size_t index) {
        if (std::exchange(used_slots_[index], false)) lane_.wait(first_slot_ + index);
    }

    GpuLane& lane_;
    const size_t first_slot_;
    const uint64_t half_bytes_;
    PinnedBlock block_;
    Buffer pageable_;
    uint8_t* data_ = nullptr;
    std::array<bool, 2> used_slots_{};
    size_t current_ = 0;
    uint64_t used_ = 0;
};

}  // namespace spillway
