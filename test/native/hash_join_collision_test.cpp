// SPDX-License-Identifier: Apache-2.0
// Different keys of the same hash.
#include <cstring>

#include "base/hash.hpp"
#include "cpu/hash_join/join_table.hpp"
#include "cpu/row/row_encoder.hpp"
#include "support/table.hpp"
#include "support/test.hpp"

namespace spillway::test {

// A hash of 64 bits is no key: whoever chooses the keys can make it equal. Here the stored hashes are made equal.
TEST(hash_join_tables_compare_wide_keys_beyond_their_hash) {
    KeySpec spec;
    spec.kind = KeyKind::kFixedBytes;
    spec.width = 16;
    const RowLayout layout = RowLayout::make({type_of(Kind::kFixed16, false)}, {spec}, {}, NullKeys::kDrop);
    std::vector<Value> values;
    for (uint64_t i : {1, 2, 3, 1, 4}) values.push_back(make_value(Kind::kFixed16, i));
    const Column column = make_column(Kind::kFixed16, false, values);
    MemoryBudget budget(1 << 20);
    RowEncoder encoder(layout, {0}, budget);
    const EncodedRows encoded = encoder.encode({column.view()}, 0, 5, 0);
    std::vector<uint8_t> bytes(encoded.data, encoded.data + 5 * layout.row_bytes);
    const uint64_t hash = first_word(bytes.data());
    std::vector<const uint8_t*> rows;
    for (size_t i = 0; i < 5; ++i) {
        std::memcpy(bytes.data() + i * layout.row_bytes, &hash, sizeof hash);
        rows.push_back(bytes.data() + i * layout.row_bytes);
    }
    const BuildRows build({{bytes.data(), 4}}, layout);
    for (const HashingScheme scheme : {HashingScheme::kLinearProbing, HashingScheme::kBucketChaining}) {
        const auto table = JoinTable::build(scheme, TableUse::kFindAndCount, build, layout, 0, ~0ULL, budget);
        const uint64_t matches[] = {2, 1, 1, 2, 0};
        for (size_t i = 0; i < 5; ++i) {
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
