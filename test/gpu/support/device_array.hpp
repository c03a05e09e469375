// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "support/host_table.hpp"
#include "support/row_hash.hpp"

// Inputs and outputs of kernels under test, in memory of their own from cudaMalloc: what the product allocates, limits
// and pools is for its own tests. Every copy waits until it is done.
namespace spillway::gpu_test {

template <class T>
class DeviceArray {
    static_assert(std::is_trivially_copyable_v<T>, "copied as bytes");

  public:
    DeviceArray() = default;
    // Not initialized, so that initcheck sees who reads what nobody has written.
    explicit DeviceArray(uint64_t count) : count_(count) {
        if (count > 0) CHECK_CUDA(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)));
    }
    DeviceArray(DeviceArray&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
    DeviceArray& operator=(DeviceArray&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(count_, other.count_);
        return *this;
    }
    // A test that failed may have left the context without a pulse: errors are for main() to find.
    ~DeviceArray() { cudaFree(data_); }

    T* data() const { return data_; }
    uint64_t size() const { return count_; }

  private:
    T* data_ = nullptr;
    uint64_t count_ = 0;
};

// A copy from pageable memory may still be under way when it returns, and streams that do not wait for the default
// stream would not wait for it either.
inline void copy_to_device(void* to, const void* from, uint64_t bytes) {
    if (bytes == 0) return;
    CHECK_CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaDeviceSynchronize());
}

template <class T>
DeviceArray<T> upload(const std::vector<T>& values) {
    DeviceArray<T> array(values.size());
    copy_to_device(array.data(), values.data(), values.size() * sizeof(T));
    return array;
}

// Waits for all streams first: the output of a kernel on another stream is whole when it is compared.
template <class T>
std::vector<T> download(const T* data, uint64_t count) {
    std::vector<T> values(count);
    CHECK_CUDA(cudaDeviceSynchronize());
    if (count > 0) CHECK_CUDA(cudaMemcpy(values.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
}
template <class T>
std::vector<T> download(const DeviceArray<T>& array) {
    return download<T>(array.data(), array.size());
}

struct DeviceColumn {
    uint32_t width = 8;
    DeviceArray<uint8_t> bytes;
    DeviceArray<uint8_t> valid_bits;  // of size 0 = no NULLs

    const uint8_t* valid() const { return valid_bits.size() == 0 ? nullptr : valid_bits.data(); }
    template <class T>
    T* values() const {
        CHECK_EQ(sizeof(T), width);
        return reinterpret_cast<T*>(bytes.data());
    }
};

struct DeviceTable {
    std::vector<DeviceColumn> columns;
    uint64_t rows = 0;
};

inline DeviceColumn upload(const HostColumn& column) {
    DeviceColumn copy;
    copy.width = column.width;
    copy.bytes = upload(column.bytes);
    copy.valid_bits = upload(column.valid_bits);
    return copy;
}
inline HostColumn download(const DeviceColumn& column) {
    HostColumn copy;
    copy.width = column.width;
    copy.bytes = download(column.bytes);
    copy.valid_bits = download(column.valid_bits);
    return copy;
}

inline DeviceTable upload(const HostTable& table) {
    DeviceTable copy;
    copy.rows = table.rows();
    for (const HostColumn& column : table.columns) copy.columns.push_back(upload(column));
    return copy;
}
inline HostTable download(const DeviceTable& table) {
    HostTable copy;
    for (const DeviceColumn& column : table.columns) copy.columns.push_back(download(column));
    return copy;
}

// The hash that host_row_hash gives for the same rows. Values lie at multiples of their width (of 8 when it is 16).
RowHash device_row_hash(const std::vector<HashColumn>& columns, uint64_t rows, cudaStream_t stream = nullptr);

inline RowHash device_row_hash(const DeviceTable& table) {
    std::vector<HashColumn> columns;
    for (const DeviceColumn& column : table.columns) {
        columns.push_back({column.bytes.data(), column.width, column.valid()});
    }
    return device_row_hash(columns, table.rows);
}

}  // namespace spillway::gpu_test
