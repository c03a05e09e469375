// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "coherent_join/coherent_shape.hpp"
#include "coherent_join/far_side.hpp"
#include "row_index/probe_joiner.hpp"

namespace spillway::cuda { inline namespace coherent_join {

// Rows of one partition, as far as it has them.
struct RowRange {
    uint64_t first = 0;
    uint64_t rows = ~0ULL;

    uint64_t of(uint64_t partition_rows) const {
        const uint64_t left = partition_rows - (first < partition_rows ? first : partition_rows);
        return rows < left ? rows : left;
    }
};

// Build rows that are indexed together, and the probe rows that are looked up in them: of whole partitions, or ranges
// of one whose build rows are more than a group.
struct GatheredPart {
    std::vector<uint64_t> partitions;
    RowRange build;
    RowRange probe;
    ProbeRule rule;
    bool build_marks = false;  // build rows are marked, and those follow that the result has by their marks
    bool probe_marks = false;  // probe rows are marked
    bool clears = false;       // this is the first part that marks them
    bool lone = false;         // instead of a join: probe rows that the result has by marks of the parts before
    bool waits = false;        // its partition is that of the part before
};

std::vector<GatheredPart> plan_gathered_parts(const CoherentShape& shape, const KindRules& rules, const FarSide& build,
                                              const FarSide& probe);

}}  // namespace spillway::cuda::coherent_join
