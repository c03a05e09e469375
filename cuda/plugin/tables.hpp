// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/plugin.h"

// The functions of plugin.h that make, describe and copy tables.
namespace spillway::cuda {

void create_table(spillway_cuda_gpu* gpu, uint64_t rows, const spillway_cuda_column* columns, uint64_t column_count,
                  spillway_cuda_table** table, spillway_cuda_status* status);
void free_table(spillway_cuda_table* table);
void table_size(const spillway_cuda_table* table, uint64_t* rows, uint64_t* column_count);
void table_column(const spillway_cuda_table* table, uint64_t column, spillway_cuda_column* told);
void write_table(spillway_cuda_table* to, uint64_t column, int32_t part, uint64_t offset_bytes, const void* from,
                 uint64_t bytes, spillway_cuda_transfer** transfer, spillway_cuda_status* status);
void read_table(void* to, const spillway_cuda_table* from, uint64_t column, int32_t part, uint64_t offset_bytes,
                uint64_t bytes, spillway_cuda_transfer** transfer, spillway_cuda_status* status);

}  // namespace spillway::cuda
