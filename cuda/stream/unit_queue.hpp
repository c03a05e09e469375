// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "stream/copy_ring.hpp"
#include "stream/spill_store.hpp"

namespace spillway::cuda { inline namespace stream {

// Spilled rows of one side that come back for one purpose, in as many units as they take.
struct ReturningRows {
    int side = 0;
    const std::vector<FragmentRange>* ranges = nullptr;
};

// Rows that come back in one slot of the ring.
struct SpilledUnit {
    uint32_t slot = 0;
    uint64_t rows = 0;
    FragmentSet set;
};

// A unit has at most this many rows and tiles. Its bytes are limited by those of a slot of the ring.
struct UnitLimits {
    uint64_t rows = 0;
    uint64_t tiles = ~0ULL;  // of kTileRows, a piece's last one partly filled
};

// Brings rows back in the order in which they are listed, as many at a time as fit a slot. Copies run ahead by as many
// slots as there are, over the ends of lists, so that the link is never idle.
class UnitQueue {
  public:
    // rows, and what it points to, stay as they are while the queue is used.
    UnitQueue(CopyRing& ring, SpillStore& store, const UnitLimits& limits, const std::vector<ReturningRows>& rows)
        : ring_(ring), store_(store), limits_(limits), rows_(rows) {}

    // Takes as many units as there are slots; those of all units before have been emptied.
    void fetch_ahead();
    // The next unit of rows[list]; false when it has no more. The slots of all units before have been emptied.
    bool next(size_t list, SpilledUnit& unit);

  private:
    struct Filled {
        size_t list = 0;
        SpilledUnit unit;
    };
    bool find_range();
    Filled fetch();

    CopyRing& ring_;
    SpillStore& store_;
    const UnitLimits limits_;
    const std::vector<ReturningRows>& rows_;
    std::deque<Filled> filled_;
    size_t list_ = 0;
    size_t range_ = 0;
};

}}  // namespace spillway::cuda::stream
