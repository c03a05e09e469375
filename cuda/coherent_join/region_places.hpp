// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "radix_partition/plan_regions.hpp"
#include "stream/parcels.hpp"

namespace spillway::cuda { inline namespace coherent_join {

// Regions of a second pass, 2^bits of each partition of the first one, of both sides: partition p of the probe side is
// number partitions + p. All are known before the second pass begins, as the first one has counted their rows, so that
// a group of partitions takes no histogram and no prefix sums of its own.
class RegionPlaces {
  public:
    // counts: [2 * partitions << bits] in device memory. Waits for the device's stream.
    RegionPlaces(Device& device, const uint64_t* counts, uint64_t partitions, int bits);

    // Rows of the regions of a partition, all rounded up to whole groups of kRegionAlignRows.
    uint64_t padded_rows(uint64_t number) const { return first_[number + 1] - first_[number]; }

    // first[number]: the row where the regions of that partition are to begin, in whatever memory they are moved to.
    void place(Parcels& parcels, const std::vector<uint64_t>& first);

    const uint64_t* begin(uint64_t number) const { return regions_.begin.as<const uint64_t>() + (number << bits_); }
    const uint64_t* end(uint64_t number) const { return regions_.end.as<const uint64_t>() + (number << bits_); }
    uint64_t* front() const { return regions_.front.as<uint64_t>(); }
    uint64_t* back() const { return regions_.back.as<uint64_t>(); }

    // GPU memory of counts and regions.
    static uint64_t memory_bytes(uint64_t partitions, int bits) {
        return 2 * (6 * (partitions << bits) + partitions + 1) * sizeof(uint64_t);
    }

  private:
    Device& device_;
    const uint64_t numbers_;
    const int bits_;
    Regions regions_;
    std::vector<uint64_t> first_;  // where the regions of a partition begin if those of all follow each other
};

}}  // namespace spillway::cuda::coherent_join
