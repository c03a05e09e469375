// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hash_join/hash_join.hpp"
#include "radix_partition/radix_partition.hpp"
#include "support/device_array.hpp"
#include "support/generators.hpp"
#include "support/host_table.hpp"

// A relation with one key, on the host and on the device: column 0 of the host table is the key, the others what is
// carried along. Width kRowNumber: the row's number in place of a value.
namespace spillway::gpu_test {

constexpr uint32_t kRowNumber4 = 104;
constexpr uint32_t kRowNumber8 = 108;

class KeyedRelation {
  public:
    KeyedRelation(const std::vector<uint64_t>& keys, uint32_t key_width, const std::vector<uint32_t>& widths,
                  uint64_t seed, double null_share = 0) {
        std::vector<uint8_t> valid;
        if (null_share > 0) valid = null_mask(keys.size(), null_share, seed);
        // Keys of 4 bytes are the low halves: signed, zero and all-ones ones come about as they may.
        if (key_width == 4) {
            std::vector<uint32_t> narrow(keys.begin(), keys.end());
            host_.columns.push_back(column_of(narrow, valid));
        } else {
            host_.columns.push_back(column_of(keys, valid));
        }
        for (size_t c = 0; c < widths.size(); ++c) host_.columns.push_back(carried(keys.size(), widths[c], seed, c));
        device_.rows = keys.size();
        key_ = upload(host_.columns[0].bytes);
        device_.key = {key_.data(), key_width};
        if (null_share > 0) {
            valid.resize((valid.size() + 3) / 4 * 4);  // read in words
            valid_ = upload(valid);
            device_.key_valid = reinterpret_cast<const uint32_t*>(valid_.data());
        }
        for (size_t c = 0; c < widths.size(); ++c) {
            columns_.push_back(widths[c] > 16 ? DeviceArray<uint8_t>() : upload(host_.columns[c + 1].bytes));
            device_.columns.push_back({columns_.back().data(), host_.columns[c + 1].width});
        }
    }

    // On the host alone.
    explicit KeyedRelation(HostTable table) : host_(std::move(table)) {}

    const HostTable& host() const { return host_; }
    const cuda::DeviceRelation& device() const { return device_; }
    // Rows that have a key, all columns: what a partitioning must keep.
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

  private:
    static HostColumn carried(uint64_t rows, uint32_t width, uint64_t seed, size_t column) {
        if (width <= 16) return payload_column(rows, width, seed, column);
        std::vector<uint64_t> numbers(rows);
        for (uint64_t row = 0; row < rows; ++row) numbers[row] = row;
        return width == kRowNumber8 ? column_of(numbers)
                                    : column_of(std::vector<uint32_t>(numbers.begin(), numbers.end()));
    }

    HostTable host_;
    DeviceArray<uint8_t> key_;
    DeviceArray<uint8_t> valid_;
    std::vector<DeviceArray<uint8_t>> columns_;
    cuda::DeviceRelation device_;
};

}  // namespace spillway::gpu_test
