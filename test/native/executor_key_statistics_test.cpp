// SPDX-License-Identifier: Apache-2.0
// What the planner learns of key columns: ranges of every integer type, NULLs, frequent keys, pairs of two sides.
#include <algorithm>

#include "executor/cpu/key_statistics.hpp"
#include "executor/cpu/text_lengths.hpp"
#include "support/test_relation.hpp"

namespace spillway::test {

namespace {

KeySpec integer_key(int32_t column, int32_t width) {
    KeySpec key;
    key.column = column;
    key.width = width;
    return key;
}

// One column of integers, in batches of files and memory.
struct IntegerKeys : TestRelation {
    IntegerKeys(int32_t width, Order order, const std::vector<std::vector<int64_t>>& batches,
                const std::vector<int64_t>& null)
        : TestRelation(91), width(width) {
        ColumnType type = spillway::test::type_of(Layout::kFixed, width);
        type.order = order;
        add_column(type);
        int32_t file = 0;
        for (const std::vector<int64_t>& batch : batches) {
            std::vector<Value> values(batch.size());
            for (size_t i = 0; i < batch.size(); ++i) {
                values[i].bytes.assign(reinterpret_cast<const char*>(&batch[i]), static_cast<size_t>(width));
                values[i].null = std::find(null.begin(), null.end(), batch[i]) != null.end();
            }
            add_batch({values}, static_cast<int64_t>(batch.size()), file++ % 2 == 0 ? -1 : 0);
        }
        open();
    }
    KeyStatistics statistics(int64_t sample_rows, bool exact, int workers = 3) {
        return key_statistics(*source, {integer_key(0, width)}, sample_rows, exact, workers, budget, control);
    }
    const int32_t width;
};

// A multiplication by an odd number goes through all numbers below a power of two in an order of its own.
std::vector<int64_t> spread(int64_t count, int64_t factor) {
    std::vector<int64_t> keys;
    for (int64_t i = 0; i < count; ++i) keys.push_back((i * factor) % count);
    return keys;
}

}  // namespace

TEST(executor_key_statistics_know_the_range_of_every_type) {
    constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
    const auto expect = [](int32_t width, Order order, const std::vector<int64_t>& keys, int64_t min, int64_t max) {
        for (const bool exact : {false, true}) {
            IntegerKeys relation(width, order, {keys, {}, {keys[0]}}, {});
            const KeyStatistics found = relation.statistics(1 << 20, exact);
            EXPECT(found.has_range);
            EXPECT_EQ(found.min, min);
            EXPECT_EQ(found.max, max);
            EXPECT_EQ(found.rows, keys.size() + 1);
            EXPECT_EQ(found.nulls, 0u);
        }
    };
    expect(1, Order::kSigned, {-128, 127, 0}, -128, 127);
    expect(1, Order::kUnsigned, {255, 3, 128}, 3, 255);
    expect(4, Order::kSigned, {5, -2'000'000'000, 2'000'000'000}, -2'000'000'000, 2'000'000'000);
    expect(4, Order::kUnsigned, {5, 4'294'967'295}, 5, 4'294'967'295);
    expect(8, Order::kSigned, {1, kMin, 7, -1}, kMin, 7);
    expect(8, Order::kUnsigned, {7, 1, kMin, -1}, 1, -1);  // as bit patterns: the largest has all bits set
}

TEST(executor_key_statistics_look_at_every_row_for_exact_ranges) {
    std::vector<std::vector<int64_t>> batches(5);
    for (int64_t i = 0; i < 200'000; ++i) batches[static_cast<size_t>(i / 40'000)].push_back(i % 1000 + 100);
    batches[1][17] = -7;
    batches[3][39'999] = 5000;
    for (const int workers : {1, 3}) {
        IntegerKeys relation(8, Order::kSigned, batches, {100, 101});
        const KeyStatistics found = relation.statistics(1000, true, workers);
        EXPECT_EQ(found.min, -7);
        EXPECT_EQ(found.max, 5000);
        EXPECT_EQ(found.rows, 200'000u);
        // 400 in all, of which two are those of -7 and 5000 or not: what was written over.
        const int64_t over = (17 % 1000 < 2) + (39'999 % 1000 < 2);
        EXPECT_EQ(found.nulls, static_cast<uint64_t>(400 - over));
        EXPECT(found.sampled_rows > 500 && found.sampled_rows <= 2000);
    }
}

TEST(executor_key_statistics_count_distinct_and_frequent_keys) {
    std::vector<int64_t> keys;
    for (int64_t i = 0; i < 4096; ++i) keys.push_back(i % 4 == 0 ? -1 : i % 64);
    IntegerKeys relation(4, Order::kSigned, {keys}, {});
    const KeyStatistics found = relation.statistics(4096, false);
    EXPECT_EQ(found.sampled_rows, 4096u);
    EXPECT_EQ(found.sampled_distinct, 49u);
    EXPECT_EQ(found.piece_distinct, 16u * 49u);  // each of the 16 pieces has all keys
    EXPECT_EQ(found.heaviest_share, 0.25);
    // A sample holds fewer rows, with about the same shares.
    const KeyStatistics part = relation.statistics(1024, false);
    EXPECT_EQ(part.sampled_rows, 1024u);
    EXPECT_EQ(part.heaviest_share, 0.25);
}

TEST(executor_key_statistics_count_keys_that_lie_together_once_in_each_piece) {
    std::vector<int64_t> keys;
    for (int64_t i = 0; i < 65536; ++i) keys.push_back(i / 4);
    IntegerKeys relation(4, Order::kSigned, {keys}, {});
    const KeyStatistics found = relation.statistics(4096, false);
    EXPECT_EQ(found.sampled_rows, 4096u);
    EXPECT_EQ(found.sampled_distinct, 1024u);
    EXPECT_EQ(found.piece_distinct, 1024u);
}

TEST(executor_key_statistics_tell_keys_in_order_from_others) {
    IntegerKeys sorted(8, Order::kSigned, {spread(65536, 1)}, {});
    EXPECT(sorted.statistics(4096, false).piece_range_share < 0.01);
    IntegerKeys mixed(8, Order::kSigned, {spread(65536, 40503)}, {});
    const double share = mixed.statistics(4096, false).piece_range_share;
    EXPECT(share > 0.9 && share <= 1);
    IntegerKeys equal(8, Order::kSigned, {std::vector<int64_t>(1000, 7)}, {});
    EXPECT_EQ(equal.statistics(1000, false).piece_range_share, 1.0);
}

TEST(executor_key_statistics_without_a_range) {
    IntegerKeys none(8, Order::kSigned, {{}}, {});
    EXPECT(!none.statistics(100, true).has_range);
    EXPECT_EQ(none.statistics(100, true).rows, 0u);
    IntegerKeys nulls(8, Order::kSigned, {{5, 5, 5}}, {5});
    const KeyStatistics found = nulls.statistics(100, true);
    EXPECT(!found.has_range);
    EXPECT_EQ(found.nulls, 3u);
    EXPECT_EQ(found.heaviest_share, 0.0);
    IntegerKeys pair(4, Order::kSigned, {{1, 2, 3}}, {});
    const std::vector<KeySpec> twice = {integer_key(0, 4), integer_key(0, 4)};
    EXPECT(!key_statistics(*pair.source, twice, 100, true, 1, pair.budget, pair.control).has_range);
}

TEST(executor_key_statistics_estimate_pairs) {
    constexpr int64_t kRows = 1 << 14;
    IntegerKeys left(8, Order::kSigned, {spread(kRows, 5077)}, {});
    IntegerKeys right(8, Order::kSigned, {spread(kRows, 7919), {1, 1, 1, 1}}, {});
    const auto pairs = [&](IntegerKeys& a, IntegerKeys& b, int64_t sample_rows) {
        return sampled_pairs(*a.source, {integer_key(0, 8)}, *b.source, {integer_key(0, 8)}, sample_rows, a.budget,
                             a.control)
            .pairs;
    };
    EXPECT_EQ(pairs(left, right, 1 << 20), static_cast<double>(kRows + 4));  // all rows of both
    // An eighth of each side has a 64th of the pairs, about: the estimate is for all.
    const double estimate = pairs(left, right, kRows / 8);
    EXPECT(estimate > kRows * 0.5 && estimate < kRows * 2.0);
    IntegerKeys none(8, Order::kSigned, {{}}, {});
    EXPECT_EQ(pairs(left, none, 100), 0.0);
    EXPECT_EQ(pairs(none, left, 100), 0.0);
}

TEST(executor_key_statistics_count_the_pieces_that_pairs_come_of) {
    constexpr int64_t kRows = 1 << 16;
    std::vector<int64_t> sorted;
    for (int64_t i = 0; i < kRows; ++i) sorted.push_back(i);
    IntegerKeys ascending(8, Order::kSigned, {sorted}, {});
    IntegerKeys alike(8, Order::kSigned, {sorted}, {});
    IntegerKeys mixed(8, Order::kSigned, {spread(kRows, 7919)}, {});
    const auto sampled = [&](IntegerKeys& a, IntegerKeys& b, int64_t sample_rows) {
        return sampled_pairs(*a.source, {integer_key(0, 8)}, *b.source, {integer_key(0, 8)}, sample_rows, a.budget,
                             a.control);
    };
    // An eighth of each side is 256 pieces: where both are sorted, few have keys in common, and those have many.
    const SampledPairs clustered = sampled(ascending, alike, kRows / 8);
    const SampledPairs scattered = sampled(ascending, mixed, kRows / 8);
    EXPECT(clustered.pieces <= 128);
    EXPECT(scattered.pieces >= 512);
    EXPECT(scattered.pairs > kRows * 0.8 && scattered.pairs < kRows * 1.25);
    const SampledPairs whole = sampled(ascending, alike, kRows);
    EXPECT_EQ(whole.pairs, static_cast<double>(kRows));
    EXPECT_EQ(whole.pieces, static_cast<uint64_t>(kRows / 32));
}

// Of a job whose other sources are looked at meanwhile: they may have the memory.
TEST(executor_key_statistics_without_memory_do_not_stop_the_job) {
    std::vector<std::vector<int64_t>> batches(4);
    for (int64_t i = 0; i < 300'000; ++i) batches[static_cast<size_t>(i / 75'000)].push_back(i);
    IntegerKeys relation(8, Order::kSigned, batches, {});
    MemoryBudget small(64 << 10);
    EXPECT_ERROR(kBudgetTooSmall,
                 key_statistics(*relation.source, {integer_key(0, 8)}, 1000, true, 3, small, relation.control));
    EXPECT(!relation.control.cancelled.load());

    TestRelation texts(92);
    texts.add_column(type_of(Layout::kBinary, 4));
    std::vector<Value> values(300'000);
    for (size_t i = 0; i < values.size(); ++i) values[i].bytes = std::string(i % 20, 'x');
    texts.add_batch({values}, static_cast<int64_t>(values.size()), 0);
    texts.open();
    EXPECT_ERROR(kBudgetTooSmall, longest_texts(*texts.source, {0}, 3, small, texts.control));
    EXPECT(!texts.control.cancelled.load());
    EXPECT(longest_texts(*texts.source, {0}, 3, texts.budget, texts.control) == std::vector<uint64_t>{19});
}

}  // namespace spillway::test
