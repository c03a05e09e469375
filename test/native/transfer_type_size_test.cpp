// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "model/type_size.hpp"
#include "support/arrow_value.hpp"
#include "support/test.hpp"
#include "transfer/source.hpp"

namespace spillway::test {

namespace {

// Fixed-size lists in one another, the first size innermost.
ColumnType chain(ColumnType leaf, const std::vector<int64_t>& sizes) {
    for (const int64_t size : sizes) leaf = list_of_size(size, leaf);
    return leaf;
}

// -1, 2^61, 2^62, 2^63, 2^64 and 2^64 + 2^32 items: products that wrap to nothing, to little and to almost all.
const std::vector<std::vector<int64_t>> kHugeChains = {
    {65535, 65537, 641, 6700417}, {2, 1 << 30, 1 << 30},  {4, 1 << 30, 1 << 30},
    {8, 1 << 30, 1 << 30},        {16, 1 << 30, 1 << 30}, {65537, 65536, 1 << 16, 1 << 16},
};

std::vector<ColumnType> leaves() {
    return {type_of(Layout::kNull),
            type_of(Layout::kBool),
            type_of(Layout::kFixed, 4),
            type_of(Layout::kFixed, 16),
            type_of(Layout::kBinary, 4),
            type_of(Layout::kBinary, 8),
            type_of(Layout::kView),
            type_of(Layout::kList, 4, {type_of(Layout::kFixed, 4)}),
            type_of(Layout::kStruct, 0, {type_of(Layout::kBinary, 4), type_of(Layout::kFixed, 4)}),
            type_of(Layout::kStruct),
            type_of(Layout::kUnionSparse, 0, {type_of(Layout::kFixed, 4), type_of(Layout::kBinary, 4)}),
            type_of(Layout::kUnionDense, 0, {type_of(Layout::kFixed, 4), type_of(Layout::kBinary, 4)}),
            type_of(Layout::kDictionary, 4, {type_of(Layout::kBinary, 4)})};
}

void expect_refused(ColumnType type) {
    type.name = "p";
    try {
        check_row_size(type, "p");
        EXPECT(false);
    } catch (const Error& error) {
        EXPECT(error.code() == ErrorCode::kUnsupportedType);
        EXPECT(error.message().find("'p'") != std::string::npos);
    }
    // Every relation refuses it as well, whoever makes it.
    SourceSpec spec;
    spec.columns.push_back(std::make_shared<ColumnType>(type));
    EXPECT_ERROR(kUnsupportedType, Source(std::move(spec)));
}

}  // namespace

TEST(type_size_of_a_row_is_what_arrow_takes) {
    EXPECT_EQ(row_bits(type_of(Layout::kFixed, 8)), 65u);
    EXPECT_EQ(row_bits(type_of(Layout::kBinary, 4)), 33u);
    EXPECT_EQ(row_bits(chain(type_of(Layout::kFixed, 8), {3, 2})), 1 + 2 * (1 + 3 * 65u));
    EXPECT_EQ(row_bits(type_of(Layout::kStruct, 0, {type_of(Layout::kBool), type_of(Layout::kNull)})), 4u);
}

TEST(type_size_refuses_nested_lists_whose_sizes_multiply) {
    for (const std::vector<int64_t>& sizes : kHugeChains) {
        for (const ColumnType& leaf : leaves()) {
            const ColumnType type = chain(leaf, sizes);
            expect_refused(type);
            expect_refused(type_of(Layout::kStruct, 0, {type}));
            expect_refused(type_of(Layout::kList, 4, {type}));
            expect_refused(type_of(Layout::kUnionDense, 0, {type_of(Layout::kBool), type}));
            expect_refused(type_of(Layout::kDictionary, 4, {type}));
            expect_refused(chain(type, {0}));
        }
    }
    EXPECT_EQ(row_bits(chain(type_of(Layout::kFixed, 4), kHugeChains[3])), std::numeric_limits<uint64_t>::max());
}

TEST(type_size_bound_is_one_gibibyte) {
    check_row_size(type_of(Layout::kFixed, 1 << 30), "p");
    check_row_size(chain(type_of(Layout::kFixed, 4), {1 << 27}), "p");
    expect_refused(type_of(Layout::kFixed, (1 << 30) + 1));
    expect_refused(type_of(Layout::kFixed, std::numeric_limits<int32_t>::max()));
    expect_refused(chain(type_of(Layout::kFixed, 4), {1 << 28}));
    // Fields of a struct add up, beyond 32 bits as well.
    std::vector<ColumnType> fields(5, type_of(Layout::kFixed, 1 << 30));
    expect_refused(type_of(Layout::kStruct, 0, fields));
}

TEST(type_size_refuses_unions_without_members) {
    for (const Layout layout : {Layout::kUnionSparse, Layout::kUnionDense}) {
        expect_refused(type_of(layout));
        expect_refused(type_of(Layout::kList, 4, {type_of(layout)}));
        expect_refused(type_of(Layout::kStruct, 0, {type_of(Layout::kBool), type_of(layout)}));
        expect_refused(chain(type_of(layout), {0}));
    }
}

}  // namespace spillway::test
