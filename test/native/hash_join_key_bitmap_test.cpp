// SPDX-License-Identifier: Apache-2.0
// The bitmap of an array join: every key of its range, none beside it, modulo the width of the key.
#include <random>
#include <set>

#include "cpu/hash_join/key_bitmap.hpp"
#include "support/test.hpp"

namespace spillway::test {

namespace {

const uint8_t* bytes(const std::vector<uint64_t>& keys) {
    return reinterpret_cast<const uint8_t*>(keys.data());
}

void insert(KeyBitmap& bitmap, const std::vector<uint64_t>& keys) {
    bitmap.insert(bytes(keys), static_cast<uint32_t>(keys.size()));
}

uint64_t count(const KeyBitmap& bitmap, const std::vector<uint64_t>& keys) {
    std::vector<uint8_t> found(keys.size());
    bitmap.find(bytes(keys), static_cast<uint32_t>(keys.size()), found.data());
    uint64_t sum = 0;
    for (const uint8_t each : found) sum += each;
    EXPECT_EQ(bitmap.count(bytes(keys), static_cast<uint32_t>(keys.size())), sum);
    return sum;
}

}  // namespace

TEST(key_bitmap_finds_what_was_inserted) {
    MemoryBudget budget(16 << 20);
    std::mt19937_64 random(3);
    for (const uint64_t values : {1, 63, 64, 65, 128, 1000, 70000}) {
        for (const uint64_t first : {0ULL, 5ULL, ~0ULL - 30, 1ULL << 63}) {
            KeyBitmap bitmap({first, values, 8}, budget);
            std::set<uint64_t> inserted;
            for (uint64_t i = 0; i < values; i += 1 + random() % 3) inserted.insert(first + i);
            insert(bitmap, std::vector<uint64_t>(inserted.begin(), inserted.end()));
            EXPECT(!bitmap.has_outside() && !bitmap.has_equal());
            std::vector<uint64_t> asked;
            uint64_t expected = 0;
            for (uint64_t i = 0; i < values + 200; ++i) {
                asked.push_back(first - 100 + i);
                expected += inserted.count(asked.back());
            }
            asked.push_back(first + (1ULL << 62));
            EXPECT_EQ(count(bitmap, asked), expected);
        }
    }
}

TEST(key_bitmap_of_a_narrow_key_is_modulo_its_width) {
    MemoryBudget budget(1 << 20);
    // -3 .. 4 as bytes, normalized without the bits above.
    KeyBitmap bitmap({static_cast<uint64_t>(-3), 8, 1}, budget);
    insert(bitmap, {0xfd, 0xff, 0, 4});
    EXPECT(!bitmap.has_outside());
    EXPECT_EQ(count(bitmap, {0xfd, 0xfe, 0xff, 0, 1, 4, 5, 0xfc}), 4u);
    insert(bitmap, {5});
    EXPECT(bitmap.has_outside());
    // All values of a byte, and of two.
    KeyBitmap all({static_cast<uint64_t>(-128), 256, 1}, budget);
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < 256; ++i) keys.push_back(i);
    insert(all, keys);
    EXPECT(!all.has_outside() && !all.has_equal());
    EXPECT_EQ(count(all, keys), 256u);
}

TEST(key_bitmap_tells_equal_keys_and_keys_outside) {
    MemoryBudget budget(1 << 20);
    KeyBitmap bitmap({10, 100, 8}, budget);
    insert(bitmap, {10, 109});
    EXPECT(!bitmap.has_outside() && !bitmap.has_equal());
    insert(bitmap, {110});
    EXPECT(bitmap.has_outside() && !bitmap.has_equal());
    EXPECT_EQ(count(bitmap, {110, 9}), 0u);  // remembered, not added
    insert(bitmap, {50, 51, 50});
    EXPECT(bitmap.has_equal());
}

TEST(key_bitmaps_merge_in_parts) {
    MemoryBudget budget(16 << 20);
    const DenseKeys keys{1000, 300000, 8};
    KeyBitmap all(keys, budget);
    KeyBitmap second(keys, budget);
    KeyBitmap third(keys, budget);
    std::vector<uint64_t> parts[3];
    for (uint64_t key = 1000; key < 301000; ++key) parts[key % 3].push_back(key);
    insert(all, parts[0]);
    insert(second, parts[1]);
    insert(third, parts[2]);
    const uint64_t middle = all.words() / 2 + 1;
    EXPECT(!all.merge({&second, &third}, 0, middle));
    EXPECT(!all.merge({&second, &third}, middle, all.words()));
    for (const auto& part : parts) EXPECT_EQ(count(all, part), part.size());
    KeyBitmap last(keys, budget);
    insert(last, {300999});
    EXPECT(!all.merge({&last}, 0, middle));
    EXPECT(all.merge({&last}, middle, all.words()));
}

}  // namespace spillway::test
