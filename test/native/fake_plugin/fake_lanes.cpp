// SPDX-License-Identifier: Apache-2.0
// The functions of plugin.h for copies from and to tables, which are over when they return.
#include "fake_gpu.hpp"
#include "test/gpu/support/packed_reference.hpp"

namespace fake {

using spillway::gpu_test::pack_reference;
using spillway::gpu_test::unpack_reference;

namespace {

uint8_t* range_of(const spillway_cuda_table* table, const TableCopy& copy) {
    const auto& found = const_cast<Column&>(table->table.columns.at(copy.column));
    const Block& block = copy.part == ColumnPart::kValues    ? found.values
                         : copy.part == ColumnPart::kOffsets ? found.offsets
                                                             : found.validity;
    if (copy.offset_bytes + copy.bytes > block.size())
        throw Failure{SPILLWAY_CUDA_INVALID, "a copy exceeds its column"};
    return const_cast<uint8_t*>(block.data()) + copy.offset_bytes;
}

void require_packable(const Column& column, const TableCopy& copy) {
    const bool can = !column.is_bytes() && can_pack(column.is.width) && copy.bytes % column.is.width == 0;
    if (!can) throw Failure{SPILLWAY_CUDA_INVALID, "values of no such column are packed"};
}

}  // namespace

void open_lane(spillway_cuda_gpu* gpu, spillway_cuda_lane** lane, spillway_cuda_status* status) {
    *lane = nullptr;
    guarded(gpu, status, [&] {
        ++gpu->children;
        *lane = new spillway_cuda_lane{gpu};
    });
}

void send_rows(spillway_cuda_lane* lane, uint32_t, spillway_cuda_table* to, const TableCopy* copies,
               uint64_t copy_count, spillway_cuda_status* status) {
    guarded(lane->gpu, status, [&] {
        for (uint64_t i = 0; i < copy_count; ++i) {
            uint8_t* const at = range_of(to, copies[i]);
            if (copies[i].packed) {
                const Column& column = to->table.columns[copies[i].column];
                require_packable(column, copies[i]);
                unpack_reference(copies[i].blocks, copies[i].host, column.is.width, copies[i].bytes / column.is.width,
                                 at);
            } else if (copies[i].bytes > 0) {
                std::memcpy(at, copies[i].host, copies[i].bytes);
            }
        }
    });
}

void fetch_rows(spillway_cuda_lane* lane, uint32_t, const spillway_cuda_table* from, const TableCopy* copies,
                uint64_t copy_count, spillway_cuda_status* status) {
    guarded(lane->gpu, status, [&] {
        for (uint64_t i = 0; i < copy_count; ++i) {
            uint8_t* const at = range_of(from, copies[i]);
            if (copies[i].packed) {
                const Column& column = from->table.columns[copies[i].column];
                require_packable(column, copies[i]);
                pack_reference(at, column.is.width, copies[i].bytes / column.is.width, copies[i].host,
                               copies[i].blocks);
            } else if (copies[i].bytes > 0) {
                std::memcpy(copies[i].host, at, copies[i].bytes);
            }
        }
    });
}

void wait_lane(spillway_cuda_lane* lane, uint32_t, spillway_cuda_status* status) {
    guarded(lane->gpu, status, [] {});
}

void close_lane(spillway_cuda_lane* lane) {
    const std::lock_guard<std::recursive_mutex> hold(lock());
    --lane->gpu->children;
    delete lane;
}

}  // namespace fake
