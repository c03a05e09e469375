// SPDX-License-Identifier: Apache-2.0
// The three hashing schemes behind one interface: same matches, whatever the keys look like.
#include <sys/mman.h>

#include <algorithm>
#include <map>

#include "base/hash.hpp"
#include "cpu/hash_join/join_table.hpp"
#include "cpu/hash_join/linear_probing_table.hpp"
#include "cpu/hash_join/perfect_table.hpp"
#include "support/table.hpp"
#include "support/test.hpp"

namespace spillway::test {

namespace {

constexpr HashingScheme kSchemes[] = {HashingScheme::kLinearProbing, HashingScheme::kBucketChaining,
                                      HashingScheme::kPerfect};

RowLayout one_key_layout() {
    KeySpec spec;
    return RowLayout::make({type_of(Kind::kInt64, false)}, {spec}, {}, NullKeys::kDrop);
}

// Rows of one word each, in spans of at most `span` rows as pages would hold them.
struct WordRows {
    std::vector<uint64_t> words;
    std::vector<RowSpan> spans;

    WordRows(const std::vector<uint64_t>& keys, uint32_t span) {
        for (uint64_t key : keys) words.push_back(mix64(key));
        for (size_t i = 0; i < words.size(); i += span) {
            const auto count = std::min<size_t>(span, words.size() - i);
            spans.push_back({reinterpret_cast<const uint8_t*>(words.data() + i), static_cast<uint32_t>(count)});
        }
    }
};

struct Sides {
    const BuildRows& build;
    const WordRows& probe;
    std::vector<uint64_t> matches;  // of each probe row
};

// finder: for kFindAndCount; counter: for kCount.
void check_tables(const JoinTable& finder, const JoinTable& counter, const Sides& sides) {
    uint64_t expected = 0;
    std::vector<const uint8_t*> all;
    for (size_t i = 0; i < sides.matches.size(); ++i) {
        const auto* row = reinterpret_cast<const uint8_t*>(&sides.probe.words[i]);
        all.push_back(row);
        expected += sides.matches[i];
        uint32_t number = kNoRow;
        finder.find(&row, 1, &number);
        uint64_t found = 0;
        for (; number != kNoRow; number = finder.next_equal(number)) {
            EXPECT_EQ(first_word(sides.build.row(number)), sides.probe.words[i]);
            EXPECT(++found <= sides.matches[i]);
        }
        EXPECT_EQ(found, sides.matches[i]);
    }
    EXPECT_EQ(finder.count_matches(all.data(), static_cast<int64_t>(all.size())), expected);
    EXPECT_EQ(counter.count_matches(all.data(), static_cast<int64_t>(all.size())), expected);
}

void check(const std::vector<uint64_t>& build_keys, const std::vector<uint64_t>& probe_keys, uint64_t hash_mask,
           uint32_t span = 7) {
    const RowLayout layout = one_key_layout();
    const WordRows build(build_keys, span);
    const WordRows probe(probe_keys, 1000);
    const BuildRows rows(build.spans, layout);
    std::map<uint64_t, uint64_t> counts;
    for (uint64_t key : build_keys) ++counts[key];
    Sides sides{rows, probe, {}};
    for (uint64_t key : probe_keys) sides.matches.push_back(counts.count(key) != 0 ? counts[key] : 0);
    MemoryBudget budget(64 << 20);
    for (HashingScheme scheme : kSchemes) {
        const auto made = [&](TableUse use) {
            return JoinTable::build(scheme, use, rows, layout, 1 << 20, hash_mask, budget);
        };
        check_tables(*made(TableUse::kFindAndCount), *made(TableUse::kCount), sides);
    }
    // The planner takes it for such keys only where the processor lacks AVX2, so it is asked for by name.
    check_tables(LinearProbingTable(rows, layout, TableUse::kFindAndCount, hash_mask, budget),
                 LinearProbingTable(rows, layout, TableUse::kCount, hash_mask, budget), sides);
}

}  // namespace

TEST(hash_join_tables_find_every_match) {
    std::mt19937_64 random(11);
    for (uint64_t distinct : {1, 3, 50, 100000}) {
        for (size_t rows : {0, 1, 6, 7, 8, 300}) {
            std::vector<uint64_t> build;
            std::vector<uint64_t> probe;
            for (size_t i = 0; i < rows; ++i) build.push_back(random() % distinct);
            for (size_t i = 0; i < 200; ++i) probe.push_back(random() % (2 * distinct));
            check(build, probe, ~0ULL);
            check(build, probe, 0);
        }
    }
}

TEST(hash_join_tables_number_the_rows_of_long_spans) {
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < 6000; ++i) keys.push_back(i / 2 + i % 2 * (i % 3));  // some of them twice
    check(keys, keys, ~0ULL, 3000);
}

