// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "group_by/group_by.hpp"
#include "support/device_array.hpp"
#include "support/generators.hpp"
#include "support/host_table.hpp"
#include "support/reference_group_by.hpp"

// A table with one key column and value columns, on the host and on the device, and what a group-by makes of it.
namespace spillway::gpu_test {

using cuda::GroupByAlgorithm;

constexpr GroupByAlgorithm kGroupByAlgorithms[] = {GroupByAlgorithm::kHash,
                                                   GroupByAlgorithm::kHashGlobal,
                                                   GroupByAlgorithm::kPartitioned,
                                                   GroupByAlgorithm::kSorted,
                                                   GroupByAlgorithm::kSortedColumns,
                                                   GroupByAlgorithm::kDictionarySorted,
                                                   GroupByAlgorithm::kPartitionedGather};

// The small suite has tests of their own for the others (sorted_group_by_test.cu).
inline std::vector<GroupByAlgorithm> algorithms_to_check() {
    const uint64_t count = small_or_full(4, std::size(kGroupByAlgorithms));
    return {std::begin(kGroupByAlgorithms), std::begin(kGroupByAlgorithms) + count};
}

// Values whose sums are exact in any order: floats in quarters, 8-byte integers that leave room for a million rows.
inline HostColumn value_column(uint64_t rows, uint32_t width, ValueKind kind, uint64_t seed, uint64_t column,
                               double null_share = 0) {
    HostColumn values = payload_column(rows, width, seed, column);
    for (uint64_t row = 0; row < rows; ++row) {
        void* const at = values.bytes.data() + row * width;
        const uint64_t random = random64(seed + column, row);
        const double quarters = (static_cast<double>(random % 100001) - 50000) / 4;
        if (kind == ValueKind::kFloat && width == 4) {
            const auto value = static_cast<float>(quarters);
            std::memcpy(at, &value, sizeof value);
        } else if (kind == ValueKind::kFloat) {
            std::memcpy(at, &quarters, sizeof quarters);
        } else if (width == 8) {
            const int64_t value = static_cast<int64_t>(random) >> (kind == ValueKind::kSigned ? 21 : 63);
            const uint64_t bits = kind == ValueKind::kSigned ? static_cast<uint64_t>(value) : random >> 21;
            std::memcpy(at, &bits, sizeof bits);
        }
    }
    if (null_share > 0) values.valid_bits = null_mask(rows, null_share, seed + column);
    return values;
}

// Column 0 is the key. Bitmaps are read in words of 32 bits on the device.
class GroupInput {
  public:
    explicit GroupInput(HostTable table) : host_(std::move(table)) {
        for (const HostColumn& column : host_.columns) {
            values_.push_back(upload(column.bytes));
            std::vector<uint8_t> bits = column.valid_bits;
            bits.resize((bits.size() + 3) / 4 * 4);
            bits_.push_back(upload(bits));
        }
    }

    const HostTable& host() const { return host_; }
    const void* values(size_t column) const { return values_[column].data(); }
    const uint32_t* valid(size_t column) const { return reinterpret_cast<const uint32_t*>(bits_[column].data()); }

    // Rows without a key are none of a group-by by one key column.
    HostTable keyed_rows() const {
        HostTable kept;
        for (const HostColumn& column : host_.columns) {
            HostColumn copy;
            copy.width = column.width;
            for (uint64_t row = 0; row < host_.rows(); ++row) {
                if (host_.columns[0].is_valid(row)) copy.push_from(column, row);
            }
            kept.columns.push_back(std::move(copy));
        }
        return kept;
    }

    cuda::GroupByRequest request(GroupByAlgorithm algorithm, const std::vector<WantedAggregate>& aggregates,
                                 uint64_t expected_groups, bool in_parts = false) const {
        cuda::GroupByRequest request;
        request.in_parts = in_parts;
        request.algorithm = algorithm;
        request.rows = host_.rows();
        request.key = {values(0), host_.columns[0].width};
        request.key_valid = valid(0);
        request.expected_groups = expected_groups;
        for (const WantedAggregate& wanted : aggregates) request.aggregates.push_back(aggregate(wanted));
        return request;
    }

