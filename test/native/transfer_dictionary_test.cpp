// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "support/colliding_keys.hpp"
#include "support/test_relation.hpp"
#include "transfer/dictionary_unifier.hpp"

namespace spillway {
namespace {

using namespace test;

ColumnType dictionary_of(ColumnType values, int32_t index_width = 4) {
    return type_of(Layout::kDictionary, index_width, {std::move(values)});
}

std::vector<Value> rows_of(const std::vector<std::string>& texts) {
    std::vector<Value> values;
    for (const Value& text : strings(texts)) {
        values.emplace_back();
        values.back().null = text.null;
        if (!text.null) values.back().items.push_back(text);
    }
    return values;
}

// Equal values have equal indices over the whole relation, and every value is there once.
void expect_unified(TestRelation& relation) {
    std::map<std::string, int32_t> index_of;
    std::set<int32_t> seen;
    const auto reader = relation.reader();
    for (int64_t batch = 0; batch < relation.source->batch_count(); ++batch) {
        const ColumnView& view = reader->read(batch, 0, relation.source->batch_rows(batch))[0];
        for (int64_t i = 0; i < view.length; ++i) {
            if (!view.is_valid(i)) continue;
            const auto index = load_as<int32_t>(view.data, i);
            const auto [at, added] = index_of.emplace(text_of(view, i), index);
            EXPECT_EQ(at->second, index);
            if (added) EXPECT(seen.insert(index).second);
        }
    }
    EXPECT_EQ(relation.source->columns()[0]->dictionary->values.length, static_cast<int64_t>(seen.size()));
}

std::shared_ptr<const Dictionary> unify(const ColumnType& type, const std::vector<Value>& values,
                                        std::vector<int32_t>& indices) {
    static MemoryBudget budget(1 << 28);
    TestRelation relation(1);
    relation.add_column(type);
    relation.add_batch({values}, static_cast<int64_t>(values.size()), -1);
    relation.open();
    DictionaryUnifier unifier(relation.source->columns()[0], "x", budget);
    indices.resize(values.size());
    unifier.add(relation.reader()->read(0, 0, static_cast<int64_t>(values.size()))[0], indices.data());
    auto dictionary = std::make_shared<Dictionary>();
    unifier.finish(*dictionary);
    return dictionary;
}

template <class T>
std::vector<Value> numbers(const std::vector<T>& list) {
    std::vector<Value> values;
    for (const T number : list) {
        values.emplace_back();
        values.back().bytes.assign(reinterpret_cast<const char*>(&number), sizeof number);
    }
    return values;
}

}  // namespace

TEST(transfer_dictionaries_of_files_and_deltas_become_one) {
    TestRelation relation(3);
    relation.add_column(dictionary_of(type_of(Layout::kBinary, 4), 1));
    relation.builder.deltas = 3;
    relation.add_batch({rows_of({"red", "green", "NULL", "blue", "red", ""})}, 6, 0);
    relation.add_batch({rows_of({"blue", "black", "green"})}, 3, 1);
    relation.add_batch({rows_of({"", "white", "red", "NULL"})}, 4, -1);
    const Source& source = relation.open();
    const auto reader = relation.reader();
    relation.expect_slice(*reader, 0, 0, 6);
    relation.expect_slice(*reader, 1, 1, 2);
    relation.expect_slice(*reader, 2, 0, 4);
    EXPECT_EQ(source.columns()[0]->dictionary->values.length, 6);
    EXPECT_EQ(source.columns()[0]->byte_width, 4);
    EXPECT(source.dictionary({0}) == source.columns()[0]->dictionary);
    EXPECT_ERROR(kInvalidArgument, source.dictionary({1}));
    EXPECT_ERROR(kInvalidArgument, source.dictionary({0, 0}));
    expect_unified(relation);
}

TEST(transfer_dictionaries_of_every_value_type_are_unified) {
    const std::vector<ColumnType> value_types{
        type_of(Layout::kFixed, 4),
        type_of(Layout::kFixed, 16),
        type_of(Layout::kBool),
        type_of(Layout::kNull),
        type_of(Layout::kBinary, 8),
        type_of(Layout::kView, 16),
        type_of(Layout::kList, 4, {type_of(Layout::kView, 16)}),
        type_of(Layout::kStruct, 0, {type_of(Layout::kFixed, 1), type_of(Layout::kBool)}),
        type_of(Layout::kUnionDense, 0, {type_of(Layout::kFixed, 1), type_of(Layout::kBool)})};
    for (const ColumnType& values : value_types) {
        for (const int32_t width : {2, 4, 8}) {
            TestRelation relation(static_cast<uint64_t>(width));
            ColumnType type = dictionary_of(values, width);
            type.order = width == 4 ? Order::kUnsigned : Order::kSigned;
            relation.add_column(type);
            relation.builder.deltas = 2;
            for (const int32_t file : {0, -1, 1, 0}) relation.add_random_batch(90, file, 15);
            relation.open();
            const auto reader = relation.reader();
            for (int64_t batch = 0; batch < 4; ++batch) relation.expect_slice(*reader, batch, batch, 80);
            expect_unified(relation);
        }
    }
}

TEST(transfer_dictionary_values_of_the_same_hash_stay_apart) {
    for (const int32_t width : {4, 8}) {
        std::vector<std::string> texts;
        for (const uint64_t i : {1, 2, 1, 3}) {
            for (const bool second : {true, false, true}) texts.push_back(colliding_key(i, second));
        }
        std::vector<int32_t> indices;
        const auto dictionary = unify(type_of(Layout::kBinary, width), strings(texts), indices);
        EXPECT(indices == std::vector<int32_t>({0, 1, 0, 2, 3, 2, 0, 1, 0, 4, 5, 4}));
        EXPECT_EQ(dictionary->values.length, 6);
    }
}

// The longer of two values of the same hash begins with the shorter one, and what follows the shorter one in memory is
// the rest of the longer.
TEST(transfer_dictionary_values_of_the_same_hash_and_beginning_stay_apart) {
    const std::string whole = key_with_hash_of_its_beginning(7);
    const std::string begin = whole.substr(0, 8);
    const std::string rest = whole.substr(8);
    EXPECT_EQ(hash_bytes(whole.data(), 16), hash_bytes(begin.data(), 8));
    for (const int32_t width : {4, 8}) {
        for (const bool longer_first : {true, false}) {
            const std::vector<std::string> texts = longer_first ? std::vector{whole, begin, rest, begin, rest}
                                                                : std::vector{begin, rest, whole, begin, rest};
            std::vector<int32_t> indices;
            const auto dictionary = unify(type_of(Layout::kBinary, width), strings(texts), indices);
            EXPECT(indices ==
                   (longer_first ? std::vector<int32_t>{0, 1, 2, 1, 2} : std::vector<int32_t>{0, 1, 2, 0, 1}));
            EXPECT_EQ(dictionary->values.length, 3);
        }
    }
}

TEST(transfer_unsigned_indices_use_their_high_bit) {
    TestRelation relation(3);
    ColumnType type = dictionary_of(type_of(Layout::kFixed, 8), 1);
    type.order = Order::kUnsigned;
    relation.add_column(type);
    relation.add_batch({rows_of({"aaaaaaaa"})}, 1, 0);
    // 200 values and the index 199, by hand.
    DictionarySpec& dictionary = relation.spec.dictionaries[0];
    BatchLayout& values = dictionary.batches[0];
    Bytes numbers;
    for (int64_t i = 0; i < 200; ++i) {
        for (int byte = 0; byte < 8; ++byte) numbers.push_back(static_cast<uint8_t>(i + 1));
    }
    values.rows = values.nodes[0].length = 200;
    values.buffers[1] = {relation.files[0]->append(numbers), nullptr, 1600};
    relation.spec.batches[0].buffers[1].offset = relation.files[0]->append({199});
    relation.open();
    EXPECT_EQ(text_of(relation.reader()->read(0, 0, 1)[0], 0), std::string("xc8c8c8c8c8c8c8c8"));
}

TEST(transfer_nested_dictionaries_are_loaded_by_column) {
    TestRelation relation(4);
    const ColumnType words = dictionary_of(type_of(Layout::kBinary, 4));
    relation.add_column(type_of(Layout::kList, 4, {type_of(Layout::kStruct, 0, {words, type_of(Layout::kBool)})}));
    relation.add_column(words);
    relation.add_random_batch(40, 0);
    relation.add_random_batch(40, 1);
    relation.source = std::make_unique<Source>(relation.spec);
    Source& source = *relation.source;
    EXPECT_ERROR(kInternal, relation.reader());
    source.load_dictionaries({-1, 0}, relation.budget, relation.control);
    EXPECT(source.dictionary({0, 0, 0})->values.length > 0);
    EXPECT_ERROR(kInternal, relation.reader());  // column 1 is not loaded yet
    SourceReader(source, {0}, relation.budget, relation.control).read(0, 0, 10);
    source.load_dictionaries({1}, relation.budget, relation.control);
    const auto reader = relation.reader();
    relation.expect_slice(*reader, 0, 7, 30);
    relation.expect_slice(*reader, 1, 0, 40);
}

TEST(transfer_columns_with_the_same_dictionary_share_it) {
    TestRelation relation(5);
    relation.add_column(dictionary_of(type_of(Layout::kBinary, 4)));
    relation.add_column(dictionary_of(type_of(Layout::kBinary, 4)));
    relation.add_batch({rows_of({"a", "b"}), rows_of({"a", "b"})}, 2, 0);
    relation.spec.batches[0].dictionaries = {0, 0};
    relation.open();
    EXPECT(relation.source->dictionary({0}) == relation.source->dictionary({1}));
    relation.expect_slice(*relation.reader(), 0, 0, 2);
}

TEST(transfer_missing_dictionary_means_nulls) {
    TestRelation relation(6);
    relation.add_column(dictionary_of(type_of(Layout::kBinary, 4)));
    relation.add_batch({rows_of({"NULL", "NULL", "NULL"})}, 3, 0);
    relation.spec.batches[0].dictionaries = {-1};
    relation.open();
    relation.expect_slice(*relation.reader(), 0, 0, 3);
    relation.spec.batches[0].dictionaries = {7};
    EXPECT_ERROR(kFileCorrupt, Source{relation.spec});
}

TEST(transfer_dictionary_floats_compare_by_value) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    ColumnType type = type_of(Layout::kFixed, 8);
    type.order = Order::kFloat;
    std::vector<int32_t> indices;
    const auto doubles = unify(type, numbers<double>({-0.0, 1, nan, 0.0, -nan, 1, INFINITY, -INFINITY}), indices);
    EXPECT(indices == (std::vector<int32_t>{0, 1, 2, 0, 2, 1, 3, 4}));
    EXPECT(std::signbit(load_as<double>(doubles->values.data, 0)));  // the first seen is kept
    type.byte_width = 4;
    unify(type, numbers<float>({NAN, -NAN, 0.0f, -0.0f}), indices);
    EXPECT(indices == (std::vector<int32_t>{0, 0, 1, 1}));
    type.byte_width = 2;
    unify(type, numbers<uint16_t>({0x7c00, 0xfc00, 0x7e01, 0xffff, 0x8000, 0}), indices);
    EXPECT(indices == (std::vector<int32_t>{0, 1, 2, 2, 3, 3}));
    type.order = Order::kSigned;
    unify(type, numbers<uint16_t>({0x8000, 0, 0x7e01, 0xffff}), indices);
    EXPECT(indices == (std::vector<int32_t>{0, 1, 2, 3}));
}

