// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "coherent_join/coherent_policy.hpp"
#include "device/device.hpp"
#include "stream/copy_rows.hpp"

namespace spillway::cuda { inline namespace coherent_join {

// Brings rows from pages of any memory into the device's, by a kernel on a stream of its own, while the device's stream
// joins what came before.
class RowGatherer {
  public:
    // grid: blocks at most. alone: each has its multiprocessor for itself.
    RowGatherer(Device& device, uint32_t grid, bool alone);
    // Waits for the copies.
    ~RowGatherer();
    RowGatherer(const RowGatherer&) = delete;
    RowGatherer& operator=(const RowGatherer&) = delete;

    // Copies rows counted from `from` to rows counted from `to`, behind all that is on the device's stream now. Returns
    // a ticket for wait_on_device(), which must come before kUnitsAhead + 1 further calls.
    uint32_t gather(const char* from, uint32_t* to, uint32_t row_words, const std::vector<RowCopy>& copies);
    // Later work on the device's stream begins when the rows are there.
    void wait_on_device(uint32_t ticket);
    // Returns how long the copies took by the clock of their stream, and waits for them.
    std::vector<PhaseTimer::Phase> milliseconds() { return timer_.milliseconds(); }

  private:
    struct Slot {
        PinnedBlock host;
        Allocation device;
        Event gathered;
    };
    const RowCopy* send(Slot& slot, const std::vector<RowCopy>& copies);

    Device& device_;
    const uint32_t grid_;
    const uint64_t shared_bytes_;
    Stream stream_{StreamPriority::kUrgent};
    Event joint_;
    PhaseTimer timer_;
    std::array<Slot, kUnitsAhead + 1> slots_;
    uint32_t next_ = 0;
};

}}  // namespace spillway::cuda::coherent_join
