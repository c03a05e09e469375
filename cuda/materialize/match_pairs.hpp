// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "device/device.hpp"
#include "materialize/join_output.hpp"
#include "primitive/device_relation.hpp"

// Joins that find pairs of row numbers first and fetch columns afterwards: one access per value of the result. The
// relations may be the inputs (GFUR, row numbers at random) or copies in the order of the join (GFTR, row numbers that
// rise, whose accesses share sectors).
namespace spillway::cuda { inline namespace materialize {

// What a finder of matches shall find. Marks: a bit per row number of that side in whole 32-bit words, zeroed by the
// caller; 1 = the row has a partner; nullptr: not wanted.
struct MatchWish {
    bool pairs = true;
    uint32_t* build_marks = nullptr;
    uint32_t* probe_marks = nullptr;
    bool keys = false;  // with the pairs, where the finder has them at hand
};

struct MatchPairs {
    uint64_t count = 0;  // of the pairs; may be 0 where marks alone were wished
    uint32_t build_width = 4;
    uint32_t probe_width = 4;  // bytes of a row number, 4 or 8
    Allocation build_rows;     // [count], a pair per place; empty where pairs were not wished
    Allocation probe_rows;
    Allocation keys;     // [count] of the pairs, of the relations' key width; empty: they are gathered
    bool rises = false;  // row numbers of both sides rise, but for the order of tiles: gathers go over columns once
};

// Makes a column of a side, or (kKey) that side's key, when it is about to be gathered, for joins that put one column
// at a time into their order. The column is used until the next call. The relations then tell widths alone.
using ColumnMaker = std::function<DeviceColumn(int side, const JoinOutputColumn& column)>;

// The result of a join of any kind. Asks `match` once, for no more than the kind needs: pairs (inner), pairs and marks
// (outer), marks of one side (semi, anti). Row numbers are those of `build` and `probe` as given here. Waits for the
// device where there are marks to count. Throws kInvalid for columns that a side has not.
JoinResult materialize_pairs(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                             const JoinKind& kind, const std::vector<JoinOutputColumn>& output,
                             const std::function<MatchPairs(const MatchWish&)>& match,
                             const ColumnMaker& make_column = nullptr);

// Rows of that result. Asks for the number of pairs alone (a wish for nothing), for marks alone, or for each in turn.
uint64_t count_pairs(Device& device, const DeviceRelation& build, const DeviceRelation& probe, const JoinKind& kind,
                     const std::function<MatchPairs(const MatchWish&)>& match);

}}  // namespace spillway::cuda::materialize
