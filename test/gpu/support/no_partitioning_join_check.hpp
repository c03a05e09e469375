// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "gpu_test.hpp"
#include "no_partitioning_join/no_partitioning_join.hpp"
#include "support/join_check.hpp"
#include "support/keyed_relation.hpp"

// The no-partitioning join against the reference join.
namespace spillway::gpu_test {

using cuda::HashingScheme;
using cuda::NpjOptions;
using cuda::OutputPlan;

inline void check_one(const KeyedRelation& build, const KeyedRelation& probe, const NpjOptions& options,
                      const HostTable& expected, const std::string& what) {
    cuda::Device& device = test_device();
    const uint64_t blocks = device.memory().blocks();
    {
        const cuda::JoinResult result =
            cuda::no_partitioning_join(device, build.device(), probe.device(), all_columns(build, probe), options);
        check_result(result, expected, what);
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

}  // namespace spillway::gpu_test
