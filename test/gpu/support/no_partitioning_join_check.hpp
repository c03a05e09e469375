// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "gpu_test.hpp"
#include "no_partitioning_join/no_partitioning_join.hpp"
#include "support/keyed_relation.hpp"
#include "support/reference_join.hpp"

// The no-partitioning join against the reference join.
namespace spillway::gpu_test {

using cuda::HashingScheme;
using cuda::JoinOutputColumn;
using cuda::NpjOptions;
using cuda::OutputPlan;
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

inline void check_one(const KeyedRelation& build, const KeyedRelation& probe, const NpjOptions& options,
                      const HostTable& expected, const std::string& what) {
    cuda::Device& device = test_device();
    const uint64_t blocks = device.memory().blocks();
    {
        const cuda::JoinResult result =
            cuda::no_partitioning_join(device, build.device(), probe.device(), all_columns(build, probe), options);
        CHECK_EQ(result.rows, expected.rows());
        HostTable actual;
        for (size_t c = 0; c < expected.columns.size(); ++c) {
            const uint32_t width = expected.columns[c].width;
            actual.columns.push_back({width, download(result.columns[c].as<uint8_t>(), result.rows * width), {}});
        }
        const std::string difference = row_difference(actual, expected);
        if (!difference.empty()) fail(what + ": " + difference, __FILE__, __LINE__);
    }
    CHECK_EQ(device.memory().blocks(), blocks);
}

// In one pass with memory for all and for none of the rows, counted first, and with 64-bit row numbers.
inline void check(const KeyedRelation& build, const KeyedRelation& probe, NpjOptions options, const std::string& what) {
    const HostTable expected = expected_rows(build, probe);
    for (const bool wide : {false, true}) {
        options.wide_row_numbers = wide;
        CHECK_EQ(cuda::no_partitioning_count(test_device(), build.device(), probe.device(), options), expected.rows());
        const std::string name = what + (wide ? ", 64-bit row numbers" : "");
        options.plan = OutputPlan::kOnePass;
        options.expected_rows = expected.rows();
        check_one(build, probe, options, expected, name);
        options.expected_rows = 0;
        check_one(build, probe, options, expected, name + ", nothing expected");
        options.plan = OutputPlan::kCountFirst;
        check_one(build, probe, options, expected, name + ", counted first");
    }
}

inline NpjOptions perfect(uint64_t first_key, uint64_t key_range) {
    NpjOptions options;
    options.scheme = HashingScheme::kPerfect;
    options.first_key = first_key;
    options.key_range = key_range;
    return options;
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
