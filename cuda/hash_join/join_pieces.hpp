// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.hpp"
#include "hash_join/hash_join.hpp"
#include "hash_join/range_counts.hpp"

namespace spillway::cuda { inline namespace hash_join {

// A join of partitions whose result comes in pieces, so that any number of rows leaves a device of any size: all
// matches are counted first, range by range of partitioned rows; a piece joins ranges that have its rows together. Rows
// that are written once each (outer, semi and anti joins) follow, from marks that the count has set.
//
// Memory: both sides' partitioned rows, a byte of marks per row where the kind of join asks, and in host memory 40
// bytes per range. Time: the count reads both sides once more; a piece that is a part of a partition reads the build
// rows of that again.
class HashJoinPieces {
  public:
    // Counts. What extent points at stays until the last piece. Throws as join_partitions.
    HashJoinPieces(Device& device, PartitionedRows build, PartitionedRows probe, std::vector<JoinOutputColumn> output,
                   const JoinExtent& extent);
    // For rows that others join, too.
    HashJoinPieces(Device& device, std::shared_ptr<const PartitionedRows> build,
                   std::shared_ptr<const PartitionedRows> probe, std::vector<JoinOutputColumn> output,
                   const JoinExtent& extent);

    uint64_t total_rows() const { return total_rows_; }
    // Behind the pieces accepted.
    uint64_t rows_left() const { return rows_left_; }

    // The next rows, at most rows_max of them, but for a limit below kPieceRowsMin, which counts as that; at least one
    // while any is left. The same rows come again until accept(): what fails for want of memory may be tried again with
    // fewer.
    JoinResult next(uint64_t rows_max);
    void accept();

  private:
    struct Counted {
        MatchRange range;
        uint64_t matches;
    };
    // Rows of one side that are written once each; the next range is the last.
    struct CountedRows {
        RowRange range;
        uint64_t rows;
    };
    struct LoneSection {
        int side = 0;
        bool marked = false;
        bool keyless = false;
        std::vector<CountedRows> left;
    };
    struct Bounds {
        std::vector<uint64_t> begin;
        std::vector<uint64_t> end;
    };

    const PartitionedRows& rows_of(int side) const { return side == 0 ? *build_ : *probe_; }
    const DeviceRelation* relation_of(int side) const { return side == 0 ? extent_.build : extent_.probe; }
    JoinSide side_of(int side) const;
    void allocate_marks();
    Bounds download_bounds(const PartitionedRows& rows) const;
    void count_pairs(const Bounds& build, const Bounds& probe);
    std::vector<Counted> counted(const std::vector<MatchRange>& ranges) const;
    std::vector<MatchRange> cut(const Counted& large, uint64_t rows_max) const;
    JoinResult next_pairs(uint64_t rows_max);

    void add_section(int side, bool marked, bool keyless, const Bounds& bounds);
    std::vector<CountedRows> counted(const LoneSection& section, const std::vector<RowRange>& ranges) const;
    JoinResult next_lone(LoneSection& section, uint64_t rows_max);
    JoinResult write_lone(const LoneSection& section, const std::vector<RowRange>& ranges, uint64_t rows) const;

    Device& device_;
    const std::shared_ptr<const PartitionedRows> build_;
    const std::shared_ptr<const PartitionedRows> probe_;
    const std::vector<JoinOutputColumn> output_;
    const JoinExtent extent_;
    Allocation marks_[2];
    std::vector<Counted> pairs_;  // that are left; the next range is the last
    std::vector<LoneSection> sections_;
    uint64_t total_rows_ = 0;
    uint64_t rows_left_ = 0;
    // These describe the piece that next() gave.
    size_t taken_ranges_ = 0;
    uint64_t taken_rows_ = 0;
    std::vector<CountedRows>* taken_from_ = nullptr;  // nullptr: pairs_
};

}}  // namespace spillway::cuda::hash_join
