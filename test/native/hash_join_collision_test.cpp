// SPDX-License-Identifier: Apache-2.0
// Different keys of the same hash.
#include <cstring>

#include "cpu/hash_join/join_table.hpp"
#include "cpu/row/row_encoder.hpp"
#include "support/colliding_keys.hpp"
#include "support/table.hpp"
#include "support/test.hpp"

namespace spillway::test {

TEST(hash_join_tables_compare_wide_keys_beyond_their_hash) {
    KeySpec spec;
    spec.kind = KeyKind::kFixedBytes;
    spec.width = 16;
    const RowLayout layout = RowLayout::make({type_of(Kind::kFixed16, false)}, {spec}, {}, NullKeys::kDrop);
    // The last two are not on the build side.
    const std::vector<Value> values = {colliding_key(1, false), colliding_key(1, true),  colliding_key(2, true),
                                       colliding_key(1, true),  colliding_key(2, false), colliding_key(3, false)};
    const uint64_t matches[] = {1, 2, 1, 2, 0, 0};
    const Column column = make_column(Kind::kFixed16, false, values);
    MemoryBudget budget(1 << 20);
    RowEncoder encoder(layout, {0}, budget);
    const EncodedRows encoded = encoder.encode({column.view()}, 0, 6, 0);
    std::vector<const uint8_t*> rows;
    for (size_t i = 0; i < values.size(); ++i) rows.push_back(encoded.data + i * layout.row_bytes);
    EXPECT_EQ(first_word(rows[0]), first_word(rows[1]));
    EXPECT_EQ(first_word(rows[2]), first_word(rows[4]));
    const BuildRows build({{encoded.data, 4}}, layout);
    for (const HashingScheme scheme : {HashingScheme::kLinearProbing, HashingScheme::kBucketChaining}) {
        const auto table = JoinTable::build(scheme, TableUse::kFindAndCount, build, layout, 0, ~0ULL, budget);
        for (size_t i = 0; i < values.size(); ++i) {
            uint32_t number = kNoRow;
            table->find(&rows[i], 1, &number);
            uint64_t found = 0;
            for (; number != kNoRow; number = table->next_equal(number)) {
                EXPECT(std::memcmp(build.row(number), rows[i], layout.row_bytes) == 0);
                ++found;
            }
            EXPECT_EQ(found, matches[i]);
            EXPECT_EQ(table->count_matches(&rows[i], 1), matches[i]);
        }
    }
}

}  // namespace spillway::test
