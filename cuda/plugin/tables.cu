// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include "device/guard.hpp"
#include "plugin/functions.hpp"
#include "plugin/handles.hpp"

namespace spillway::cuda { inline namespace plugin {

namespace {

uint64_t product(uint64_t a, uint64_t b) {
    uint64_t bytes = 0;
    require(!__builtin_mul_overflow(a, b, &bytes), "a column has more bytes than there are addresses");
    return bytes;
}

TableColumn make_column(MemoryPool& memory, uint64_t rows, const ColumnSpec& wanted) {
    require(wanted.kind <= ColumnKind::kBytes, "a column is of no known kind");
    TableColumn column;
    if (wanted.kind == ColumnKind::kFixed) {
        require(wanted.width > 0, "a column has values of no bytes");
        column.kind = ColumnKind::kFixed;
        column.width = wanted.width;
        column.values = memory.allocate(product(rows, wanted.width), "values of a column");
    } else {
        column.kind = ColumnKind::kBytes;
        column.width = 0;
        column.bytes = wanted.bytes;
        column.values = memory.allocate(wanted.bytes, "bytes of a column");
        column.offsets = memory.allocate(product(rows + 1, sizeof(uint64_t)), "offsets of a column");
    }
    if (wanted.nullable) {
        column.validity = memory.allocate((rows + 31) / 32 * sizeof(uint32_t), "validity of a column");
    }
    return column;
}

}  // namespace

void create_table(spillway_cuda_gpu* gpu, uint64_t rows, const ColumnSpec* columns, uint64_t column_count,
                  spillway_cuda_table** table, spillway_cuda_status* status) {
    *table = nullptr;
    guarded(status, [&] {
        DeviceTable made;
        made.rows = rows;
        for (uint64_t i = 0; i < column_count; ++i) {
            made.columns.push_back(make_column(gpu->device.memory(), rows, columns[i]));
        }
        *table = std::make_unique<spillway_cuda_table>(gpu, std::move(made)).release();
    });
}

void free_table(spillway_cuda_table* table) {
    delete table;
}

void table_size(const spillway_cuda_table* table, uint64_t* rows, uint64_t* column_count) {
    *rows = table->table.rows;
    *column_count = table->table.columns.size();
}

void table_column(const spillway_cuda_table* table, uint64_t index, ColumnSpec* told) {
    *told = {};
    if (index >= table->table.columns.size()) return;
    const TableColumn& column = table->table.columns[index];
    told->kind = column.kind;
    told->width = column.width;
    told->nullable = static_cast<bool>(column.validity);
    told->bytes = column.bytes;
}

}}  // namespace spillway::cuda::plugin
