// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "support/group_table_check.hpp"

// Min and max of what is no number of 8 bytes: by comparing rows.
namespace spillway::gpu_test {

namespace {

struct Extremes {
    std::string least;
    std::string most;
};
using ExpectedExtremes = std::map<uint32_t, Extremes>;

// Strings of few different bytes, so that many begin alike and zeros stand at ends, and in the middle.
std::vector<std::string> some_texts(uint64_t rows) {
    std::vector<std::string> texts;
    for (uint64_t row = 0; row < rows; ++row) {
        const uint64_t random = random64(test_seed() + 40, row);
        std::string text(random % 4 == 0 ? 30 : 0, 'q');
        for (uint64_t left = random >> 8 & 15; left > 0; --left) {
            constexpr char kBytes[] = {'\0', 'a', '\xff', 'b'};
            text += kBytes[random >> (16 + 2 * left) & 3];
        }
        texts.push_back(text);
    }
    return texts;
}

std::string fixed_value(uint64_t row, uint32_t width) {
    std::string value;
    for (uint32_t i = 0; i < width; i += 8) {
        const uint64_t word = random64(test_seed() + 50 + i, row) >> (row % 3 == 0 && i + 8 < width ? 60 : 0);
        value.append(reinterpret_cast<const char*>(&word), std::min(width - i, 8U));
    }
    return value;
}

// Two's complement as bytes that compare as the numbers do.
std::string ordered(std::string value, bool is_decimal) {
    if (!is_decimal) return value;
    std::reverse(value.begin(), value.end());
    value[0] = static_cast<char>(value[0] ^ '\x80');
    return value;
}

ExpectedExtremes extremes_of(const std::vector<uint64_t>& keys, const std::vector<std::string>& values,
                             const std::vector<uint8_t>& valid, bool is_decimal) {
    ExpectedExtremes expected;
    for (uint64_t row = 0; row < keys.size(); ++row) {
        if (!valid.empty() && (valid[row / 8] >> (row % 8) & 1) == 0) continue;
        const auto [at, is_new] = expected.insert({static_cast<uint32_t>(keys[row]), {values[row], values[row]}});
        if (is_new) continue;
        const std::string own = ordered(values[row], is_decimal);
        if (own < ordered(at->second.least, is_decimal)) at->second.least = values[row];
        if (ordered(at->second.most, is_decimal) < own) at->second.most = values[row];
    }
    return expected;
}

std::vector<std::string> values_of(const TableColumn& column, uint64_t rows) {
    std::vector<uint64_t> offsets;
    if (column.kind == cuda::ColumnKind::kBytes) {
        offsets = download(column.offsets.as<uint64_t>(), rows + 1);
    } else {
        for (uint64_t row = 0; row <= rows; ++row) offsets.push_back(row * column.width);
    }
    const auto bytes = download(column.values.as<char>(), offsets.back());
    std::vector<std::string> values;
    for (uint64_t row = 0; row < rows; ++row) {
        values.emplace_back(bytes.begin() + static_cast<int64_t>(offsets[row]),
                            bytes.begin() + static_cast<int64_t>(offsets[row + 1]));
    }
    return values;
}

// Columns of the table: 4-byte keys, values. Grouped by the keys or, without any, all rows (key 0).
void check_extremes(const cuda::DeviceTable& table, bool has_keys, TableValueKind kind,
                    const ExpectedExtremes& expected, const std::string& what) {
    cuda::OwnedTableGroupBy group;
    if (has_keys) group.keys = {{0, KeyPartKind::kUnsigned, 4}};
    const uint32_t width = table.columns[1].kind == cuda::ColumnKind::kBytes ? 0 : table.columns[1].width;
    group.aggregates = {{TableAggregateKind::kCount, 1, kind, 8},
                        {TableAggregateKind::kMin, 1, kind, width},
                        {TableAggregateKind::kMax, 1, kind, width}};
    const cuda::DeviceTable result = cuda::group_table(test_device(), table, group);
    const size_t first = has_keys ? 1 : 0;
    std::vector<uint32_t> keys(result.rows);
    if (has_keys) keys = download(result.columns[0].values.as<uint32_t>(), result.rows);
    const auto counts = download(result.columns[first].values.as<uint64_t>(), result.rows);
    const auto least = values_of(result.columns[first + 1], result.rows);
    const auto most = values_of(result.columns[first + 2], result.rows);
    uint64_t groups = 0;
    for (uint64_t row = 0; row < result.rows; ++row) {
        const auto found = expected.find(keys[row]);
        if ((counts[row] != 0) != (found != expected.end())) fail(what + ": NULLs", __FILE__, __LINE__);
        if (found == expected.end()) continue;
        ++groups;
        const bool same = least[row] == found->second.least && most[row] == found->second.most;
        if (!same) fail(what + ": key " + std::to_string(keys[row]), __FILE__, __LINE__);
    }
    CHECK_EQ(groups, expected.size());
}

}  // namespace

GPU_TEST("group table: least and greatest strings, bytes and decimals") {
    const uint64_t rows = small_or_full(2500, 60000);
    for (const double null_share : {0.0, 0.3}) {
        std::vector<uint8_t> valid;
        if (null_share > 0) valid = null_mask(rows, null_share, test_seed() + 1);
        for (const uint64_t distinct : {uint64_t{1}, uint64_t{50}, rows / 2}) {
            const std::vector<uint64_t> keys =
                distinct == 1 ? std::vector<uint64_t>(rows, 0) : drawn_keys(rows, distinct, test_seed());
            HostTable host;
            host.columns.push_back(group_keys_column(keys, 4));
            const std::string what = std::to_string(distinct) + " groups, values of ";
            cuda::DeviceTable strings = to_device(host);
            const std::vector<std::string> texts = some_texts(rows);
            strings.columns.push_back(strings_of(texts, valid));
            check_extremes(strings, distinct > 1, TableValueKind::kBytes, extremes_of(keys, texts, valid, false),
                           what + "any bytes");
            for (const uint32_t width : {3U, 16U, 24U, 32U}) {
                const TableValueKind kind = width % 16 == 0 ? TableValueKind::kDecimal : TableValueKind::kBytes;
                HostColumn column;
                column.width = width;
                std::vector<std::string> values;
                for (uint64_t row = 0; row < rows; ++row) values.push_back(fixed_value(row, width));
                for (const std::string& value : values) column.push_bytes(value.data());
                column.valid_bits = valid;
                HostTable both = host;
                both.columns.push_back(column);
                check_extremes(to_device(both), distinct > 1, kind,
                               extremes_of(keys, values, valid, kind == TableValueKind::kDecimal),
                               what + std::to_string(width) + " bytes");
            }
        }
    }
}

GPU_TEST("group table: no least string of no rows, and of NULLs alone") {
    for (const uint64_t rows : {0, 3}) {
        HostTable host;
        host.columns.push_back(group_keys_column(std::vector<uint64_t>(rows, 5), 4));
        cuda::DeviceTable table = to_device(host);
        table.columns.push_back(strings_of(std::vector<std::string>(rows, "x"), {0}));
        check_extremes(table, false, TableValueKind::kBytes, {}, "no values");
        check_extremes(table, true, TableValueKind::kBytes, {}, "no values, by key");
    }
}

}  // namespace spillway::gpu_test