TEST(hash_join_tables_tell_extreme_keys_apart) {
    const std::vector<uint64_t> keys = {0, 1, ~0ULL, 1ULL << 63, (1ULL << 63) - 1, 0xffffffffULL, 1ULL << 32};
    check(keys, keys, ~0ULL);
}

TEST(hash_join_perfect_table_is_used_for_dense_signed_keys_only) {
    const RowLayout layout = one_key_layout();
    std::vector<uint64_t> dense;
    for (int64_t key = -50; key < 50; ++key) dense.push_back(static_cast<uint64_t>(key));
    const WordRows rows(dense, 16);
    const auto range = key_range(BuildRows(rows.spans, layout));
    EXPECT(range.has_value());
    EXPECT_EQ(range->span, 99u);
    MemoryBudget budget(1 << 20);
    const BuildRows build(rows.spans, layout);
    const auto table = JoinTable::build(HashingScheme::kPerfect, TableUse::kFind, build, layout, 100, ~0ULL, budget);
    EXPECT(dynamic_cast<const PerfectTable*>(table.get()) != nullptr);
    const auto refused = JoinTable::build(HashingScheme::kPerfect, TableUse::kFind, build, layout, 99, ~0ULL, budget);
    EXPECT(dynamic_cast<const PerfectTable*>(refused.get()) == nullptr);
}

TEST(hash_join_perfect_table_takes_no_more_memory_than_linear_probing) {
    const RowLayout layout = one_key_layout();
    const WordRows rows({0, 1 << 18}, 16);
    const BuildRows build(rows.spans, layout);
    MemoryBudget budget(8 << 20);
    const auto table =
        JoinTable::build(HashingScheme::kPerfect, TableUse::kFind, build, layout, 1 << 20, ~0ULL, budget);
    EXPECT(dynamic_cast<const PerfectTable*>(table.get()) == nullptr);
    EXPECT(budget.peak() <= 8192);
}

TEST(hash_join_perfect_table_finds_words_in_dense_and_sparse_ranges_with_any_number_of_workers) {
    const RowLayout layout = one_key_layout();
    for (const uint64_t stride : {1, 3, 5, 400}) {
        for (const uint64_t equal : {0, 1, 5000}) {
            std::vector<uint64_t> keys;
            for (uint64_t i = 0; i < 40'000; ++i) keys.push_back(i * stride - 70'000);
            for (uint64_t i = 0; i < equal; ++i) keys.push_back(keys[i * 3]);
            const WordRows rows(keys, 1000);
            const BuildRows build(rows.spans, layout);
            std::map<uint64_t, uint64_t> counts;
            for (uint64_t key : keys) ++counts[key];
            std::vector<uint64_t> probes = {0, ~0ULL, 1ULL << 63, (1ULL << 63) - 1, keys.front() - 1, keys.back() + 1};
            for (uint64_t key = keys.front() - 10; probes.size() < 1024; key += 7) probes.push_back(key);
            for (const int workers : {1, 4}) {
                MemoryBudget budget(256 << 20);
                const PerfectTable table(build, layout, *key_range(build), budget, workers);
                EXPECT_EQ(table.unique(), equal == 0);
                std::vector<int32_t> positions(probes.size());
                std::vector<uint32_t> numbers(probes.size());
                const auto* words = reinterpret_cast<const uint8_t*>(probes.data());
                const int64_t found = table.find_words(words, 1024, positions.data(), numbers.data());
                int64_t next = 0;
                for (size_t i = 0; i < probes.size(); ++i) {
                    const auto known = counts.find(probes[i]);
                    if (known == counts.end()) continue;
                    EXPECT(next < found && positions[static_cast<size_t>(next)] == static_cast<int32_t>(i));
                    uint64_t rows_of_key = 0;
                    for (uint32_t n = numbers[static_cast<size_t>(next++)]; n != kNoRow; n = table.next_equal(n)) {
                        EXPECT_EQ(unmix64(first_word(build.row(n))), probes[i]);
                        ++rows_of_key;
                    }
                    EXPECT_EQ(rows_of_key, known->second);
                }
                EXPECT_EQ(next, found);
            }
        }
    }
}

