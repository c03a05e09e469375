// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/column_type.hpp"

namespace spillway {

// What `generate` is asked for; mirrors NativeGenerateSpec and NativeTableSpec in src/native/binding.ts.
// Every value is a function of the seed and the row (or key) number alone, never of workers or batch_rows.

enum class GeneratedKind : uint8_t { kInt, kFloat, kUtf8 };
enum class KeyRole : uint8_t { kPrimary, kForeign };
enum class KeyOrder : uint8_t { kShuffled, kSorted };

struct GeneratedColumn {
    std::string name;
    GeneratedKind kind = GeneratedKind::kInt;
    int32_t width = 8;  // kInt: 1, 2, 4, 8; kFloat: 4, 8; kUtf8: mean length in bytes, 1 .. 16384
};

struct GeneratedKey {
    std::string name;
    int32_t width = 8;  // 4 or 8
    KeyRole role = KeyRole::kPrimary;
    int64_t domain_rows = 0;  // kForeign: number of distinct primary keys
    int64_t stride = 1;       // key of index k = k * stride + offset, then scattered when sparse
    int64_t offset = 0;
    int64_t duplicates = 1;  // kPrimary: rows per key; rows counts all of them
    double zipf = 0;         // kForeign: exponent; 0 = uniform
    double match_ratio = 1;  // kForeign: share of rows that have a partner
    KeyOrder order = KeyOrder::kShuffled;
    bool sparse = false;
};

struct GenerateSpec {
    int64_t rows = 0;
    uint64_t seed = 0;
    GeneratedKey key;
    std::vector<GeneratedColumn> payload;
    int64_t batch_rows = 0;
    int32_t workers = 1;
};

// Tables of benchmarks, as tpch_tables.hpp and ssb_tables.hpp make them.
enum class BenchmarkTable : uint8_t {
    kTpchRegion,
    kTpchNation,
    kTpchSupplier,
    kTpchCustomer,
    kTpchPart,
    kTpchPartsupp,
    kTpchOrders,
    kTpchLineitem,
    kSsbLineorder,
    kSsbCustomer,
    kSsbSupplier,
    kSsbPart,
    kSsbDate
};

struct TableSpec {
    BenchmarkTable table = BenchmarkTable::kTpchOrders;
    double scale = 1;  // 1 = 1,500,000 orders and about 6,000,000 lines
    uint64_t seed = 0;
    int64_t part = 1;  // of `parts`, from 1 on
    int64_t parts = 1;
    bool dictionary = false;  // columns of a Vocabulary hold numbers of its words
    int64_t batch_rows = 0;
    int32_t workers = 1;
};

// Throw kInvalidArgument naming the option as users know it (src/runtime/generate-options.ts).
void check_spec(const GenerateSpec& spec);
void check_spec(const TableSpec& spec);

// Columns of the batches, none nullable: the key (signed integer), then the payload in order.
std::vector<TypePtr> generated_columns(const GenerateSpec& spec);

}  // namespace spillway
