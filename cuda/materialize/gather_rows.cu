// SPDX-License-Identifier: Apache-2.0
#include "api/join_spec.hpp"
#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/sector_bytes.hpp"
#include "materialize/gather_rows.hpp"
#include "materialize/materialize_policy.hpp"

namespace spillway::cuda { inline namespace materialize {

namespace {

constexpr uint64_t kGatherTileRows = static_cast<uint64_t>(kMaterializeThreads) * kGatherUnroll;

template <class Value>
__device__ Value value_of_row(const Value* from, uint64_t row) {
    if (from != nullptr) return __ldg(from + row);
    if constexpr (sizeof(Value) == 4) {
        return static_cast<Value>(row);
    } else if constexpr (sizeof(Value) == 8) {
        return make_uint2(static_cast<uint32_t>(row), static_cast<uint32_t>(row >> 32));
    } else {
        return Value{};  // row numbers have 4 or 8 bytes
    }
}

// Bytes: see gather_rows(). All row numbers of a thread's turn are under way before the first value is asked for, and
// all values before the first is stored.
template <class Value, class Number>
__global__ void __launch_bounds__(kMaterializeThreads)
    gather_kernel(const Value* __restrict__ from, const uint32_t* __restrict__ valid, const Number* __restrict__ rows,
                  uint64_t count, Value* __restrict__ out) {
    const uint64_t step = gridDim.x * kGatherTileRows;
    for (uint64_t tile = blockIdx.x * kGatherTileRows + threadIdx.x; tile < count; tile += step) {
        uint64_t row[kGatherUnroll] = {};
        Value value[kGatherUnroll] = {};
#pragma unroll
        for (int u = 0; u < kGatherUnroll; ++u) {
            const uint64_t i = tile + u * kMaterializeThreads;
            if (i < count) row[u] = __ldcs(&rows[i]);
        }
#pragma unroll
        for (int u = 0; u < kGatherUnroll; ++u) {
            const bool is_there = tile + u * kMaterializeThreads < count;
            const bool counts =
                valid == nullptr || (is_there && (__ldg(&valid[row[u] / 32]) >> (row[u] % 32) & 1) != 0);
            if (is_there && counts) value[u] = value_of_row(from, row[u]);
        }
#pragma unroll
        for (int u = 0; u < kGatherUnroll; ++u) {
            const uint64_t i = tile + u * kMaterializeThreads;
            if (i < count) __stcs(&out[i], value[u]);
        }
    }
}

template <class Value>
void gather_values(Device& device, const DeviceColumn& column, const RowNumbers& rows, void* out,
                   const uint32_t* valid) {
    const auto start = [&](auto kernel, const auto* numbers) {
        launch(kernel, grid_over(device, rows.count, kGatherTileRows, kMaterializeBlocksPerMultiprocessor),
               dim3(kMaterializeThreads), 0, device.stream(), static_cast<const Value*>(column.data), valid, numbers,
               rows.count, static_cast<Value*>(out));
    };
    if (rows.width == 4) {
        start(gather_kernel<Value, uint32_t>, static_cast<const uint32_t*>(rows.rows));
    } else {
        start(gather_kernel<Value, unsigned long long>, static_cast<const unsigned long long*>(rows.rows));
    }
}

uint64_t gathered_bytes(const Device& device, const DeviceColumn& column, const RowNumbers& rows, bool has_valid) {
    const uint64_t runs = rows.rises ? 1 : kAnyOrder;
    uint64_t bytes = rows.count * (rows.width + column.width);
    if (has_valid) bytes += sector_bytes(device, rows.count, sizeof(uint32_t), rows.of_rows / 8, runs);
    if (column.data == nullptr) return bytes;  // row numbers are at hand
    return bytes + sector_bytes(device, rows.count, column.width, rows.of_rows * column.width, runs);
}

}  // namespace

void check_column(const DeviceColumn& column) {
    const uint32_t width = column.width;
    if (!is_value_width(width)) {
        throw Error(ErrorCode::kInvalid, "columns have 1, 2, 4, 8 or 16 bytes");
    }
    if (reinterpret_cast<uintptr_t>(column.data) % 16 != 0) {
        throw Error(ErrorCode::kInvalid, "columns of a relation begin at multiples of 16 bytes");
    }
}

void gather_rows(Device& device, const DeviceColumn& column, const RowNumbers& rows, void* out, const uint32_t* valid) {
    check_column(column);
    if (rows.count == 0) return;
    if (column.data == nullptr && column.width != 4 && column.width != 8) {
        throw Error(ErrorCode::kInvalid, "row numbers have 4 or 8 bytes");
    }
    count_moved(device, gathered_bytes(device, column, rows, valid != nullptr));
    switch (column.width) {
        case 1:
            return gather_values<unsigned char>(device, column, rows, out, valid);
        case 2:
            return gather_values<unsigned short>(device, column, rows, out, valid);
        case 4:
            return gather_values<uint32_t>(device, column, rows, out, valid);
        case 8:
            return gather_values<uint2>(device, column, rows, out, valid);
        default:
            return gather_values<uint4>(device, column, rows, out, valid);
    }
}

}}  // namespace spillway::cuda::materialize
