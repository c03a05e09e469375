// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "gpu_test.hpp"
#include "relation/device_table.hpp"
#include "support/device_array.hpp"
#include "support/host_table.hpp"

// A table on the host and, in the product's form, on the device. Host tables have no strings: a string stands there as
// its number, the same for equal strings of all tables of a run.
namespace spillway::gpu_test {

inline uint64_t string_number(const std::string& text) {
    static std::unordered_map<std::string, uint64_t> numbers;
    return numbers.emplace(text, numbers.size()).first->second;
}

// What ran before may still use the memory that it gave back.
inline cuda::Allocation upload_block(std::vector<uint8_t> bytes, const char* what) {
    cuda::Device& device = test_device();
    if (bytes.empty()) return {};
    bytes.resize((bytes.size() + 3) / 4 * 4);  // read in words
    cuda::Allocation block = device.memory().allocate(bytes.size(), what);
    device.synchronize();
    copy_to_device(block.as(), bytes.data(), bytes.size());
    return block;
}

class TestTable {
  public:
    uint32_t add(const HostColumn& column) {
        cuda::TableColumn copy;
        copy.width = column.width;
        copy.values = upload_block(column.bytes, "values of a test");
        return push(column, std::move(copy));
    }
    uint32_t add_strings(const std::vector<std::string>& values, std::vector<uint8_t> valid_bits = {}) {
        std::vector<uint64_t> numbers;
        std::vector<uint64_t> offsets = {0};
        std::vector<uint8_t> bytes;
        for (const std::string& value : values) {
            numbers.push_back(string_number(value));
            bytes.insert(bytes.end(), value.begin(), value.end());
            offsets.push_back(bytes.size());
        }
        cuda::TableColumn copy;
        copy.kind = cuda::ColumnKind::kBytes;
        copy.bytes = bytes.size();
        copy.values = upload_block(bytes, "strings of a test");
        copy.offsets = upload_block(column_of(offsets).bytes, "offsets of a test");
        return push(column_of(numbers, std::move(valid_bits)), std::move(copy));
    }

    const HostTable& host() const { return host_; }
    const cuda::DeviceTable& device() const { return device_; }

  private:
    uint32_t push(const HostColumn& column, cuda::TableColumn&& copy) {
        copy.validity = upload_block(column.valid_bits, "NULLs of a test");
        host_.columns.push_back(column);
        device_.columns.push_back(std::move(copy));
        device_.rows = host_.rows();
        return static_cast<uint32_t>(host_.columns.size() - 1);
    }

    HostTable host_;
    cuda::DeviceTable device_;
};

inline HostColumn download_strings(const cuda::TableColumn& column, uint64_t rows) {
    const auto offsets = download(column.offsets.as<uint64_t>(), rows + 1);
    const auto bytes = download(column.values.as<char>(), column.bytes);
    CHECK_EQ(offsets.front(), 0);
    CHECK_EQ(offsets.back(), column.bytes);
    std::vector<uint64_t> numbers;
    for (uint64_t row = 0; row < rows; ++row) {
        CHECK(offsets[row] <= offsets[row + 1]);
        numbers.push_back(string_number(std::string(bytes.data() + offsets[row], bytes.data() + offsets[row + 1])));
    }
    return column_of(numbers);
}

inline HostColumn download(const cuda::TableColumn& column, uint64_t rows) {
    HostColumn copy;
    if (column.kind == cuda::ColumnKind::kBytes) {
        copy = download_strings(column, rows);
    } else {
        copy.width = column.width;
        copy.bytes = download(column.values.as<uint8_t>(), rows * column.width);
    }
    if (column.validity) copy.valid_bits = download(column.validity.as<uint8_t>(), (rows + 31) / 32 * 4);
    return copy;
}

inline HostTable download(const cuda::DeviceTable& table) {
    HostTable copy;
    for (const cuda::TableColumn& column : table.columns) copy.columns.push_back(download(column, table.rows));
    return copy;
}

}  // namespace spillway::gpu_test
