// SPDX-License-Identifier: Apache-2.0
#include "generate/table_generator.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "generate/generated_batch.hpp"
#include "generate/ordered_delivery.hpp"
#include "generate/ssb_tables.hpp"
#include "generate/table_recipe.hpp"
#include "generate/tpch_tables.hpp"

namespace spillway {

namespace {

using Kind = TableColumn::Kind;

TypePtr plain_type(Layout layout, Order order, int32_t byte_width, const std::string& name) {
    auto type = std::make_shared<ColumnType>();
    type->name = name;
    type->layout = layout;
    type->order = order;
    type->byte_width = byte_width;
    type->nullable = false;
    type->utf8 = layout == Layout::kBinary;
    return type;
}

TypePtr dictionary_type(const std::string& name) {
    ColumnType type = *plain_type(Layout::kDictionary, Order::kSigned, 4, name);
    type.children = {*plain_type(Layout::kBinary, Order::kBytes, 4, name)};
    return std::make_shared<const ColumnType>(std::move(type));
}

TypePtr type_of(const TableColumn& column, bool dictionary) {
    switch (column.kind) {
        case Kind::kInt32:
            return plain_type(Layout::kFixed, Order::kSigned, 4, column.name);
        case Kind::kInt64:
            return plain_type(Layout::kFixed, Order::kSigned, 8, column.name);
        case Kind::kDecimal:
            return plain_type(Layout::kFixed, Order::kDecimal, 16, column.name);
        case Kind::kBool:
            return plain_type(Layout::kBool, Order::kUnsigned, 0, column.name);
        case Kind::kWord:
            if (dictionary) return dictionary_type(column.name);
            [[fallthrough]];
        case Kind::kText:
            return plain_type(Layout::kBinary, Order::kBytes, 4, column.name);
    }
    fail_check("a kind of column", __FILE__, __LINE__);
}

uint32_t text_bytes_max_of(const TableColumn& column) {
    return column.kind == Kind::kWord ? column.words->longest() : column.text_bytes_max;
}

// Of `units`, those before part number `part`.
int64_t units_before(int64_t units, int64_t part, int64_t parts) {
    return static_cast<int64_t>(static_cast<__int128>(units) * (part - 1) / parts);
}

// Offsets of text have 32 bits.
void check_text_offsets(const TableSpec& spec, const TableRecipe& table) {
    uint32_t longest = 1;
    for (const TableColumn& column : table.columns) longest = std::max(longest, text_bytes_max_of(column));
    const int64_t rows_max = std::numeric_limits<int32_t>::max() / longest * table.unit_rows_mean / table.unit_rows_max;
    if (spec.batch_rows <= rows_max) return;
    throw Error(ErrorCode::kInvalidArgument,
                "generate: 'batchRows' is " + std::to_string(spec.batch_rows) + "; it must be at most " +
                    std::to_string(rows_max) + " for this table, whose longest text has " + std::to_string(longest) +
                    " bytes",
                {{"option", "batchRows"}, {"got", std::to_string(spec.batch_rows)}});
}

TableRecipe recipe_of(BenchmarkTable table, double scale, uint64_t seed) {
    const bool is_ssb = table >= BenchmarkTable::kSsbLineorder;
    return is_ssb ? ssb_table(table, scale, seed) : tpch_table(table, scale, seed);
}

}  // namespace

int64_t generate_table(const TableSpec& spec, MemoryBudget& budget, JobControl& control, BatchSink& sink) {
    check_spec(spec);
    const TableRecipe table = recipe_of(spec.table, spec.scale, spec.seed);
    check_text_offsets(spec, table);
    const int64_t begin = units_before(table.units, spec.part, spec.parts);
    const int64_t end = units_before(table.units, spec.part + 1, spec.parts);
    const int64_t batch_units = std::max<int64_t>(1, spec.batch_rows / table.unit_rows_mean);
    const auto first_of = [=](int64_t batch) { return begin + batch * batch_units; };
    const auto count_of = [=](int64_t batch) { return std::min(batch_units, end - first_of(batch)); };

    BatchRecipe recipe;
    for (const TableColumn& column : table.columns) {
        recipe.columns.push_back(type_of(column, spec.dictionary));
        recipe.text_bytes_max.push_back(text_bytes_max_of(column));
    }
    recipe.batches = (end - begin + batch_units - 1) / batch_units;
    recipe.workers = spec.workers;
    recipe.rows = [&](int64_t batch) { return table.rows(first_of(batch), count_of(batch)); };
    recipe.fill = [&](int64_t batch, OutputBatch& out) { table.fill(first_of(batch), count_of(batch), out); };
    return deliver_in_order(recipe, budget, control, sink);
}

std::vector<const Vocabulary*> table_dictionaries(BenchmarkTable table) {
    std::vector<const Vocabulary*> dictionaries;
    for (const TableColumn& column : recipe_of(table, 1, 0).columns) {
        if (column.kind == Kind::kWord) dictionaries.push_back(column.words);
    }
    return dictionaries;
}

OutputBatch vocabulary_batch(const Vocabulary& words, MemoryBudget& budget) {
    const std::vector<TypePtr> columns = {plain_type(Layout::kBinary, Order::kBytes, 4, "values")};
    const std::vector<uint32_t> text_bytes_max = {words.longest()};
    const uint64_t bytes = generated_batch_bytes(columns, text_bytes_max, words.size());
    Reservation memory = budget.reserve(bytes, "a generated dictionary");
    OutputBatch batch = allocate_generated_batch(columns, text_bytes_max, words.size(), budget, memory);
    TextWriter writer(batch.columns[0]);
    for (uint32_t word = 0; word < words.size(); ++word) writer.append(words[word]);
    writer.finish();
    zero_padding(batch);
    return batch;
}

}  // namespace spillway
