// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "hash_join/packed_match.cuh"
#include "materialize/join_output.hpp"
#include "primitive/device_relation.hpp"
#include "radix_partition/row_layout.hpp"

namespace spillway::cuda { inline namespace hash_join {

// The columns of a result and where in the rows of both sides they come from.
class JoinColumns {
  public:
    // Throws kInvalid: a column that a side has not, too many of them, the key or the presence twice.
    JoinColumns(const RowLayout& build, const RowLayout& probe, const std::vector<JoinOutputColumn>& output);

    JoinResult allocate(Device& device, uint64_t rows) const;
    void describe(const JoinResult& result, PackedOutput& output) const;
    // The data of a side's columns, in the order of MatchOutput::column[].
    void find_sources(int side, const DeviceRelation& relation, const void** sources) const;

  private:
    const RowLayout& layout_of(const JoinOutputColumn& column) const {
        return column.side == OutputSide::kBuild ? build_ : probe_;
    }
    uint32_t width_of(const JoinOutputColumn& column) const;

    const RowLayout& build_;
    const RowLayout& probe_;
    const std::vector<JoinOutputColumn>& output_;
    std::vector<size_t> order_;  // of the sides' columns: by side, then by width
};

}}  // namespace spillway::cuda::hash_join
