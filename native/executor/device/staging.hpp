// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/job_control.hpp"
#include "device/gpu_device.hpp"
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
class DeviceStaging {
  public:
    DeviceStaging(StagingMemory& memory, uint64_t half_bytes) : half_bytes_(half_bytes) {
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
    DeviceStaging(const DeviceStaging&) = delete;

    uint64_t half_bytes() const { return half_bytes_; }
    uint8_t* half(size_t index) const { return data_ + index * half_bytes_; }

    // Uploads: room in the current half, which turn() makes free of what was sent before.
    uint64_t left() const { return half_bytes_ - used_; }
    uint8_t* take(uint64_t bytes) {
        SPILLWAY_CHECK(bytes <= left());
        uint8_t* const room = half(current_) + used_;
        used_ += bytes;
        return room;
    }
    // A copy from what was taken since the last turn.
    void sent(GpuTransfer transfer) { transfers_[current_].push_back(std::move(transfer)); }
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
        for (GpuTransfer& transfer : transfers_[index]) transfer.wait();
        transfers_[index].clear();
    }

    const uint64_t half_bytes_;
    PinnedBlock block_;
    Buffer pageable_;
    uint8_t* data_ = nullptr;
    // Last, so that copies have ended before their memory goes.
    std::array<std::vector<GpuTransfer>, 2> transfers_;
    size_t current_ = 0;
    uint64_t used_ = 0;
};

}  // namespace spillway
