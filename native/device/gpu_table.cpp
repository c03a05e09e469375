// SPDX-License-Identifier: Apache-2.0
#include "device/gpu_table.hpp"

#include "cuda/device/plugin.h"
#include "device/gpu_error.hpp"

namespace spillway {

namespace {

std::vector<spillway_cuda_key_part> plain(const std::vector<GpuKeyPart>& parts) {
    std::vector<spillway_cuda_key_part> made;
    for (const GpuKeyPart& part : parts) made.push_back({part.column, static_cast<int32_t>(part.kind), part.width});
    return made;
}

// The plain structs of a join and what they point at.
struct PlainJoin {
    explicit PlainJoin(const GpuJoin& from) : build_keys(plain(from.build_keys)), probe_keys(plain(from.probe_keys)) {
        for (const GpuJoinColumn& column : from.columns) {
            columns.push_back({static_cast<int32_t>(column.side), column.build_column, column.probe_column});
        }
        join.algorithm = static_cast<int32_t>(from.algorithm);
        join.emit = static_cast<int32_t>(from.emit);
        join.anti = from.anti ? 1 : 0;
        join.keep_unmatched_build = from.keep_unmatched_build ? 1 : 0;
        join.keep_unmatched_probe = from.keep_unmatched_probe ? 1 : 0;
        join.nulls_equal = from.nulls_equal ? 1 : 0;
        join.expected_rows = from.expected_rows;
        join.first_key = from.first_key;
        join.key_range = from.key_range;
        join.key_count = build_keys.size();
        join.build_keys = build_keys.data();
        join.probe_keys = probe_keys.data();
        join.column_count = columns.size();
        join.columns = columns.data();
    }
    PlainJoin(const PlainJoin&) = delete;

    std::vector<spillway_cuda_key_part> build_keys;
    std::vector<spillway_cuda_key_part> probe_keys;
    std::vector<spillway_cuda_join_column> columns;
    spillway_cuda_join join{};
};

GpuReport told(const spillway_cuda_report& report) {
    return {report.elapsed_ms,  report.transform_ms, report.match_ms, report.materialize_ms,
            report.moved_bytes, report.peak_bytes,   report.algorithm};
}

}  // namespace

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
        spillway_cuda_column column{};
        open_->functions.table_column(table, i, &column);
        const bool fixed = column.kind == SPILLWAY_CUDA_COLUMN_FIXED;
        columns_.push_back(
            {fixed ? GpuColumnKind::kFixed : GpuColumnKind::kBytes, column.width, column.nullable != 0, column.bytes});
    }
}

GpuTable GpuTable::create(GpuDevice& device, uint64_t rows, const std::vector<GpuColumn>& columns) {
    std::vector<spillway_cuda_column> wanted;
    for (const GpuColumn& column : columns) {
        const bool fixed = column.kind == GpuColumnKind::kFixed;
        wanted.push_back({fixed ? SPILLWAY_CUDA_COLUMN_FIXED : SPILLWAY_CUDA_COLUMN_BYTES, fixed ? column.width : 0,
                          column.nullable ? 1 : 0, 0, fixed ? 0 : column.bytes});
    }
    spillway_cuda_status status{};
    spillway_cuda_table* table = nullptr;
    device.functions().create_table(device.handle(), rows, wanted.data(), wanted.size(), &table, &status);
    check_gpu(status, device.ordinal());
    return GpuTable(device, table);
}

GpuTable GpuTable::join(GpuDevice& device, const GpuTable& build, const GpuTable& probe, const GpuJoin& join,
                        GpuReport& report) {
    const PlainJoin plain_join(join);
    spillway_cuda_status status{};
    spillway_cuda_report measured{};
    spillway_cuda_table* table = nullptr;
    device.functions().join_tables(device.handle(), build.handle_, probe.handle_, &plain_join.join, &table, &measured,
                                   &status);
    check_gpu(status, device.ordinal());
    report = told(measured);
    return GpuTable(device, table);
}

