// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "relation/key_columns.hpp"
#include "support/key_cases.hpp"
#include "support/test_table.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::KeyColumn;
using cuda::KeyOptions;

// Nothing where the row has no key.
std::vector<std::optional<uint64_t>> words_of(const KeyColumn& key, uint64_t rows) {
    const auto bytes = download(static_cast<const uint8_t*>(key.data.data), rows * key.data.width);
    const auto valid = download(key.validity.as<uint32_t>(), key.validity ? (rows + 31) / 32 : 0);
    std::vector<std::optional<uint64_t>> words(rows);
    for (uint64_t row = 0; row < rows; ++row) {
        if (!valid.empty() && (valid[row / 32] >> (row % 32) & 1) == 0) continue;
        uint64_t word = 0;
        std::memcpy(&word, bytes.data() + row * key.data.width, key.data.width);
        words[row] = word;
    }
    return words;
}

std::vector<std::optional<std::string>> expected_keys(const TestTable& table, const std::vector<KeyPart>& parts,
                                                      bool nulls_equal) {
    const HostTable keys = reference_keys(table.host(), parts, nulls_equal);
    std::vector<std::optional<std::string>> texts;
    for (uint64_t row = 0; row < table.host().rows(); ++row) texts.push_back(key_of(keys, all_of(keys), row));
    return texts;
}

// One word per key and one key per word.
class KeyWords {
  public:
    void check(const std::optional<std::string>& key, const std::optional<uint64_t>& word) {
        CHECK_EQ(word.has_value(), key.has_value());
        if (!key) return;
        CHECK_EQ(words_.emplace(*key, *word).first->second, *word);
        CHECK(keys_.emplace(*word, *key).first->second == *key);
    }
    // Keys that the other side lacks need no word.
    void check_probe(const std::optional<std::string>& key, const std::optional<uint64_t>& word) {
        if (key && words_.count(*key) == 0 && !word) return;
        check(key, word);
    }

  private:
    std::unordered_map<std::string, uint64_t> words_;
    std::unordered_map<uint64_t, std::string> keys_;
};

struct Sides {
    TestTable build;
    TestTable probe;
    std::vector<KeyPart> build_parts;
    std::vector<KeyPart> probe_parts;

    Sides(KeyCase key, uint64_t build_rows, uint64_t probe_rows, double build_nulls, double probe_nulls) {
        const auto build_numbers = small_numbers(build_rows, build_rows / 2 + 3, test_seed());
        const auto probe_numbers = small_numbers(probe_rows, build_rows + 5, test_seed() + 1);
        build_parts = KeyMaker(build, build_numbers, build_nulls, true, test_seed()).add(key);
        probe_parts = KeyMaker(probe, probe_numbers, probe_nulls, false, test_seed() + 7).add(key);
    }
};

void check_keys(const Sides& sides, bool nulls_equal, const KeyOptions& options = {}) {
    const cuda::JoinKeys keys = cuda::join_keys(test_device(), sides.build.device(), sides.build_parts,
                                                sides.probe.device(), sides.probe_parts, nulls_equal, options);
    CHECK_EQ(keys.build.data.width, keys.probe.data.width);
    KeyWords words;
    const auto build_keys = expected_keys(sides.build, sides.build_parts, nulls_equal);
    const auto build_words = words_of(keys.build, build_keys.size());
    for (size_t row = 0; row < build_keys.size(); ++row) words.check(build_keys[row], build_words[row]);
    const auto probe_keys = expected_keys(sides.probe, sides.probe_parts, nulls_equal);
    const auto probe_words = words_of(keys.probe, probe_keys.size());
    for (size_t row = 0; row < probe_keys.size(); ++row) words.check_probe(probe_keys[row], probe_words[row]);
}

void check_groups(const Sides& sides, const KeyOptions& options = {}) {
    const KeyColumn key = cuda::group_keys(test_device(), sides.build.device(), sides.build_parts, options);
    CHECK(!key.validity);
    KeyWords words;
    const auto keys = expected_keys(sides.build, sides.build_parts, true);
    const auto found = words_of(key, keys.size());
    for (size_t row = 0; row < keys.size(); ++row) words.check(keys[row], found[row]);
}

bool is_numbered(KeyCase key) {
    return key == KeyCase::kWide || key == KeyCase::kFixed12 || key == KeyCase::kString || key == KeyCase::kMixed;
}

}  // namespace

GPU_TEST("relation: one column of keys out of every kind of them, NULLs on no, one and both sides") {
    const uint64_t rows = small_or_full(300, 20000);
    for (const KeyCase key : kAllKeyCases) {
        for (const auto& [build_nulls, probe_nulls] :
             {std::pair<double, double>{0, 0}, {0.2, 0}, {0, 0.2}, {0.3, 0.3}}) {
            if (!full_suite() && build_nulls != probe_nulls && is_numbered(key)) continue;
            const Sides sides(key, rows, rows + 77, build_nulls, probe_nulls);
            check_keys(sides, false);
            check_keys(sides, true);
            check_groups(sides);
        }
    }
}

