// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "coherent_join/coherent_shape.hpp"
#include "coherent_join/far_side.hpp"
#include "device/device.hpp"
#include "hash_join/region_sums.hpp"
#include "radix_partition/plan_regions.hpp"
#include "radix_partition/radix_partition.hpp"
#include "stream/parcels.hpp"
#include "stream/stream_operator.hpp"

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

  private:
    Device& device_;
    const uint64_t numbers_;
    const int bits_;
    Regions regions_;
    std::vector<uint64_t> first_;  // where the regions of a partition begin if those of all follow each other
};

// Second pass and join of counts and sums, as the Triton join has them (its sections 4.1 and 5.2), each on a share of
// the multiprocessors: on one stream rows of a group of partitions are read from their pages, near or far, and
// partitioned once more; on the other those of the group before are joined in shared memory. Rows of far pages come by
// bulk copies into the shared memory of the blocks that partition them, so that they are nowhere in between. Bytes of
// GPU memory, per row of t bytes: second pass t written, join t read, and t read of near pages. A third pass, of the
// partitions that have regions of far more build rows than a block has room for, reads t twice and writes it once. What
// that leaves too large has few keys: a block joins it piece by piece.
class SecondPassJoin {
  public:
    // split_counts: [2][partitions << split_bits] rows of both sides, which the first pass has counted.
    SecondPassJoin(Device& device, const CoherentJoinSpec& spec, const CoherentShape& shape, const char* base,
                   const FarSide& build, const FarSide& probe, const uint64_t* split_counts);
    // Waits for the second pass.
    ~SecondPassJoin();
    SecondPassJoin(const SecondPassJoin&) = delete;
    SecondPassJoin& operator=(const SecondPassJoin&) = delete;

    // Adds rows, sums and bytes to the report.
    void run(StreamReport& report);
    // "partition" on the one stream, "wait" and "join" on the other, "large partitions" and "third pass" beside them.
    StageTimes stages();

  private:
    // Neighbouring partitions that are joined together; rows of those that have some on both sides.
    struct Unit {
        uint64_t first = 0;
        uint64_t partitions = 0;
        uint64_t rows[2] = {};
    };
    // What move_split() gets: a region for each page.
    struct Input {
        std::vector<uint64_t> begin;
        std::vector<uint64_t> end;
        std::vector<uint64_t> parent;
        std::vector<uint64_t> first_tile = {0};
        uint64_t rows = 0;
    };

    // Regions of one side in the first slot, or behind a third pass in the second one.
    struct Split {
        Regions regions;
        Allocation counts;
    };

    bool has_both(uint64_t partition) const;
    std::vector<uint64_t> largest_regions() const;
    // Bits of a third pass where build regions have so many rows; 0: there is none.
    int third_bits(uint64_t region_rows) const;
    void check_counts(uint64_t partition) const;
    void plan_units();
    std::vector<uint64_t> places() const;
    // blocks, multiprocessors: at most; 0: all.
    void split(const Unit& unit, uint32_t slot, uint32_t blocks);
    void join(const Unit& unit, uint32_t slot, uint32_t multiprocessors);
    // A partition with regions that a third pass splits.
    void join_deep(const Unit& unit);
    // A partition that is larger than a group.
    void join_large(uint64_t partition);
    Split split_part(const std::vector<RowPiece>& pieces, int side, int more);
    // Third pass: regions of one side of a partition, counts[1 << bits_] rows each, go from the first slot to the
    // second one.
    Split split_again(const RegionRows& from, const uint64_t* counts, int bits, int side);

    void add(Input& input, const std::vector<RowPiece>& pieces, uint64_t parent) const;
    // In device memory when the device's stream comes there.
    RowRegions send(const Input& input);
    uint32_t* slot_rows(uint32_t slot, int side) const;

    Device& device_;
    const CoherentShape shape_;
    const char* const base_;
    const FarSide* const sides_[2];
    const bool gives_sums_;
    const bool perfect_;  // regions are joined by arrays
    const int done_;      // radix bits of the first pass
    const int bits_;      // of the second one
    const uint32_t tile_rows_;
    const uint64_t* const split_counts_;
    const uint32_t blocks_;       // blocks of the second pass while others join; 0: as many as there is room for
    const uint32_t join_blocks_;  // blocks of the join; 0: as many as fill all multiprocessors
    Parcels parcels_;
    RegionPlaces regions_;
    Allocation split_rows_;  // kSecondPassSlots groups of both sides
    RegionSums sums_;
    Stream stream_{StreamPriority::kUrgent};
    Event joint_;
    std::array<Event, kSecondPassSlots> split_;
    PhaseTimer split_timer_;
    PhaseTimer timer_;
    std::vector<Unit> units_;
    std::vector<Unit> deep_;       // of one partition each
    std::vector<uint64_t> large_;  // partitions
    std::vector<uint64_t> largest_;
    uint64_t far_rows_ = 0;  // that were read
};

}}  // namespace spillway::cuda::coherent_join
