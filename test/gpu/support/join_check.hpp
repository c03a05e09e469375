// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "materialize/join_output.hpp"
#include "support/keyed_relation.hpp"
#include "support/reference_join.hpp"

// What the tests of all join algorithms share: keys to join, columns to ask for, the result to expect.
namespace spillway::gpu_test {

using cuda::JoinOutputColumn;
using cuda::OutputSide;

inline std::vector<JoinOutputColumn> all_columns(const KeyedRelation& build, const KeyedRelation& probe) {
    std::vector<JoinOutputColumn> output = {{OutputSide::kKey, 0}};
    for (uint32_t c = 1; c < build.host().columns.size(); ++c) output.push_back({OutputSide::kBuild, c - 1});
    for (uint32_t c = 1; c < probe.host().columns.size(); ++c) output.push_back({OutputSide::kProbe, c - 1});
    return output;
}

// Key, carried columns of the build side, carried columns of the probe side.
inline HostTable expected_rows(const KeyedRelation& build, const KeyedRelation& probe) {
    const auto pairs = reference_pairs(build.host(), probe.host(), {0}, {0}, JoinType::kInner);
    HostTable table;
    const auto append = [&](const HostColumn& column, bool of_build) {
        HostColumn out;
        out.width = column.width;
        for (const auto& pair : pairs) out.push_from(column, of_build ? pair.first : pair.second);
        table.columns.push_back(std::move(out));
    };
    append(build.host().columns[0], true);
    for (size_t c = 1; c < build.host().columns.size(); ++c) append(build.host().columns[c], true);
    for (size_t c = 1; c < probe.host().columns.size(); ++c) append(probe.host().columns[c], false);
    return table;
}

inline void check_result(const cuda::JoinResult& result, const HostTable& expected, const std::string& what) {
    CHECK_EQ(result.rows, expected.rows());
    HostTable actual;
    for (size_t c = 0; c < expected.columns.size(); ++c) {
        const uint32_t width = expected.columns[c].width;
        actual.columns.push_back({width, download(result.columns[c].as<uint8_t>(), result.rows * width), {}});
    }
    const std::string difference = row_difference(actual, expected);
    if (!difference.empty()) fail(what + ": " + difference, __FILE__, __LINE__);
}

// Keys of a probe side: `share` of them are keys of the build side.
inline std::vector<uint64_t> foreign_keys(const std::vector<uint64_t>& build, uint64_t rows, double share,
                                          uint64_t seed) {
    const std::vector<uint64_t> others = sparse_keys(rows, seed + 99);
    std::vector<uint64_t> keys(rows);
    for (uint64_t row = 0; row < rows; ++row) {
        const bool matches = !build.empty() && random_unit(random64(seed, 2 * row)) < share;
        keys[row] = matches ? build[random64(seed, 2 * row + 1) % build.size()] : others[row];
    }
    return keys;
}

}  // namespace spillway::gpu_test