GPU_TEST("relation: keys that are taken as they stand, and keys that are not") {
    const auto is_value = [](KeyCase key, double null_share, bool nulls_equal) {
        const Sides sides(key, 50, 50, null_share, 0);
        const cuda::JoinKeys keys = cuda::join_keys(test_device(), sides.build.device(), sides.build_parts,
                                                    sides.probe.device(), sides.probe_parts, nulls_equal);
        CHECK_EQ(keys.probe.is_value, !keys.probe.owned);
        return keys.probe.is_value;
    };
    CHECK(is_value(KeyCase::kInt32, 0, false));
    CHECK(is_value(KeyCase::kInt64, 0.5, false));
    CHECK(is_value(KeyCase::kInt64, 0, true));
    CHECK(is_value(KeyCase::kWidened, 0, false));
    // A NULL on either side that equals another takes a bit.
    CHECK(!is_value(KeyCase::kInt32, 0.5, true));
    CHECK(!is_value(KeyCase::kInt64, 0.5, true));
    CHECK(!is_value(KeyCase::kInt8, 0, false));
    CHECK(!is_value(KeyCase::kFloat, 0, false));
    CHECK(!is_value(KeyCase::kPacked, 0, false));
    CHECK(!is_value(KeyCase::kString, 0, false));
}

GPU_TEST("relation: wide keys whose hashes collide, numbers of 8 bytes") {
    const uint64_t rows = small_or_full(200, 3000);
    for (const KeyCase key : {KeyCase::kWide, KeyCase::kFixed12, KeyCase::kString, KeyCase::kMixed}) {
        const Sides sides(key, rows, rows, 0.1, 0.1);
        // One slot for all and equal hashes; one slot and different hashes; the last slots, from where walks go on at
        // 0.
        for (const uint64_t hash_mask : {uint64_t{0}, uint64_t{0xff}, uint64_t{3} << 62}) {
            for (const bool wide_numbers : {false, true}) {
                if (!full_suite() && wide_numbers != (hash_mask == 0)) continue;
                check_keys(sides, wide_numbers, {hash_mask, wide_numbers});
                check_groups(sides, {hash_mask, wide_numbers});
            }
        }
    }
}

GPU_TEST("relation: wide keys of one row, of none, of one key in every row") {
    for (const auto& [build_rows, probe_rows] :
         {std::pair<uint64_t, uint64_t>{0, 0}, {0, 40}, {40, 0}, {1, 1}, {33, 31}}) {
        for (const KeyCase key : {KeyCase::kInt8, KeyCase::kWide, KeyCase::kMixed}) {
            const Sides sides(key, build_rows, probe_rows, 0.2, 0.2);
            check_keys(sides, false);
            check_keys(sides, true);
            check_groups(sides);
        }
    }
    TestTable table;
    const std::vector<uint64_t> same(small_or_full(2000, 1000000), 42);
    const auto parts = KeyMaker(table, same, 0, true, test_seed()).add(KeyCase::kString);
    const auto words = words_of(cuda::group_keys(test_device(), table.device(), parts), same.size());
    for (const auto& word : words) CHECK_EQ(*word, *words.front());
}

GPU_TEST("relation: keys of 2-byte floats") {
    // 1, -0, NaN, 0.5, 65504, infinity, the smallest above 0
    const std::vector<uint16_t> halves = {0x3c00, 0x8000, 0xfe01, 0x3800, 0x7bff, 0x7c00, 0x0001};
    const float infinity = std::numeric_limits<float>::infinity();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> floats = {1, 0, nan, 0.5F, 65504, infinity, 5.9604644775390625e-8F};
    TestTable build;
    TestTable probe;
    const KeyPart of_build = {build.add(column_of(halves)), KeyPartKind::kFloat, 4};
    const KeyPart of_probe = {probe.add(column_of(floats)), KeyPartKind::kFloat, 4};
    const cuda::JoinKeys keys =
        cuda::join_keys(test_device(), build.device(), {&of_build, 1}, probe.device(), {&of_probe, 1}, false);
    CHECK(words_of(keys.build, halves.size()) == words_of(keys.probe, floats.size()));
}

GPU_TEST("relation: keys that no caller may give") {
    TestTable table;
    const uint32_t integers = table.add(column_of(std::vector<int32_t>{1, 2, 3}));
    const uint32_t strings = table.add_strings({"a", "b", "c"});
    const auto keys = [&](const std::vector<KeyPart>& parts) {
        return cuda::group_keys(test_device(), table.device(), parts);
    };
    const auto invalid = cuda::ErrorCode::kInvalid;
    CHECK_THROWS(keys({}), invalid);
    CHECK_THROWS(keys({{9, KeyPartKind::kSigned, 4}}), invalid);
    CHECK_THROWS(keys({{integers, KeyPartKind::kSigned, 2}}), invalid);
    CHECK_THROWS(keys({{integers, KeyPartKind::kFixed, 8}}), invalid);
    CHECK_THROWS(keys({{integers, KeyPartKind::kBytes, 0}}), invalid);
    CHECK_THROWS(keys({{strings, KeyPartKind::kFixed, 4}}), invalid);
    CHECK_THROWS(keys(std::vector<KeyPart>(33, {integers, KeyPartKind::kSigned, 4})), invalid);
    const std::vector<KeyPart> narrow = {{integers, KeyPartKind::kSigned, 4}};
    const std::vector<KeyPart> wide = {{integers, KeyPartKind::kSigned, 8}};
    CHECK_THROWS(cuda::join_keys(test_device(), table.device(), narrow, table.device(), wide, false), invalid);
    CHECK_EQ(keys(narrow).data.width, 4);
    CHECK_EQ(keys(wide).data.width, 8);
}

}  // namespace spillway::gpu_test
