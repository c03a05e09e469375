// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/plugin.h"

// The functions of plugin.h that compute.
namespace spillway::cuda {

void join_tables_call(spillway_cuda_gpu* gpu, const spillway_cuda_table* build, const spillway_cuda_table* probe,
                      const spillway_cuda_join* join, spillway_cuda_table** result, spillway_cuda_report* report,
                      spillway_cuda_status* status);
void count_join_call(spillway_cuda_gpu* gpu, const spillway_cuda_table* build, const spillway_cuda_table* probe,
                     const spillway_cuda_join* join, uint64_t* rows, spillway_cuda_report* report,
                     spillway_cuda_status* status);
void group_table_call(spillway_cuda_gpu* gpu, const spillway_cuda_table* table, const spillway_cuda_group* group,
                      spillway_cuda_table** result, spillway_cuda_report* report, spillway_cuda_status* status);
void begin_join_call(spillway_cuda_gpu* gpu, const spillway_cuda_table* build, const spillway_cuda_table* probe,
                     const spillway_cuda_join* join, spillway_cuda_pieces** pieces, uint64_t* total_rows,
                     spillway_cuda_report* report, spillway_cuda_status* status);
void next_piece_call(spillway_cuda_pieces* pieces, uint64_t rows_max, spillway_cuda_table** table,
                     spillway_cuda_report* report, spillway_cuda_status* status);
void free_pieces(spillway_cuda_pieces* pieces);

}  // namespace spillway::cuda
