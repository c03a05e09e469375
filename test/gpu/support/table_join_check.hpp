// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "gpu_test.hpp"
#include "relation/join_tables.hpp"
#include "support/key_cases.hpp"
#include "support/reference_join.hpp"
#include "support/test_table.hpp"

// Joins of whole tables against the reference join.
namespace spillway::gpu_test {

using cuda::JoinEmit;
using cuda::JoinKind;
using cuda::OwnedTableJoin;
using cuda::TableJoinColumn;
using cuda::TableSide;

constexpr JoinKind kAllJoinKinds[] = {
    {JoinEmit::kPairs, false, false, false},     {JoinEmit::kPairs, false, true, false},
    {JoinEmit::kPairs, false, false, true},      {JoinEmit::kPairs, false, true, true},
    {JoinEmit::kBuildOnce, false, false, false}, {JoinEmit::kBuildOnce, true, false, false},
    {JoinEmit::kProbeOnce, false, false, false}, {JoinEmit::kProbeOnce, true, false, false}};

inline std::string text_of_kind(const JoinKind& kind) {
    if (kind.emit != JoinEmit::kPairs) {
        return std::string(kind.anti ? "anti, " : "semi, ") + (kind.emit == JoinEmit::kBuildOnce ? "build" : "probe");
    }
    return std::string("pairs") + (kind.keep_unmatched_build ? ", unmatched build" : "") +
           (kind.keep_unmatched_probe ? ", unmatched probe" : "");
}

// Build row, probe row; kNoRow where a side has none.
inline std::vector<std::pair<uint64_t, uint64_t>> expected_pairs(const HostTable& build, const HostTable& probe,
                                                                 const OwnedTableJoin& join) {
    const HostTable build_keys = reference_keys(build, join.build_keys, join.nulls_equal);
    const HostTable probe_keys = reference_keys(probe, join.probe_keys, join.nulls_equal);
    const auto columns = all_of(build_keys);
    const JoinKind& kind = join.kind;
    if (kind.emit == JoinEmit::kPairs) {
        const JoinType type = kind.keep_unmatched_build && kind.keep_unmatched_probe ? JoinType::kFull
                              : kind.keep_unmatched_build                            ? JoinType::kLeft
                              : kind.keep_unmatched_probe                            ? JoinType::kRight
                                                                                     : JoinType::kInner;
        return reference_pairs(build_keys, probe_keys, columns, columns, type);
    }
    const JoinType type = kind.anti ? JoinType::kAnti : JoinType::kSemi;
    if (kind.emit == JoinEmit::kBuildOnce) return reference_pairs(build_keys, probe_keys, columns, columns, type);
    auto pairs = reference_pairs(probe_keys, build_keys, columns, columns, type);
    for (auto& pair : pairs) std::swap(pair.first, pair.second);
    return pairs;
}

inline HostTable expected_join(const HostTable& build, const HostTable& probe, const OwnedTableJoin& join) {
    const auto pairs = expected_pairs(build, probe, join);
    HostTable table;
    for (const TableJoinColumn& column : join.output) {
        HostColumn out;
        const bool of_build = column.side == TableSide::kBuild;
        out.width = (of_build ? build.columns[column.build_column] : probe.columns[column.probe_column]).width;
        for (const auto& [build_row, probe_row] : pairs) {
            const bool from_build = of_build || (column.side == TableSide::kEither && probe_row == kNoRow);
            const uint64_t row = from_build ? build_row : probe_row;
            const HostColumn& from =
                from_build ? build.columns[column.build_column] : probe.columns[column.probe_column];
            row == kNoRow ? out.push_null() : out.push_from(from, row);
        }
        table.columns.push_back(std::move(out));
    }
    return table;
}

// Every column that the join can give, key columns included, then the keys of either side where they are of one type.
inline std::vector<TableJoinColumn> all_output(const TestTable& build, const TestTable& probe,
                                               const OwnedTableJoin& join) {
    std::vector<TableJoinColumn> output;
    const auto columns_of = [](const TestTable& table) { return static_cast<uint32_t>(table.host().columns.size()); };
    if (join.kind.emit != JoinEmit::kProbeOnce) {
        for (uint32_t c = 0; c < columns_of(build); ++c) output.push_back({TableSide::kBuild, c, 0});
    }
    if (join.kind.emit != JoinEmit::kBuildOnce) {
        for (uint32_t c = 0; c < columns_of(probe); ++c) output.push_back({TableSide::kProbe, 0, c});
    }
    if (join.kind.emit != JoinEmit::kPairs) return output;
    for (size_t k = 0; k < join.build_keys.size(); ++k) {
        const uint32_t build_column = join.build_keys[k].column;
        const uint32_t probe_column = join.probe_keys[k].column;
        if (build.host().columns[build_column].width != probe.host().columns[probe_column].width) continue;
        output.push_back({TableSide::kEither, build_column, probe_column});
    }
    return output;
}

inline void check_join(const TestTable& build, const TestTable& probe, OwnedTableJoin join, const std::string& what) {
    cuda::Device& device = test_device();
    const HostTable expected = expected_join(build.host(), probe.host(), join);
    const uint64_t rows = expected_pairs(build.host(), probe.host(), join).size();
    const std::string name = what + ": " + text_of_kind(join.kind) + (join.nulls_equal ? ", NULLs equal" : "");
    const uint64_t blocks = device.memory().blocks();
    for (const uint64_t expected_rows : {rows, uint64_t{0}}) {
        join.expected_rows = expected_rows;
        const cuda::DeviceTable result = cuda::join_tables(device, build.device(), probe.device(), join);
        CHECK_EQ(result.rows, rows);
        const std::string difference = row_difference(download(result), expected);
        if (!difference.empty()) fail(name + ": " + difference, __FILE__, __LINE__);
    }
    CHECK_EQ(cuda::count_join(device, build.device(), probe.device(), join), rows);
    CHECK_EQ(device.memory().blocks(), blocks);
}

// NULLs in `share` of the rows.
inline HostColumn with_nulls(HostColumn column, double share, uint64_t seed) {
    const uint64_t rows = column.rows();
    column.valid_bits = null_mask(rows, share, seed);
    return column;
}

inline std::vector<std::string> texts(uint64_t rows, uint64_t bytes_max, uint64_t seed) {
    std::vector<std::string> values(rows);
    for (uint64_t row = 0; row < rows; ++row) {
        const uint64_t bytes = random64(seed, 2 * row) % (bytes_max + 1);
        for (uint64_t at = 0; at < bytes; ++at) {
            values[row] += static_cast<char>(random64(seed, (2 * row + 1) * 4096 + at));
        }
    }
    return values;
}

}  // namespace spillway::gpu_test