uint64_t GpuTable::count_join(GpuDevice& device, const GpuTable& build, const GpuTable& probe, const GpuJoin& join,
                              GpuReport& report) {
    const PlainJoin plain_join(join);
    spillway_cuda_status status{};
    spillway_cuda_report measured{};
    uint64_t rows = 0;
    device.functions().count_join(device.handle(), build.handle_, probe.handle_, &plain_join.join, &rows, &measured,
                                  &status);
    check_gpu(status, device.ordinal());
    report = told(measured);
    return rows;
}

GpuTable GpuTable::group(GpuDevice& device, const GpuTable& from, const GpuGroupBy& group, GpuReport& report) {
    const std::vector<spillway_cuda_key_part> keys = plain(group.keys);
    std::vector<spillway_cuda_aggregate> aggregates;
    for (const GpuAggregate& aggregate : group.aggregates) {
        aggregates.push_back({static_cast<int32_t>(aggregate.kind), aggregate.column,
                              static_cast<int32_t>(aggregate.value_kind), aggregate.result_width,
                              aggregate.decimal_scale});
    }
    const spillway_cuda_group wanted = {static_cast<int32_t>(group.algorithm),
                                        0,
                                        group.expected_groups,
                                        keys.size(),
                                        keys.data(),
                                        aggregates.size(),
                                        aggregates.data()};
    spillway_cuda_status status{};
    spillway_cuda_report measured{};
    spillway_cuda_table* table = nullptr;
    device.functions().group_table(device.handle(), from.handle_, &wanted, &table, &measured, &status);
    check_gpu(status, device.ordinal());
    report = told(measured);
    return GpuTable(device, table);
}

uint64_t GpuTable::bytes() const {
    uint64_t bytes = 0;
    for (const GpuColumn& column : columns_) {
        bytes += column.kind == GpuColumnKind::kFixed ? rows_ * column.width : column.bytes + (rows_ + 1) * 8;
        if (column.nullable) bytes += (rows_ + 31) / 32 * 4;
    }
    return bytes;
}

GpuTransfer GpuTable::write(size_t column, GpuPart part, uint64_t offset_bytes, const void* from, uint64_t bytes) {
    spillway_cuda_status status{};
    spillway_cuda_transfer* transfer = nullptr;
    open_->functions.write_table(handle_, column, static_cast<int32_t>(part), offset_bytes, from, bytes, &transfer,
                                 &status);
    check_gpu(status, open_->ordinal);
    return GpuTransfer(open_, transfer);
}

GpuTransfer GpuTable::read(void* to, size_t column, GpuPart part, uint64_t offset_bytes, uint64_t bytes) const {
    spillway_cuda_status status{};
    spillway_cuda_transfer* transfer = nullptr;
    open_->functions.read_table(to, handle_, column, static_cast<int32_t>(part), offset_bytes, bytes, &transfer,
                                &status);
    check_gpu(status, open_->ordinal);
    return GpuTransfer(open_, transfer);
}

GpuPieces GpuPieces::begin(GpuDevice& device, const GpuTable& build, const GpuTable& probe, const GpuJoin& join,
                           GpuReport& report) {
    const PlainJoin plain_join(join);
    spillway_cuda_status status{};
    spillway_cuda_report measured{};
    spillway_cuda_pieces* handle = nullptr;
    uint64_t rows = 0;
    device.functions().begin_join(device.handle(), build.handle_, probe.handle_, &plain_join.join, &handle, &rows,
                                  &measured, &status);
    check_gpu(status, device.ordinal());
    report = told(measured);
    GpuPieces pieces(device.shared(), handle);
    pieces.rows_ = rows;
    for (const GpuJoinColumn& column : join.columns) {
        const bool of_build = column.side == GpuSide::kBuild;
        const GpuColumn& from =
            of_build ? build.columns().at(column.build_column) : probe.columns().at(column.probe_column);
        pieces.columns_.push_back({from.kind, from.width, true, 0});
    }
    return pieces;
}

GpuTable GpuPieces::next(GpuDevice& device, uint64_t rows_max, GpuReport& report) {
    spillway_cuda_status status{};
    spillway_cuda_report measured{};
    spillway_cuda_table* table = nullptr;
    device.functions().next_piece(handle_, rows_max, &table, &measured, &status);
    check_gpu(status, device.ordinal());
    report = told(measured);
    return table == nullptr ? GpuTable() : GpuTable(device, table);
}

}  // namespace spillway
