// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "coherent_join/coherent_shape.hpp"
#include "coherent_join/far_side.hpp"
#include "coherent_join/row_gatherer.hpp"
#include "hash_join/region_sums.hpp"
#include "out_of_core/parcels.hpp"
#include "radix_partition/plan_regions.hpp"

namespace spillway::cuda {

// Second pass and join of counts and sums, as the Triton join has them (its sections 4.1 and 5.2): rows of both sides
// of a group of partitions are gathered into GPU memory on one stream, while the other partitions those of the group
// before once more and joins them in shared memory. Of GPU memory, per row of t bytes: gathered t written, histogram t
// read, second pass t read and t written, join t read: 5 t, where looking rows up in an index in GPU memory takes
// sectors of 32 bytes that share nothing with those of other rows.
class SecondPassStage {
  public:
    SecondPassStage(Device& device, const CoherentSpec& spec, const CoherentShape& shape, const char* base,
                    const FarSide& build, const FarSide& probe);

    // Adds rows, sums and bytes to the report.
    void run(OutOfCoreReport& report);
    StageTimes stages();

  private:
    // Rows that are joined together: of whole partitions, or a range of one that is larger than a group.
    struct Unit {
        std::vector<uint64_t> partitions;
        uint64_t first[2] = {};
        uint64_t rows[2] = {~0ULL, ~0ULL};
        bool keeps_build = false;  // of the unit before, which is of the same build rows
        uint32_t ticket = 0;
        std::vector<uint64_t> words[2];  // RowRegions of each side, one array behind the other
        uint64_t count[2] = {};          // rows
    };

    void plan_units();
    void plan_large(uint64_t partition);
    void gather(Unit& unit, uint32_t slot);
    void list(Unit& unit, int side, std::vector<RowCopy>& copies);
    void use(Unit& unit, uint32_t slot);
    void split(const Unit& unit, int side, uint32_t slot);
    uint64_t regions(const Unit& unit) const { return unit.partitions.size() << bits_; }
    uint32_t* gathered(uint32_t slot, int side) const;

    Device& device_;
    const CoherentShape shape_;
    const char* const base_;
    const FarSide* const sides_[2];
    const bool gives_sums_;
    const int done_;  // radix bits of the first pass
    const int bits_;  // of the second one
    const uint64_t tile_rows_;
    Parcels parcels_;
    Allocation gathered_;  // kSecondPassSlots groups of both sides
    Allocation split_rows_[2];
    Regions split_[2];
    uint64_t split_count_[2] = {};
    RowGatherer gatherer_;
    RegionSums sums_;
    PhaseTimer timer_;
    std::vector<Unit> units_;
    uint64_t far_rows_ = 0;  // that were read
};

}  // namespace spillway::cuda
