// SPDX-License-Identifier: Apache-2.0
// group_source() against the oracle: a table per worker, merged at the end.
#include "support/group_by_inputs.hpp"

namespace spillway::test::grouping {

namespace {

void add_region(BatchLayout& batch, const std::vector<uint8_t>& bytes, size_t length) {
    batch.buffers.push_back({0, bytes.data(), static_cast<int64_t>(length)});
}

// The trial's rows as memory batches of two sizes.
struct Memory {
    std::vector<std::vector<InputColumn>> batches;
};

SourceSpec source_spec(const Trial& trial, Memory& memory) {
    SourceSpec spec;
    for (const InputColumn& column : trial.columns) {
        if (column.type->layout == Layout::kDictionary) {
            auto plain = std::make_shared<ColumnType>(*column.type);
            plain->dictionary = nullptr;
            spec.columns.push_back(plain);
        } else {
            spec.columns.push_back(column.type);
        }
    }
    const size_t cut = trial.rows / 3;
    for (const auto& [begin, end] : {std::pair{size_t{0}, cut}, std::pair{cut, trial.rows}}) {
        std::vector<InputColumn> columns;
        for (const InputColumn& column : trial.columns) {
            columns.push_back(input_column(column.type, {column.cells.begin() + static_cast<int64_t>(begin),
                                                         column.cells.begin() + static_cast<int64_t>(end)}));
        }
        memory.batches.push_back(std::move(columns));
    }
    for (const auto& columns : memory.batches) {
        BatchLayout batch;
        const size_t rows = columns.empty() ? 0 : columns[0].cells.size();
        batch.rows = static_cast<int64_t>(rows);
        for (const InputColumn& column : columns) {
            const auto nulls = std::count(column.cells.begin(), column.cells.end(), Cell());
            batch.nodes.push_back({batch.rows, nulls, 0});
            if (nulls > 0) {
                add_region(batch, column.validity, column.validity.size());
            } else {
                batch.buffers.push_back({});
            }
            if (column.type->layout == Layout::kBinary) add_region(batch, column.offsets, column.offsets.size());
            add_region(batch, column.data, column.data.size() - 1);
            if (column.type->layout != Layout::kDictionary) continue;
            batch.dictionaries.push_back(static_cast<int32_t>(spec.dictionaries.size()));
            const auto& values = *static_cast<InputColumn*>(column.type->dictionary->owners[0].get());
            BatchLayout dictionary;
            dictionary.rows = static_cast<int64_t>(values.cells.size());
            dictionary.nodes.push_back({dictionary.rows, 0, 0});
            dictionary.buffers.push_back({});
            if (values.type->layout == Layout::kBinary) add_region(dictionary, values.offsets, values.offsets.size());
            add_region(dictionary, values.data, values.data.size() - 1);
            spec.dictionaries.push_back({values.type, {std::move(dictionary)}});
        }
        spec.batches.push_back(std::move(batch));
    }
    return spec;
}

uint64_t run_source(const Trial& trial) {
    MemoryBudget budget(trial.budget_bytes);
    JobControl control;
    uint64_t groups = 0;
    {
        Memory memory;
        Source source(source_spec(trial, memory));
        GroupSink sink(trial.keys.size(), trial.batch_rows, !trial.count_only);
        groups = group_source(source, partition_spec(trial), group_spec(trial), budget, control, sink);
        check_groups(trial, sink, groups);
        EXPECT_EQ(control.rows_in.load(), trial.rows);
    }
    EXPECT_EQ(budget.used(), 0u);
    return groups;
}

std::shared_ptr<ColumnType> int64_type() {
    return plain_type(Layout::kFixed, Order::kSigned, 8, "i64");
}

InputColumn integers(size_t rows, uint64_t distinct, int null_percent, uint64_t seed) {
    Random random(seed);
    std::vector<Cell> cells;
    for (size_t i = 0; i < rows; ++i) {
        const bool null = static_cast<int>(random() % 100) < null_percent;
        cells.push_back(null ? Cell() : raw(static_cast<int64_t>(random() % distinct) * 1000003 - 5));
    }
    auto type = int64_type();
    type->nullable = null_percent > 0;
    return input_column(type, std::move(cells));
}

InputColumn texts(size_t rows, uint64_t distinct, uint64_t seed) {
    Random random(seed);
    std::vector<Cell> cells;
    for (size_t i = 0; i < rows; ++i) {
        const uint64_t pick = random() % distinct;
        cells.push_back(pick == 0 ? Cell() : std::string(pick % 30, 'a') + std::to_string(pick));
    }
    return input_column(plain_type(Layout::kBinary, Order::kBytes, 4, "text"), std::move(cells));
}

std::vector<Wanted> all_of(int32_t column) {
    return {{AggregateKind::kCountRows, -1}, {AggregateKind::kCount, column}, {AggregateKind::kSum, column},
            {AggregateKind::kMin, column},   {AggregateKind::kMax, column},   {AggregateKind::kMean, column},
            {AggregateKind::kFirst, column}, {AggregateKind::kAny, column}};
}

Trial integer_trial(size_t rows, uint64_t distinct) {
    Trial trial;
    trial.rows = rows;
    trial.keys = {0};
    trial.columns = {integers(rows, distinct, 5, 1), integers(rows, 1000, 20, 2)};
    trial.aggregates = all_of(1);
    return trial;
}

}  // namespace

TEST(group_by_source_integers) {
    for (int32_t workers = 1; workers <= 4; ++workers) {
        for (const uint64_t distinct : {size_t{1}, size_t{100}, fewer_if_sanitized(15000)}) {
            Trial trial = integer_trial(fewer_if_sanitized(20000), distinct);
            trial.workers = workers;
            run_source(trial);
            trial.count_only = true;
            run_source(trial);
        }
    }
    Trial chain = integer_trial(5000, 1000);
    chain.hash_mask = 0;
    run_source(chain);
}

TEST(group_by_source_text_keys_and_values) {
    for (int32_t workers : {1, 3}) {
        Trial trial;
        trial.rows = 10000;
        trial.keys = {0, 2};
        trial.columns = {texts(trial.rows, 40, 3), texts(trial.rows, 500, 4), integers(trial.rows, 3, 10, 5)};
        trial.aggregates = {{AggregateKind::kCountRows, -1}, {AggregateKind::kMin, 1},  {AggregateKind::kMax, 1},
                            {AggregateKind::kFirst, 1},      {AggregateKind::kAny, 1},  {AggregateKind::kSum, 2},
                            {AggregateKind::kCount, 0},      {AggregateKind::kFirst, 0}};
        trial.workers = workers;
        run_source(trial);
    }
}

TEST(group_by_source_dictionaries) {
    Random random(6);
    std::vector<Cell> words;
    for (int i = 0; i < 20; ++i) words.push_back("word" + std::to_string(i * 7 % 20));
    std::vector<Cell> numbers;
    for (int64_t i = 0; i < 20; ++i) numbers.push_back(raw(i * i - 50));
    Trial trial;
    trial.rows = 5000;
    trial.keys = {0};
    std::vector<Cell> keys;
    std::vector<Cell> values;
    for (size_t i = 0; i < trial.rows; ++i) {
        keys.push_back(random() % 10 == 0 ? Cell() : words[random() % words.size()]);
        values.push_back(random() % 10 == 0 ? Cell() : numbers[random() % numbers.size()]);
    }
    const auto text = plain_type(Layout::kBinary, Order::kBytes, 4, "word");
    trial.columns = {input_column(dictionary_type(text, words, "word"), keys),
                     input_column(dictionary_type(int64_type(), numbers, "number"), values)};
    trial.aggregates = all_of(1);
    for (AggregateKind kind : {AggregateKind::kMin, AggregateKind::kMax, AggregateKind::kFirst}) {
        trial.aggregates.push_back({kind, 0});
    }
    run_source(trial);
}

TEST(group_by_source_without_keys_or_rows) {
    for (size_t rows : {0, 1, 3000}) {
        Trial trial = integer_trial(rows, 10);
        run_source(trial);
        trial.keys.clear();
        run_source(trial);
        trial.count_only = true;
        run_source(trial);
    }
}

InputColumn numbers_of(const std::shared_ptr<ColumnType>& type, size_t rows, uint64_t seed, auto value) {
    Random random(seed);
    std::vector<Cell> cells;
    for (size_t i = 0; i < rows; ++i) cells.push_back(random() % 5 == 0 && type->nullable ? Cell() : value(random));
    return input_column(type, std::move(cells));
}

// Arrays of few groups: sums that leave 64 bits on the way, and decimals that never fit them.
TEST(group_by_source_sums_beyond_64_bits) {
    for (const bool nullable : {false, true}) {
        for (const uint64_t groups : {0, 1, 3, 500}) {
            Trial trial;
            trial.rows = 6000;
            trial.workers = 2;
            trial.morsel_rows = 1500;
            trial.columns = {integers(trial.rows, std::max<uint64_t>(groups, 1), 0, 7)};
            if (groups > 0) trial.keys = {0};
            const auto add = [&](Order order, int32_t width, auto value) {
                auto type = plain_type(Layout::kFixed, order, width, "values");
                type->nullable = nullable;
                const auto column = static_cast<int32_t>(trial.columns.size());
                trial.columns.push_back(numbers_of(type, trial.rows, 8 + static_cast<uint64_t>(column), value));
                const AggregateKind mean_or_sum = width == 8 ? AggregateKind::kMean : AggregateKind::kSum;
                for (AggregateKind kind : {mean_or_sum, AggregateKind::kMin, AggregateKind::kMax, AggregateKind::kCount,
                                           AggregateKind::kMean}) {
                    trial.aggregates.push_back({kind, column});
                }
            };
            add(Order::kSigned, 8, [](Random& random) { return raw(static_cast<int64_t>(random())); });
            add(Order::kSigned, 8, [](Random& random) { return raw(static_cast<int64_t>(random() >> 13)); });
            add(Order::kUnsigned, 8, [](Random& random) { return raw(uint64_t{random()}); });
            const auto decimal = [](uint64_t low, int64_t high) {
                std::string bytes(16, '\0');
                std::memcpy(bytes.data(), &low, 8);
                std::memcpy(bytes.data() + 8, &high, 8);
                return bytes;
            };
            add(Order::kDecimal, 16, [&](Random& random) {
                const auto value = static_cast<int64_t>(random()) >> 20;
                return decimal(static_cast<uint64_t>(value), value >> 63);
            });
            add(Order::kDecimal, 16, [&](Random& random) {
                const bool wide = random() % 1000 == 0;  // most blocks fit 64 bits
                const auto value = static_cast<int64_t>(random()) >> (wide ? 0 : 2);
                return decimal(static_cast<uint64_t>(value), (value >> 63) ^ (wide ? int64_t(random() % 1000) : 0));
            });
            run_source(trial);
        }
    }
}

// Numbered groups become too many while rows come in, with every kind of aggregate.
TEST(group_by_source_outgrows_its_arrays) {
    for (const int32_t workers : {1, 2}) {
        Trial trial = integer_trial(fewer_if_sanitized(60000), 40000);
        trial.table_bytes = 64 << 20;
        trial.workers = workers;
        run_source(trial);
    }
    Trial small = integer_trial(20000, 3000);
    small.table_bytes = 2 << 20;  // no memory for arrays of all groups
    run_source(small);
}

TEST(group_by_source_table_full) {
    Trial trial = integer_trial(30000, 20000);
    trial.table_bytes = 256 << 10;
    try {
        run_source(trial);
        EXPECT(false);
    } catch (const Error& error) {
        EXPECT(error.code() == ErrorCode::kBudgetTooSmall);
        EXPECT(!error.details().empty() && error.details()[0].first == "reason");
        EXPECT_EQ(error.details()[0].second, std::string("tableFull"));
    }
}

// Keys that index an array, and one to nine aggregates that share arrays of four: sums of all kinds, min and max, with
// NULLs here and there; decimals and integers that leave 64 bits, all along or late.
TEST(group_by_source_lanes_of_four) {
    const std::vector<std::pair<Make, AggregateKind>> all = {
        {Make::kDecimal, AggregateKind::kSum}, {Make::kInt64, AggregateKind::kSum},
        {Make::kInt32, AggregateKind::kMin},   {Make::kDouble, AggregateKind::kSum},
        {Make::kDecimal, AggregateKind::kMax}, {Make::kUint64, AggregateKind::kSum},
        {Make::kFloat, AggregateKind::kMean},  {Make::kUint64, AggregateKind::kMin},
        {Make::kDouble, AggregateKind::kMax},  {Make::kDate, AggregateKind::kMin},
        {Make::kInt8, AggregateKind::kSum},    {Make::kBool, AggregateKind::kSum},
        {Make::kDouble, AggregateKind::kMean}, {Make::kUint16, AggregateKind::kMax},
        {Make::kDecimal, AggregateKind::kMin}};
    Random random(21);
    for (size_t count = 1; count <= 9; ++count) {
        for (const double nulls : {0.0, 0.001, 0.3}) {
            const size_t rows = 6000;
            Trial trial;
            trial.rows = rows;
            trial.morsel_rows = 1500;
            trial.workers = 1 + static_cast<int32_t>(random() % 2);
            trial.keys = {0, 1};
            trial.columns.push_back(random_column(Make::kInt8, rows, 1 + random() % 7, 0, random));
            trial.columns.push_back(random_column(Make::kBool, rows, 2, nulls / 10, random));
            for (size_t a = 0; a < count; ++a) {
                const auto& [make, kind] = all[random() % all.size()];
                InputColumn column = random_column(make, rows, 300, nulls, random);
                if (make == Make::kDecimal && random() % 2 == 0) {
                    const size_t wide = random() % rows;  // narrow ones until there
                    std::vector<Cell> cells = column.cells;
                    for (size_t i = 0; i < rows; ++i) {
                        if (cells[i] && i < wide) cells[i] = raw(static_cast<__int128>(random() % 2000) - 1000);
                    }
                    column = input_column(column.type, std::move(cells));
                }
                trial.aggregates.push_back({kind, static_cast<int32_t>(trial.columns.size())});
                if (random() % 3 == 0)
                    trial.aggregates.push_back({AggregateKind::kSum, trial.aggregates.back().column});
                if (random() % 3 == 0)
                    trial.aggregates.push_back({AggregateKind::kAny, trial.aggregates.back().column});
                trial.columns.push_back(std::move(column));
            }
            run_source(trial);
        }
    }
}

}  // namespace spillway::test::grouping