TEST(transfer_dictionary_of_many_values) {
    std::vector<int32_t> indices;
    std::vector<Value> values;
    for (int64_t i = 0; i < 100000; ++i) {
        values.emplace_back();
        values.back().bytes = "value " + std::to_string(i * 7 % 50000);
    }
    const auto dictionary = unify(type_of(Layout::kBinary, 4), values, indices);
    EXPECT_EQ(dictionary->values.length, 50000);
    for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_EQ(text_of(dictionary->values, indices[i]), text_of(values[i], type_of(Layout::kBinary, 4)));
    }
}

TEST(transfer_dictionary_memory_is_budgeted_and_kept) {
    TestRelation relation(7);
    relation.add_column(dictionary_of(type_of(Layout::kBinary, 4)));
    std::vector<std::string> texts;
    for (int i = 0; i < 100; ++i) texts.push_back(std::string(10000, 'x') + std::to_string(i));
    relation.add_batch({rows_of(texts)}, 100, 0);
    relation.source = std::make_unique<Source>(relation.spec);
    MemoryBudget small(200 << 10);
    EXPECT_ERROR(kBudgetTooSmall, relation.source->load_dictionaries({0}, small, relation.control));
    EXPECT_EQ(small.used(), 0u);
    relation.source->load_dictionaries({0}, relation.budget, relation.control);
    EXPECT(relation.budget.used() >= 1000000);
    EXPECT(relation.source->dictionary({0})->bytes >= 1000000);
    JobControl cancelled;
    cancelled.cancelled = true;
    Source other(relation.spec);
    EXPECT_ERROR(kAborted, other.load_dictionaries({0}, relation.budget, cancelled));
    relation.source.reset();
    EXPECT_EQ(relation.budget.used(), 0u);
}

TEST(transfer_non_nullable_dictionary_with_a_null_value) {
    TestRelation relation(8);
    ColumnType type = dictionary_of(type_of(Layout::kBinary, 4));
    type.nullable = false;
    relation.add_column(type);
    std::vector<Value> values = rows_of({"a", "b"});
    values[1].items[0].null = true;
    values[1].items[0].bytes.clear();
    relation.add_batch({values}, 2, 0);
    relation.open();
    const auto reader = relation.reader();
    reader->read(0, 0, 1);
    EXPECT_ERROR(kFileCorrupt, reader->read(0, 0, 2));
}

}  // namespace spillway
