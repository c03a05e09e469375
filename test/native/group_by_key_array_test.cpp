// SPDX-License-Identifier: Apache-2.0
// Numbers of groups by the values of their keys, against a map; and group-bys whose keys are such.
#include <array>
#include <map>

#include "base/load.hpp"
#include "cpu/group_by/key_array.hpp"
#include "support/group_by_inputs.hpp"

namespace spillway::test::grouping {

namespace {

KeySpec array_key(int32_t column, const ColumnType& type, int32_t text_width) {
    KeySpec spec = key_spec(column, type);
    if (spec.kind == KeyKind::kBytes && text_width > 0) spec.kind = KeyKind::kInlineBytes, spec.width = text_width;
    return spec;
}

struct Finds {
    int64_t found = 0;
    int64_t blocks = 0;
};

// Blocks of random rows: what is found must be the numbers that were learned. `twice`: every block again, when nothing
// may be missing.
Finds check_numbers(const std::vector<InputColumn>& columns, int32_t text_width, bool twice, Random& random) {
    MemoryBudget budget(64 << 20);
    TableMemory memory(budget, 8 << 20);
    std::vector<TypePtr> types;
    std::vector<ColumnView> views;
    std::vector<int32_t> numbers;
    PartitionSpec partition;
    GroupBySpec spec;
    for (const InputColumn& column : columns) {
        const auto index = static_cast<int32_t>(types.size());
        partition.keys.push_back(array_key(index, *column.type, text_width));
        partition.carry.push_back(index);
        spec.key_fields.push_back(index);
        numbers.push_back(index);
        types.push_back(column.type);
        views.push_back(column.view());
    }
    const auto plan = GroupPlan::of_columns({types, partition, NullKeys::kEqual, numbers}, spec, budget, false);
    KeyArray array(*plan, numbers, memory);
    std::map<std::vector<Cell>, uint32_t> known;
    Finds finds;
    const auto rows = static_cast<int64_t>(columns[0].cells.size());
    for (int64_t begin = 0; begin < rows;) {
        const int64_t count = std::min<int64_t>(1 + static_cast<int64_t>(random() % RowBlock::kRowsMax), rows - begin);
        const uint32_t copies = 1u << (random() % 4);
        std::vector<uint32_t> expected;
        for (int64_t i = 0; i < count; ++i) {
            std::vector<Cell> key;
            for (const InputColumn& column : columns) key.push_back(column.cells[static_cast<size_t>(begin + i)]);
            expected.push_back(known.emplace(std::move(key), static_cast<uint32_t>(known.size())).first->second);
        }
        const ColumnRows block{&views, begin, static_cast<uint64_t>(begin)};
        std::vector<uint32_t> places(static_cast<size_t>(count));
        for (int time = 0; time < (twice ? 2 : 1); ++time) {
            const bool found = array.find(block, count, copies, places.data());
            ++finds.blocks;
            finds.found += found ? 1 : 0;
            EXPECT(time == 0 || found);
            if (!found) {
                array.learn(expected.data());
                continue;
            }
            for (int64_t i = 0; i < count; ++i) {
                const auto at = static_cast<size_t>(i);
                EXPECT_EQ(places[at], expected[at] * copies + static_cast<uint32_t>(i) % copies);
            }
        }
        begin += count;
    }
    array.release();
    EXPECT_EQ(memory.used(), 0u);
    return finds;
}

InputColumn column_of(std::shared_ptr<ColumnType> type, size_t rows, const std::function<Cell()>& make) {
    std::vector<Cell> cells;
    for (size_t i = 0; i < rows; ++i) cells.push_back(make());
    type->nullable = std::any_of(cells.begin(), cells.end(), [](const Cell& cell) { return !cell; });
    return input_column(std::move(type), std::move(cells));
}

template <class T>
InputColumn numbers_of(Order order, size_t rows, T first, uint64_t range, Random& random) {
    return column_of(plain_type(Layout::kFixed, order, sizeof(T), "numbers"), rows,
                     [&] { return Cell(raw(static_cast<T>(static_cast<uint64_t>(first) + random() % range))); });
}

// Of one byte each, or of none to `longest`.
InputColumn short_texts(Layout layout, int32_t width, size_t rows, size_t longest, const char* bytes, Random& random) {
    InputColumn column = column_of(plain_type(layout, Order::kBytes, width, "text"), rows, [&] {
        std::string text;
        const size_t length = longest == 1 ? 1 : random() % (longest + 1);
        for (size_t i = 0; i < length; ++i) text.push_back(bytes[random() % 4]);
        return Cell(text);
    });
    if (width == 8) {
        std::vector<uint8_t> offsets;
        for (size_t i = 0; i <= rows; ++i) {
            const int64_t offset = load<int32_t>(column.offsets.data(), static_cast<int64_t>(i));
            append_raw(offsets, &offset, sizeof offset);
        }
        column.offsets = std::move(offsets);
    }
    return column;
}

constexpr size_t kRows = 20000;

}  // namespace

TEST(group_by_key_array_of_integers) {
    Random random(11);
    const auto all_found = [&](const InputColumn& column) {
        const Finds finds = check_numbers({column}, 2, true, random);
        EXPECT(finds.found > finds.blocks * 3 / 4);
    };
    all_found(numbers_of<int8_t>(Order::kSigned, kRows, -128, 256, random));
    all_found(numbers_of<uint8_t>(Order::kUnsigned, kRows, 0, 256, random));
    all_found(numbers_of<int16_t>(Order::kSigned, kRows, -3, 7, random));
    all_found(numbers_of<uint16_t>(Order::kUnsigned, kRows, 65530, 12, random));
    all_found(numbers_of<int32_t>(Order::kSigned, kRows, -1000, 7, random));
    // Around the ends of the type, where ranges that are rounded up wrap.
    all_found(numbers_of<int32_t>(Order::kSigned, kRows, INT32_MIN, 5, random));
    all_found(numbers_of<int32_t>(Order::kSigned, kRows, INT32_MAX - 2, 3, random));
    all_found(numbers_of<uint32_t>(Order::kUnsigned, kRows, UINT32_MAX - 4, 5, random));
    all_found(numbers_of<int64_t>(Order::kSigned, kRows, INT64_MIN, 5, random));
    all_found(numbers_of<int64_t>(Order::kSigned, kRows, INT64_MAX - 4, 5, random));
    all_found(numbers_of<uint64_t>(Order::kUnsigned, kRows, UINT64_MAX - 5, 6, random));
    all_found(column_of(type_of(Make::kBool), kRows, [&] { return Cell(std::string(1, random() % 2)); }));
    // Too many values, at once and with time.
    const auto none_found = [&](const InputColumn& column) {
        EXPECT(check_numbers({column}, 2, false, random).found < 3);
    };
    none_found(numbers_of<int64_t>(Order::kSigned, kRows, INT64_MIN, UINT64_MAX, random));
    none_found(numbers_of<int32_t>(Order::kSigned, kRows, INT32_MIN, uint64_t{1} << 32, random));
    int32_t next = -100;
    none_found(column_of(type_of(Make::kInt32), 100000, [&] { return Cell(raw(next++)); }));
}

TEST(group_by_key_array_widens) {
    Random random(12);
    for (const int64_t step : {1, -1, 1000}) {
        int64_t row = 0;
        const Finds finds = check_numbers({column_of(type_of(Make::kInt64), 200000,
                                                     [&] {
                                                         const int64_t ends = ++row / 20000 * step;
                                                         return Cell(raw(ends + static_cast<int64_t>(random() % 3)));
                                                     })},
                                          2, true, random);
        EXPECT(finds.found > finds.blocks * 3 / 4);
    }
}

TEST(group_by_key_array_of_texts_and_several_keys) {
    Random random(13);
    for (const auto& [layout, width] : {std::pair{Layout::kBinary, 4}, {Layout::kBinary, 8}, {Layout::kView, 16}}) {
        for (const int32_t text_width : {2, 3, 8}) {
            const InputColumn high = short_texts(layout, width, kRows, 1, "\x80\xffN\x01", random);
            EXPECT(check_numbers({high}, text_width, true, random).found > 0);
            const InputColumn flags = short_texts(layout, width, kRows, 1, "ANRz", random);
            const Finds finds = check_numbers({flags, numbers_of<int32_t>(Order::kSigned, kRows, -2, 5, random),
                                               short_texts(layout, width, kRows, 1, "FOPQ", random)},
                                              text_width, true, random);
            EXPECT(finds.found > finds.blocks * 3 / 4);
            // Texts of up to two bytes and none at all: their ranges are wide, but what is found must be right.
            check_numbers({short_texts(layout, width, kRows, 2, "ANRz", random), flags}, std::max(text_width, 3), false,
                          random);
        }
    }
}

// text_width 0: not inline.
TEST(group_by_key_array_of_encoded_texts) {
    Random random(15);
    constexpr size_t rows = 6000;
    const auto texts = [&](Layout layout, int32_t width, uint64_t distinct, size_t longest, double nulls) {
        return column_of(plain_type(layout, Order::kBytes, width, "text"), rows, [&] {
            const uint64_t pick = random() % distinct;
            const std::string end = std::to_string(pick);
            std::string text(std::max(longest, end.size()) - end.size() - (pick % 2 != 0 && longest > 6 ? 1 : 0), 'x');
            return std::uniform_real_distribution<double>(0, 1)(random) < nulls ? Cell() : Cell(text + end);
        });
    };
    for (const auto& [layout, width] : {std::pair{Layout::kBinary, 4}, {Layout::kView, 16}}) {
        for (const auto& [text_width, longest] : {std::pair{0, 60}, {0, 13}, {24, 23}, {16, 15}, {11, 7}}) {
            for (const double nulls : {0.0, 0.1}) {
                const auto bytes = static_cast<size_t>(longest);
                const InputColumn few = texts(layout, width, 5, bytes, nulls);
                const InputColumn more = texts(layout, width, 300, bytes, 0);
                const InputColumn numbers = numbers_of<int32_t>(Order::kSigned, rows, -2, 5, random);
                for (const std::vector<InputColumn>& keys :
                     {std::vector{few}, std::vector{more}, std::vector{few, numbers},
                      std::vector{numbers, more, few}}) {
                    const Finds finds = check_numbers(keys, text_width, true, random);
                    EXPECT(finds.found >= finds.blocks / 2);
                }
            }
        }
    }
    // The codes of both together are too many.
    const InputColumn many = texts(Layout::kBinary, 4, 400, 60, 0);
    EXPECT(check_numbers({many, texts(Layout::kBinary, 4, 400, 60, 0)}, 0, false, random).found == 0);
    EXPECT(check_numbers({texts(Layout::kBinary, 4, 1 << 20, 60, 0)}, 0, false, random).found == 0);
}

TEST(group_by_key_array_leaves_nulls_to_others) {
    Random random(14);
    size_t row = 0;
    const Finds finds = check_numbers({column_of(type_of(Make::kInt32), kRows,
                                                 [&] {
                                                     const bool null = ++row > 5000 && row < 10000 && row % 16 == 0;
                                                     return null ? Cell() : Cell(raw(int32_t{5}));
                                                 })},
                                      2, false, random);
    EXPECT(finds.found > finds.blocks / 3 && finds.found < finds.blocks);
}

}  // namespace spillway::test::grouping
