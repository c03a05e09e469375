// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "generate/relation_generator.hpp"
#include "support/output_columns.hpp"
#include "support/test.hpp"

namespace spillway::test::batches {

inline GenerateSpec primary(int64_t rows, uint64_t seed = 1) {
    GenerateSpec spec;
    spec.rows = rows;
    spec.seed = seed;
    spec.key.name = "id";
    spec.batch_rows = 1000;
    return spec;
}

inline GenerateSpec foreign(int64_t rows, int64_t domain_rows, uint64_t seed = 2) {
    GenerateSpec spec = primary(rows, seed);
    spec.key.role = KeyRole::kForeign;
    spec.key.domain_rows = domain_rows;
    return spec;
}

struct Generated {
    MemoryBudget budget{uint64_t{256} << 20};
    JobControl control;
    BatchCollector sink;

    explicit Generated(const GenerateSpec& spec) {
        EXPECT_EQ(generate_relation(spec, budget, control, sink), spec.rows);
        const auto types = generated_columns(spec);
        for (const auto& batch : sink.batches) EXPECT_EQ(batch.columns.size(), types.size());
    }
    std::vector<int64_t> keys() const { return sink.values<int64_t>(0); }
};

inline std::vector<int64_t> sorted(std::vector<int64_t> values) {
    std::sort(values.begin(), values.end());
    return values;
}

}  // namespace spillway::test::batches
