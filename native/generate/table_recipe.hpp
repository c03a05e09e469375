// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "generate/vocabularies.hpp"
#include "model/output_batch.hpp"

namespace spillway {

// Lines of an order, 1 .. 7, uniformly.
constexpr int64_t kMeanLines = 4;
constexpr int64_t kLinesMax = 7;

struct TableColumn {
    enum class Kind : uint8_t { kInt32, kInt64, kDecimal, kBool, kText, kWord };
    std::string name;
    Kind kind;
    uint32_t text_bytes_max = 0;        // kText
    const Vocabulary* words = nullptr;  // kWord: plain text, or indices where a table is asked for with dictionaries
};

// One table of a benchmark as units that can be made independently and in any order: rows or, where the number of rows
// varies or rows belong together, whole orders or parts.
struct TableRecipe {
    std::vector<TableColumn> columns;
    int64_t units = 0;
    int64_t unit_rows_mean = 1;
    int64_t unit_rows_max = 1;
    std::function<int64_t(int64_t first, int64_t count)> rows;  // of `count` units from number `first` >= 0 on
    std::function<void(int64_t first, int64_t count, OutputBatch& out)> fill;

    // A table of so many rows, each of them a unit.
    static TableRecipe of_rows(std::vector<TableColumn> columns, int64_t rows,
                               std::function<void(int64_t first, int64_t count, OutputBatch& out)> fill) {
        const auto count_of = [](int64_t, int64_t count) { return count; };
        return {std::move(columns), rows, 1, 1, count_of, std::move(fill)};
    }
    // A table of the lines of so many orders; `lines` says how many of them order number 1, 2 ... has.
    template <class Lines>
    static TableRecipe of_orders(std::vector<TableColumn> columns, int64_t orders, Lines lines,
                                 std::function<void(int64_t first, int64_t count, OutputBatch& out)> fill) {
        const auto count_of = [lines](int64_t first, int64_t count) {
            int64_t rows = 0;
            for (int64_t number = first + 1; number <= first + count; ++number) rows += lines(number);
            return rows;
        };
        return {std::move(columns), orders, kMeanLines, kLinesMax, count_of, std::move(fill)};
    }
};

inline TableColumn int32_of(std::string name) {
    return {std::move(name), TableColumn::Kind::kInt32};
}
inline TableColumn int64_of(std::string name) {
    return {std::move(name), TableColumn::Kind::kInt64};
}
inline TableColumn decimal_of(std::string name) {
    return {std::move(name), TableColumn::Kind::kDecimal};
}
inline TableColumn bool_of(std::string name) {
    return {std::move(name), TableColumn::Kind::kBool};
}
inline TableColumn text_of(std::string name, uint32_t bytes_max) {
    return {std::move(name), TableColumn::Kind::kText, bytes_max};
}
inline TableColumn word_of(std::string name, const Vocabulary& words) {
    return {std::move(name), TableColumn::Kind::kWord, 0, &words};
}

}  // namespace spillway
