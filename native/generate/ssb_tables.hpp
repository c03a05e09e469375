// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "generate/generate_spec.hpp"
#include "generate/table_recipe.hpp"

namespace spillway {

// The tables of the Star Schema Benchmark (ssb_rows.hpp), from a generator of our own: the same seed and scale give
// matching tables, and lo_ordtotalprice is the sum over the lines of an order. `table`: one of the kSsb tables. Units:
// rows; of lineorder orders.
TableRecipe ssb_table(BenchmarkTable table, double scale, uint64_t seed);

}  // namespace spillway
