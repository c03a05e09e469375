// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "relation/group_table.hpp"
#include "support/group_by_check.hpp"

// Tables on the device from tables on the host, and back.
namespace spillway::gpu_test {

using cuda::KeyPart;
using cuda::KeyPartKind;
using cuda::TableAggregate;
using cuda::TableAggregateKind;
using cuda::TableColumn;
using cuda::TableValueKind;

inline cuda::Allocation to_device(const void* data, uint64_t bytes, uint64_t padded_bytes) {
    cuda::Allocation memory = test_device().memory().allocate(padded_bytes, "a column of a test");
    if (padded_bytes > 0) CHECK_CUDA(cudaMemset(memory.as(), 0, padded_bytes));
    if (bytes > 0) CHECK_CUDA(cudaMemcpy(memory.as(), data, bytes, cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaDeviceSynchronize());
    return memory;
}

inline cuda::Allocation bits_to_device(const std::vector<uint8_t>& bits) {
    return to_device(bits.data(), bits.size(), (bits.size() + 3) / 4 * 4);
}

inline cuda::DeviceTable to_device(const HostTable& host) {
    cuda::DeviceTable table;
    table.rows = host.rows();
    for (const HostColumn& column : host.columns) {
        TableColumn copy;
        copy.width = column.width;
        copy.values = to_device(column.bytes.data(), column.bytes.size(), column.bytes.size());
        if (!column.valid_bits.empty()) copy.validity = bits_to_device(column.valid_bits);
        table.columns.push_back(std::move(copy));
    }
    return table;
}

inline TableColumn strings_of(const std::vector<std::string>& texts, const std::vector<uint8_t>& valid_bits) {
    std::string all;
    std::vector<uint64_t> offsets = {0};
    for (const std::string& text : texts) {
        all += text;
        offsets.push_back(all.size());
    }
    TableColumn column;
    column.kind = cuda::ColumnKind::kBytes;
    column.width = 0;
    column.bytes = all.size();
    column.values = to_device(all.data(), all.size(), all.size());
    column.offsets = to_device(offsets.data(), offsets.size() * 8, offsets.size() * 8);
    if (!valid_bits.empty()) column.validity = bits_to_device(valid_bits);
    return column;
}

// Strings of the decimal digits of some numbers.
inline TableColumn texts_of(const std::vector<uint64_t>& numbers, const std::vector<uint8_t>& valid_bits) {
    std::vector<std::string> texts;
    for (const uint64_t number : numbers) texts.push_back(std::to_string(number));
    return strings_of(texts, valid_bits);
}

inline HostTable to_host(const cuda::DeviceTable& table) {
    HostTable host;
    for (const TableColumn& column : table.columns) {
        HostColumn copy;
        copy.width = column.width;
        copy.bytes = download(column.values.as<uint8_t>(), table.rows * column.width);
        if (column.validity) {
            const auto bytes = static_cast<uint64_t>(bitmap_bytes(static_cast<int64_t>(table.rows)));
            copy.valid_bits = download(column.validity.as<uint8_t>(), bytes);
        }
        host.columns.push_back(std::move(copy));
    }
    return host;
}

}  // namespace spillway::gpu_test