TEST(hash_join_table_stays_within_its_stated_bytes) {
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < 5000; ++i) keys.push_back(i % 1000);
    const WordRows rows(keys, 64);
    const RowLayout layout = one_key_layout();
    const BuildRows build(rows.spans, layout);
    for (const TableUse use : {TableUse::kFind, TableUse::kCount, TableUse::kFindAndCount}) {
        for (HashingScheme scheme : kSchemes) {
            MemoryBudget budget(64 << 20);
            const auto table = JoinTable::build(scheme, use, build, layout, 1 << 20, ~0ULL, budget);
            const uint64_t stated = JoinTable::bytes_for(scheme, use, layout, build.rows(), build.numbers());
            EXPECT(budget.used() <= stated);
        }
    }
}

TEST(hash_join_table_without_room_for_equal_keys_gives_up_at_the_first) {
    const RowLayout layout = one_key_layout();
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < 3000; ++i) keys.push_back(i * 7);
    for (const bool equal : {false, true}) {
        if (equal) keys.push_back(7 * 1234);
        const WordRows rows(keys, 100);
        const BuildRows build(rows.spans, layout);
        for (const TableUse use : {TableUse::kFind, TableUse::kCount, TableUse::kFindAndCount}) {
            for (const bool tight : {false, true}) {
                const TableRoom room{false, tight};
                MemoryBudget budget(64 << 20);
                const auto table =
                    JoinTable::build(HashingScheme::kLinearProbing, use, build, layout, 0, ~0ULL, budget, room);
                const bool gives_up =
                    JoinTable::counts_streamed(HashingScheme::kLinearProbing, TableUse::kCount, layout);
                EXPECT_EQ(table == nullptr, equal && gives_up);
                const uint64_t stated = JoinTable::bytes_for(HashingScheme::kLinearProbing, use, layout, build.rows(),
                                                             build.numbers(), room);
                EXPECT(budget.used() <= stated);
                EXPECT(stated <=
                       JoinTable::bytes_for(HashingScheme::kLinearProbing, use, layout, build.rows(), build.numbers()));
            }
        }
    }
}

TEST(hash_join_counter_is_filled_from_rows_that_do_not_stay) {
    const RowLayout layout = one_key_layout();
    if (!JoinTable::counts_streamed(HashingScheme::kLinearProbing, TableUse::kCount, layout)) return;  // no kernels
    std::mt19937_64 random(12);
    // The words that mark free slots are among the keys: then all rows have to come once more.
    std::vector<uint64_t> keys = {unmix64(~0ULL), unmix64(mix64(0)), 5, 5, 5};
    for (int i = 0; i < 5000; ++i) keys.push_back(random() % 3000);
    std::map<uint64_t, uint64_t> counts;
    for (uint64_t key : keys) ++counts[key];
    int rounds = 0;
    const EachSpan each = [&](const std::function<bool(const RowSpan&)>& body) {
        ++rounds;
        std::vector<uint64_t> page;
        for (size_t i = 0; i < keys.size(); i += 33) {
            page.clear();
            for (size_t j = i; j < std::min(keys.size(), i + 33); ++j) page.push_back(mix64(keys[j]));
            if (!body({reinterpret_cast<const uint8_t*>(page.data()), static_cast<uint32_t>(page.size())})) return;
            std::fill(page.begin(), page.end(), 0);  // whoever still reads it counts wrongly
        }
    };
    MemoryBudget budget(64 << 20);
    EXPECT(JoinTable::build_counter(keys.size(), 8, each, ~0ULL, budget, {false, false}) == nullptr);
    rounds = 0;
    for (const bool tight : {false, true}) {
        const auto table = JoinTable::build_counter(keys.size(), 8, each, ~0ULL, budget, {true, tight});
        std::vector<uint64_t> words;
        uint64_t expected = 0;
        for (uint64_t key = 0; key < 6000; ++key) {
            words.push_back(mix64(key));
            expected += counts.count(key) != 0 ? counts[key] : 0;
        }
        std::vector<const uint8_t*> rows;
        for (const uint64_t& word : words) rows.push_back(reinterpret_cast<const uint8_t*>(&word));
        EXPECT_EQ(table->count_matches(rows.data(), static_cast<int64_t>(rows.size())), expected);
    }
    EXPECT(rounds > 2);
}

