// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "memory/page_packing.hpp"
#include "support/test.hpp"

namespace spillway {

namespace {

constexpr uint32_t kRowCounts[] = {0, 1, 2, 63, 64, 65, 127, 128, 129, 255, 256, 1000};
constexpr uint32_t kRowBytes[] = {8, 16, 24, 40, 64, 104, 200};

// Returns the packed size. The output blocks are exactly as long as promised, so that the sanitizer sees an overrun,
// and begin at an odd address.
uint64_t round_trip(const std::vector<uint64_t>& words, uint32_t rows, uint32_t row_bytes) {
    std::vector<uint8_t> raw(static_cast<size_t>(rows) * row_bytes);
    if (!raw.empty()) std::memcpy(raw.data(), words.data(), raw.size());
    std::vector<uint8_t> packed(packed_bytes_max(rows, row_bytes) + 1);
    const uint64_t bytes = pack_rows(raw.data(), rows, row_bytes, packed.data() + 1);
    if (bytes == 0) return 0;
    EXPECT(bytes * 8 < static_cast<uint64_t>(rows) * row_bytes * 7);
    const std::vector<uint8_t> moved(packed.begin() + 1, packed.begin() + 1 + static_cast<std::ptrdiff_t>(bytes));
    std::vector<uint8_t> back(raw.size(), 0xcd);
    unpack_rows(moved.data(), moved.size(), rows, row_bytes, back.data());
    EXPECT(raw == back);
    return bytes;
}

}  // namespace

TEST(memory_page_packing_round_trips_every_width) {
    std::mt19937_64 random(11);
    int packed = 0;
    for (const uint32_t rows : kRowCounts) {
        for (const uint32_t row_bytes : kRowBytes) {
            const uint32_t words_per_row = row_bytes / 8;
            std::vector<uint64_t> words(static_cast<size_t>(rows) * words_per_row);
            for (uint32_t first_width = 0; first_width <= 64; ++first_width) {
                for (size_t i = 0; i < words.size(); ++i) {
                    // Word 0 has the width under test and an extreme value now and then, the others walk through all.
                    const auto width = static_cast<uint32_t>((first_width + (i % words_per_row) * 23) % 65);
                    const uint64_t mask = width == 64 ? UINT64_MAX : (uint64_t{1} << width) - 1;
                    const uint64_t base = UINT64_MAX - mask;  // the highest frame of reference that has room
                    const uint64_t value = random() % 16 == 0 ? mask : random() & mask;
                    words[i] = base + (random() % 16 == 0 ? 0 : value);
                }
                packed += round_trip(words, rows, row_bytes) > 0;
            }
        }
    }
    EXPECT(packed > 2000);  // the test is about packed pages, not about pages that were given up
}

TEST(memory_page_packing_round_trips_extreme_values) {
    for (const uint64_t low : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 63, UINT64_MAX - 1, UINT64_MAX}) {
        for (const uint64_t high : {low, UINT64_MAX, (uint64_t{1} << 63) + (low >> 1)}) {
            std::vector<uint64_t> words(1000 * 4);
            for (size_t i = 0; i < words.size(); ++i) words[i] = i % 4 != 0 ? low : (i % 3 == 0 ? low : high);
            EXPECT(round_trip(words, 1000, 32) > 0);
        }
    }
}

TEST(memory_page_packing_constant_words_cost_nothing) {
    const std::vector<uint64_t> words(static_cast<size_t>(4096) * 25, 0x123456789abcdef0ULL);
    EXPECT_EQ(round_trip(words, 4096, 200), 8u + 25 * 8 + 32);
}

TEST(memory_page_packing_gives_up_on_random_rows) {
    std::mt19937_64 random(5);
    std::vector<uint64_t> words(static_cast<size_t>(1000) * 4);
    for (uint64_t& word : words) word = random();
    EXPECT_EQ(round_trip(words, 1000, 32), 0u);
    for (size_t i = 0; i < words.size(); ++i) words[i] = i % 4 == 3 ? words[i] >> 40 : words[i];
    EXPECT(round_trip(words, 1000, 32) > 0);  // three random words, one of 24 bits: 27/32
}

TEST(memory_page_packing_refuses_what_it_did_not_write) {
    std::vector<uint64_t> words(1000);
    for (size_t i = 0; i < words.size(); ++i) words[i] = i;
    std::vector<uint8_t> packed(packed_bytes_max(1000, 8));
    const uint64_t bytes = pack_rows(reinterpret_cast<const uint8_t*>(words.data()), 1000, 8, packed.data());
    EXPECT(bytes > 0);
    std::vector<uint8_t> out(8000);
    EXPECT_ERROR(kInternal, unpack_rows(packed.data(), bytes, 999, 8, out.data()));
    EXPECT_ERROR(kInternal, unpack_rows(packed.data(), bytes, 500, 16, out.data()));
    EXPECT_ERROR(kInternal, unpack_rows(packed.data(), bytes - 8, 1000, 8, out.data()));
    EXPECT_ERROR(kInternal, unpack_rows(packed.data(), 4, 1000, 8, out.data()));
    packed[16] = 65;  // the width
    EXPECT_ERROR(kInternal, unpack_rows(packed.data(), bytes, 1000, 8, out.data()));
    EXPECT_ERROR(kInternal, pack_rows(packed.data(), 10, 12, out.data()));
}

}  // namespace spillway