  private:
    static cuda::GroupAggregateKind kind_of(Aggregate aggregate) {
        switch (aggregate) {
            case Aggregate::kCountRows:
                return cuda::GroupAggregateKind::kCountRows;
            case Aggregate::kCount:
                return cuda::GroupAggregateKind::kCount;
            case Aggregate::kSum:
                return cuda::GroupAggregateKind::kSum;
            case Aggregate::kMin:
                return cuda::GroupAggregateKind::kMin;
            case Aggregate::kMax:
                return cuda::GroupAggregateKind::kMax;
            case Aggregate::kMean:
                return cuda::GroupAggregateKind::kMean;
            default:
                return cuda::GroupAggregateKind::kFirst;
        }
    }

    cuda::GroupAggregate aggregate(const WantedAggregate& wanted) const {
        cuda::GroupAggregate aggregate;
        aggregate.kind = kind_of(wanted.aggregate);
        if (wanted.aggregate == Aggregate::kCountRows) return aggregate;
        aggregate.value_kind = wanted.kind == ValueKind::kFloat      ? cuda::ValueKind::kFloat
                               : wanted.kind == ValueKind::kUnsigned ? cuda::ValueKind::kUnsigned
                                                                     : cuda::ValueKind::kSigned;
        aggregate.values = {values(wanted.column), host_.columns[wanted.column].width};
        aggregate.valid = valid(wanted.column);
        return aggregate;
    }

    HostTable host_;
    std::vector<DeviceArray<uint8_t>> values_;
    std::vector<DeviceArray<uint8_t>> bits_;
};

inline HostTable download_groups(const cuda::GroupByResult& result, uint32_t key_width,
                                 const std::vector<uint32_t>& widths) {
    HostTable table;
    table.columns.push_back({key_width, download(result.keys.as<uint8_t>(), result.groups * key_width), {}});
    for (size_t i = 0; i < widths.size(); ++i) {
        HostColumn column;
        column.width = widths[i];
        column.bytes = download(result.values[i].as<uint8_t>(), result.groups * widths[i]);
        if (result.present[i]) {
            const std::vector<uint8_t> present = download(result.present[i].as<uint8_t>(), result.groups);
            column.valid_bits.resize(static_cast<size_t>(bitmap_bytes(static_cast<int64_t>(result.groups))));
            for (uint64_t group = 0; group < result.groups; ++group) {
                CHECK(present[group] <= 1);
                if (present[group] != 0) set_bit(column.valid_bits.data(), static_cast<int64_t>(group));
            }
        }
        table.columns.push_back(std::move(column));
    }
    return table;
}

// Runs the group-by with each algorithm and compares it with the reference.
inline void check_group_by(const GroupInput& input, const std::vector<WantedAggregate>& aggregates,
                           uint64_t expected_groups, const std::string& what,
                           const std::vector<GroupByAlgorithm>& algorithms = algorithms_to_check(),
                           bool in_parts = false) {
    const HostTable expected = reference_group_by(input.keyed_rows(), {0}, aggregates);
    std::vector<uint32_t> widths;
    for (size_t c = 1; c < expected.columns.size(); ++c) widths.push_back(expected.columns[c].width);
    for (const GroupByAlgorithm algorithm : algorithms) {
        const cuda::GroupByResult result =
            cuda::group_by(test_device(), input.request(algorithm, aggregates, expected_groups, in_parts));
        const HostTable actual = download_groups(result, input.host().columns[0].width, widths);
        const std::string difference = row_difference(actual, expected);
        if (difference.empty()) continue;
        fail(what + ", algorithm " + text_of(algorithm) + ": " + difference, __FILE__, __LINE__);
    }
}

// Keys as 64-bit numbers, of which columns of 4 bytes have the low halves.
inline HostColumn group_keys_column(const std::vector<uint64_t>& keys, uint32_t width,
                                    std::vector<uint8_t> valid_bits = {}) {
    if (width == 8) return column_of(keys, std::move(valid_bits));
    return column_of(std::vector<uint32_t>(keys.begin(), keys.end()), std::move(valid_bits));
}

// Every one of `distinct` keys is drawn equally often on average.
inline std::vector<uint64_t> drawn_keys(uint64_t rows, uint64_t distinct, uint64_t seed) {
    const std::vector<uint64_t> domain = sparse_keys(distinct, seed);
    std::vector<uint64_t> keys(rows);
    for (uint64_t row = 0; row < rows; ++row) keys[row] = domain[random64(seed + 17, row) % distinct];
    return keys;
}

}  // namespace spillway::gpu_test