TEST(hash_join_linear_probing_keeps_the_word_that_marks_free_slots) {
    // Words are mixed keys: these keys mix to the first marker of free slots and to the one that replaces it.
    const uint64_t first = unmix64(~0ULL);
    const uint64_t second = unmix64(mix64(0));
    check({first, second, 1, 2, first}, {first, second, 1, 3}, ~0ULL);
    // Equal keys before it: they come again when the slots are filled anew.
    check({5, 6, 5, first, 5, 6, second, 7}, {5, 6, 7, first, second}, ~0ULL);
    check({5, 6, 5, first, 5, 6, second, 7}, {5, 6, 7, first, second}, 0);
}

TEST(hash_join_probe_keys_that_mark_free_slots_match_nothing) {
    const uint64_t first = unmix64(~0ULL);
    const uint64_t second = unmix64(mix64(0));
    for (const uint64_t hash_mask : {~0ULL, 0ULL}) {
        for (const size_t rows : {0, 1, 7, 8, 9, 1000}) {
            std::vector<uint64_t> build;
            for (size_t i = 0; i < rows; ++i) build.push_back(i);
            check(build, {first, second, 1, 3}, hash_mask);
            build.push_back(first);  // makes the second one the marker
            check(build, {second, first, 1, 3}, hash_mask);
        }
    }
}

// Large tables read rows ahead to fetch their slots early.
TEST(hash_join_tables_read_nothing_behind_the_last_row) {
    constexpr uint64_t kRows = 1 << 16;
    constexpr uint64_t kGuardBytes = 1 << 16;  // a page at least
    const uint64_t bytes = kRows * sizeof(uint64_t);
    void* const mapped =
        ::mmap(nullptr, bytes + kGuardBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(mapped != MAP_FAILED);
    auto* const words = static_cast<uint64_t*>(mapped);
    for (uint64_t i = 0; i < kRows; ++i) words[i] = mix64(i * 3);
    EXPECT_EQ(::mprotect(words + kRows, kGuardBytes, PROT_NONE), 0);
    const RowLayout layout = one_key_layout();
    const BuildRows rows({{reinterpret_cast<const uint8_t*>(words), kRows}}, layout);
    const auto* last = reinterpret_cast<const uint8_t*>(words + kRows - 1);
    MemoryBudget budget(64 << 20);
    const auto expect_last = [&](const JoinTable& table) {
        uint32_t number = kNoRow;
        table.find(&last, 1, &number);
        EXPECT(number != kNoRow && rows.row(number) == last);
    };
    for (const HashingScheme scheme : kSchemes) {
        expect_last(*JoinTable::build(scheme, TableUse::kFind, rows, layout, 1 << 20, ~0ULL, budget));
    }
    expect_last(LinearProbingTable(rows, layout, TableUse::kFind, ~0ULL, budget));
    ::munmap(mapped, bytes + kGuardBytes);
}

TEST(build_rows_are_numbered_without_large_gaps) {
    // Runs that were spilled together among single small pages: as numbers of a span go on behind those of the longest
    // one, there were 64 times as many numbers (and memory for them) as rows.
    const RowLayout layout = one_key_layout();
    const std::vector<std::vector<uint32_t>> shapes = {
        {}, {0, 0}, {1}, {129}, {8192, 1}, {3, 2}, {1, 1, 1, 4096, 3, 0, 1}};
    for (std::vector<uint32_t> counts : shapes) {
        for (int i = 0; i < 100; ++i) counts.push_back(counts.empty() ? 128 : counts.back());
        std::vector<uint64_t> words;
        for (uint32_t count : counts) words.resize(words.size() + count, 0);
        for (size_t i = 0; i < words.size(); ++i) words[i] = i;
        std::vector<RowSpan> spans;
        const uint64_t* next = words.data();
        for (uint32_t count : counts) {
            spans.push_back({reinterpret_cast<const uint8_t*>(next), count});
            next += count;
        }
        const BuildRows rows(spans, layout);
        EXPECT_EQ(rows.rows(), words.size());
        EXPECT(rows.numbers() <= words.size() + words.size() / 2);
        uint64_t expected = 0;
        for (size_t s = 0; s < rows.spans().size(); ++s) {
            for (uint32_t i = 0; i < rows.spans()[s].count; ++i) {
                EXPECT_EQ(first_word(rows.row(rows.first_number(s) + i)), expected++);
            }
        }
        EXPECT_EQ(expected, words.size());
    }
}

}  // namespace spillway::test
