// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "generate/generate_spec.hpp"
#include "generate/table_recipe.hpp"

namespace spillway {

// The tables of TPC-H after the column rules of its specification (clause 4.2.3), from a generator of our own: the same
// seed and scale give matching tables, every line has its order and its pair of part and supplier, and o_totalprice is
// the sum over the lines of an order. Random numbers and comments differ from those of the original generator.
// `table`: one of the kTpch tables. Units: rows; of lineitem orders, of partsupp parts.
TableRecipe tpch_table(BenchmarkTable table, double scale, uint64_t seed);

}  // namespace spillway
