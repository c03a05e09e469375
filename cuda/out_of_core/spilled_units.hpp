// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "out_of_core/join_state.hpp"

namespace spillway::cuda {

// Build rows that are indexed at once and the probe rows that are looked up in them.
struct SpilledPart {
    std::vector<uint64_t> partitions;
    std::vector<FragmentRange> ranges[2];
    ProbeRule rule;
    bool build_marks = false;  // build rows are marked, and those follow that the result has by their marks
    bool probe_marks = false;  // probe rows are marked
    bool clears = false;       // ... and this is the first part that marks them
    bool lone = false;         // instead of a join: probe rows that the result has by marks of the parts before
};

// Rows that come back in one slot of the ring.
struct SpilledUnit {
    size_t part = 0;
    int side = 0;
    uint32_t slot = 0;
    uint64_t rows = 0;
    FragmentSet set;
};

// Brings the rows of all parts back, build before probe rows, as many at a time as fit a slot. Copies run ahead by as
// many slots as there are, over the ends of sides and parts, so that the link is never idle.
class UnitQueue {
  public:
    UnitQueue(JoinState& state, const std::vector<SpilledPart>& parts) : state_(state), parts_(parts) {}

    // The next unit of that side of that part; false when it has no more.
    bool next(size_t part, int side, SpilledUnit& unit);

  private:
    bool find_range();
    SpilledUnit fetch();

    JoinState& state_;
    const std::vector<SpilledPart>& parts_;
    std::deque<SpilledUnit> filled_;
    size_t part_ = 0;
    int side_ = 0;
    size_t range_ = 0;
};

}  // namespace spillway::cuda
