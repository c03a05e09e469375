// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "api/join_spec.hpp"
#include "device/device.hpp"
#include "equi_join/equi_join_policy.hpp"
#include "hash_join/join_pieces.hpp"
#include "materialize/join_output.hpp"
#include "primitive/device_relation.hpp"
#include "radix_partition/column_packs.hpp"

// The radix hash join of relations of any width. Rows of a few words are moved whole in every pass (hash_join). Wider
// ones are split: keys are partitioned in all radix bits, with the places of their rows in packs of columns that the
// first pass has partitioned (column_packs.hpp). The join gives places, by which packs are gathered: clustered, as the
// result follows the order of the partitions.
// Bytes per row of c bytes of columns and a 4-byte key, in a join where each row has one match: 6 c + 24 whole, in two
// passes; 4 c + 48 by packs.
namespace spillway::cuda { inline namespace equi_joins {

struct RadixJoinWish {
    JoinKind kind;
    std::vector<JoinOutputColumn> output;
    int radix_bits = -1;         // -1: as many as fit shared memory, and packs the L2 cache
    uint32_t row_words_max = 0;  // of rows that are moved whole; 0: what policy says
    // Probe rows from which on rows without a partner are looked for, and few that have one gathered
    // (range_filter.hpp).
    uint64_t filter_rows_min = kRangeFilterRowsMin;
    uint64_t gathered_rows_min = kGatheredRowsMin;
};

// One side, ready to be joined.
struct RadixJoinSide {
    PartitionedRows rows;  // whole ones; else of keys and places, and `packed` has the rest
    bool is_packed = false;
    PackedRelation packed;
    DeviceRelation by_place;
};

// A column of a result with places in it.
struct PlacedOutput {
    std::vector<JoinOutputColumn> columns;  // what the join of keys is asked for
    std::vector<int> column_of;             // of each wished one; -1: it comes from a pack
    int places[2] = {-1, -1};               // of the sides
    int presence = -1;
};

class RadixHashJoin {
  public:
    RadixHashJoin(Device& device, const DeviceRelation& build, const DeviceRelation& probe, const RadixJoinWish& wish);
    RadixHashJoin(const RadixHashJoin&) = delete;
    RadixHashJoin& operator=(const RadixHashJoin&) = delete;

    // Once: partitions and packs go as soon as nothing reads them any more.
    JoinResult materialize(uint64_t expected_rows, OutputPlan plan);
    uint64_t count() const;

    // The partitioned rows go to the pieces, the packs stay here.
    HashJoinPieces pieces();
    // A result of the pieces, with the columns that were wished for.
    JoinResult finish(JoinResult piece);

  private:
    // pads: rows that are faster with another word get one.
    RadixJoinSide whole_side(const DeviceRelation& relation, int bits, bool pads) const;
    RadixJoinSide packed_side(const DeviceRelation& relation, int bits, bool keeps_keyless) const;
    void plan_output();
    // is_last: packs go when they have been read.
    JoinResult gather(JoinResult joined, bool is_last);
    void gather_side(int side, const ColumnPack& pack, const JoinResult& joined, JoinResult& result);

    Device& device_;
    const RadixJoinWish wish_;
    const DeviceRelation* relations_[2];
    RadixJoinSide sides_[2];
    PlacedOutput output_;
    JoinExtent extent_;
};

// A result in pieces, see HashJoinPieces.
class RadixJoinPieces {
  public:
    explicit RadixJoinPieces(std::unique_ptr<RadixHashJoin> join) : join_(std::move(join)), pieces_(join_->pieces()) {}

    uint64_t total_rows() const { return pieces_.total_rows(); }
    uint64_t rows_left() const { return pieces_.rows_left(); }
    JoinResult next(uint64_t rows_max) { return join_->finish(pieces_.next(rows_max)); }
    void accept() { pieces_.accept(); }

  private:
    std::unique_ptr<RadixHashJoin> join_;
    HashJoinPieces pieces_;
};

}}  // namespace spillway::cuda::equi_joins
