// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/arrow_body.hpp"
#include "support/test.hpp"

// A relation of test values over several files and memory batches, and the check that a reader shows just these.
namespace spillway::test {

struct TestRelation {
    explicit TestRelation(uint64_t seed) : random(seed), builder(random, spec.dictionaries) {}

    void add_column(ColumnType type) {
        type.name = "column" + std::to_string(types.size());
        spec.columns.push_back(std::make_shared<ColumnType>(type));
        types.push_back(std::move(type));
    }
    // file: index of a test file (made when new), or -1 = memory.
    void add_batch(std::vector<std::vector<Value>> columns, int64_t rows, int32_t file) {
        while (file >= static_cast<int32_t>(files.size())) {
            files.push_back(std::make_unique<TestFile>());
            spec.paths.push_back(files.back()->path());
        }
        TestFile* to = file < 0 ? nullptr : files[static_cast<size_t>(file)].get();
        spec.batches.push_back(builder.batch(types, columns, rows, to, file));
        values.push_back(std::move(columns));
    }
    void add_random_batch(int64_t rows, int32_t file, int64_t null_percent = 20) {
        std::vector<std::vector<Value>> columns;
        for (const ColumnType& type : types) columns.push_back(random_values(random, type, rows, null_percent));
        add_batch(std::move(columns), rows, file);
    }
    Source& open() {
        source = std::make_unique<Source>(spec);
        std::vector<int32_t> all;
        for (size_t c = 0; c < types.size(); ++c) all.push_back(static_cast<int32_t>(c));
        source->load_dictionaries(all, budget, control);
        return *source;
    }
    std::unique_ptr<SourceReader> reader() {
        std::vector<int32_t> all;
        for (size_t c = 0; c < types.size(); ++c) all.push_back(static_cast<int32_t>(c));
        return std::make_unique<SourceReader>(*source, all, budget, control);
    }
    void expect_slice(SourceReader& reader, int64_t batch, int64_t row, int64_t rows) {
        const std::vector<ColumnView>& views = reader.read(batch, row, rows);
        EXPECT_EQ(views.size(), types.size());
        for (size_t c = 0; c < views.size(); ++c) {
            EXPECT_EQ(views[c].length, rows);
            for (int64_t i = 0; i < rows; ++i) {
                const Value& value = values[static_cast<size_t>(batch)][c][static_cast<size_t>(row + i)];
                EXPECT_EQ(text_of(views[c], i), text_of(value, types[c]));
            }
        }
    }

    Random random;
    SourceSpec spec;
    BodyBuilder builder;
    std::vector<ColumnType> types;
    std::vector<std::unique_ptr<TestFile>> files;
    std::vector<std::vector<std::vector<Value>>> values;  // [batch][column][row]
    MemoryBudget budget{1ULL << 30};
    JobControl control;
    std::unique_ptr<Source> source;
};

// One value per number, for columns of fixed width.
inline std::vector<Value> integers(int64_t first, int64_t rows, int32_t width = 8) {
    std::vector<Value> values(static_cast<size_t>(rows));
    for (int64_t i = 0; i < rows; ++i) {
        const int64_t number = first + i;
        values[static_cast<size_t>(i)].bytes.assign(reinterpret_cast<const char*>(&number), static_cast<size_t>(width));
    }
    return values;
}

inline std::vector<Value> strings(const std::vector<std::string>& texts) {
    std::vector<Value> values;
    for (const std::string& text : texts) {
        values.emplace_back();
        values.back().null = text == "NULL";
        if (!values.back().null) values.back().bytes = text;
    }
    return values;
}

}  // namespace spillway::test
