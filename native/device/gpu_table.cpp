// SPDX-License-Identifier: Apache-2.0
#include "device/gpu_table.hpp"

#include "cuda/api/plugin.h"
#include "cuda/memory_model/stream_memory.hpp"
#include "device/gpu_error.hpp"

namespace spillway {

template <>
void detail::GpuOwned<spillway_cuda_table>::reset() noexcept {
    if (handle_ != nullptr) open_->functions.free_table(std::exchange(handle_, nullptr));
    open_.reset();
}

template <>
void detail::GpuOwned<spillway_cuda_pieces>::reset() noexcept {
    if (handle_ != nullptr) open_->functions.free_pieces(std::exchange(handle_, nullptr));
    open_.reset();
}

GpuTable::GpuTable(const GpuDevice& device, spillway_cuda_table* table) : GpuOwned(device.shared(), table) {
    uint64_t count = 0;
    open_->functions.table_size(table, &rows_, &count);
    for (uint64_t i = 0; i < count; ++i) {
        cuda::ColumnSpec& column = columns_.emplace_back();
        open_->functions.table_column(table, i, &column);
    }
}

GpuTable GpuTable::create(GpuDevice& device, uint64_t rows, const std::vector<cuda::ColumnSpec>& columns) {
    spillway_cuda_status status{};
    spillway_cuda_table* table = nullptr;
    device.functions().create_table(device.handle(), rows, columns.data(), columns.size(), &table, &status);
    check_gpu(status, device.ordinal());
    return GpuTable(device, table);
}

GpuTable GpuTable::join(GpuDevice& device, const GpuTable& build, const GpuTable& probe, const cuda::TableJoin& join,
                        cuda::TableReport& report) {
    spillway_cuda_status status{};
    spillway_cuda_table* table = nullptr;
    device.functions().join_tables(device.handle(), build.handle_, probe.handle_, &join, &table, &report, &status);
    check_gpu(status, device.ordinal());
    return GpuTable(device, table);
}

uint64_t GpuTable::count_join(GpuDevice& device, const GpuTable& build, const GpuTable& probe,
                              const cuda::TableJoin& join, cuda::TableReport& report) {
    spillway_cuda_status status{};
    uint64_t rows = 0;
    device.functions().count_join(device.handle(), build.handle_, probe.handle_, &join, &rows, &report, &status);
    check_gpu(status, device.ordinal());
    return rows;
}

GpuTable GpuTable::group(GpuDevice& device, const GpuTable& from, const cuda::TableGroupBy& group,
                         cuda::TableReport& report) {
    spillway_cuda_status status{};
    spillway_cuda_table* table = nullptr;
    device.functions().group_table(device.handle(), from.handle_, &group, &table, &report, &status);
    check_gpu(status, device.ordinal());
    return GpuTable(device, table);
}

uint64_t GpuTable::bytes() const {
    uint64_t bytes = 0;
    for (const cuda::ColumnSpec& column : columns_) {
        bytes += column.kind == cuda::ColumnKind::kFixed ? rows_ * column.width : column.bytes + (rows_ + 1) * 8;
        if (column.nullable) bytes += cuda::validity_bytes(rows_);
    }
    return bytes;
}

GpuPieces GpuPieces::begin(GpuDevice& device, const GpuTable& build, const GpuTable& probe, const cuda::TableJoin& join,
                           cuda::TableReport& report) {
    spillway_cuda_status status{};
    spillway_cuda_pieces* handle = nullptr;
    uint64_t rows = 0;
    device.functions().begin_join(device.handle(), build.handle_, probe.handle_, &join, &handle, &rows, &report,
                                  &status);
    check_gpu(status, device.ordinal());
    GpuPieces pieces(device.shared(), handle);
    pieces.rows_ = rows;
    for (const cuda::TableJoinColumn& column : join.output) {
        const bool of_build = column.side == cuda::TableSide::kBuild;
        const cuda::ColumnSpec& from =
            of_build ? build.columns().at(column.build_column) : probe.columns().at(column.probe_column);
        pieces.columns_.push_back({from.kind, from.width, true, 0});
    }
    return pieces;
}

GpuTable GpuPieces::next(GpuDevice& device, uint64_t rows_max, cuda::TableReport& report) {
    spillway_cuda_status status{};
    spillway_cuda_table* table = nullptr;
    device.functions().next_piece(handle_, rows_max, &table, &report, &status);
    check_gpu(status, device.ordinal());
    return table == nullptr ? GpuTable() : GpuTable(device, table);
}

}  // namespace spillway
