// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "api/plugin.h"

// The functions of plugin.h, but for those of plugin.cu.
namespace spillway::cuda { inline namespace plugin {

// Tables (tables.cu).
void create_table(spillway_cuda_gpu* gpu, uint64_t rows, const ColumnSpec* columns, uint64_t column_count,
                  spillway_cuda_table** table, spillway_cuda_status* status);
void free_table(spillway_cuda_table* table);
void table_size(const spillway_cuda_table* table, uint64_t* rows, uint64_t* column_count);
void table_column(const spillway_cuda_table* table, uint64_t column, ColumnSpec* told);

// Copies from and to tables (lanes.cu).
void open_lane(spillway_cuda_gpu* gpu, spillway_cuda_lane** lane, spillway_cuda_status* status);
void send_rows(spillway_cuda_lane* lane, uint32_t slot, spillway_cuda_table* to, const TableCopy* copies,
               uint64_t copy_count, spillway_cuda_status* status);
void fetch_rows(spillway_cuda_lane* lane, uint32_t slot, const spillway_cuda_table* from, const TableCopy* copies,
                uint64_t copy_count, spillway_cuda_status* status);
void wait_lane(spillway_cuda_lane* lane, uint32_t slot, spillway_cuda_status* status);
void close_lane(spillway_cuda_lane* lane);

// Operations on tables (operations.cu).
void join_tables_call(spillway_cuda_gpu* gpu, const spillway_cuda_table* build, const spillway_cuda_table* probe,
                      const TableJoin* join, spillway_cuda_table** result, TableReport* report,
                      spillway_cuda_status* status);
void count_join_call(spillway_cuda_gpu* gpu, const spillway_cuda_table* build, const spillway_cuda_table* probe,
                     const TableJoin* join, uint64_t* rows, TableReport* report, spillway_cuda_status* status);
void group_table_call(spillway_cuda_gpu* gpu, const spillway_cuda_table* table, const TableGroupBy* group,
                      spillway_cuda_table** result, TableReport* report, spillway_cuda_status* status);
void begin_join_call(spillway_cuda_gpu* gpu, const spillway_cuda_table* build, const spillway_cuda_table* probe,
                     const TableJoin* join, spillway_cuda_pieces** pieces, uint64_t* total_rows, TableReport* report,
                     spillway_cuda_status* status);
void next_piece_call(spillway_cuda_pieces* pieces, uint64_t rows_max, spillway_cuda_table** table, TableReport* report,
                     spillway_cuda_status* status);
void free_pieces(spillway_cuda_pieces* pieces);

// Operators on inputs larger than GPU memory (streams.cu).
void begin_staged_join(spillway_cuda_gpu* gpu, const StagedJoinSpec* spec, const DiskCalls* disk,
                       spillway_cuda_stream** stream, spillway_cuda_status* status);
void begin_coherent_join(spillway_cuda_gpu* gpu, const CoherentJoinSpec* spec, spillway_cuda_stream** stream,
                         spillway_cuda_status* status);
void begin_staged_group_by(spillway_cuda_gpu* gpu, const StagedGroupBySpec* spec, const DiskCalls* disk,
                           spillway_cuda_stream** stream, spillway_cuda_status* status);
void begin_baseline_join(spillway_cuda_gpu* gpu, const BaselineJoinSpec* spec, spillway_cuda_stream** stream,
                         spillway_cuda_status* status);
void run_streams(const spillway_cuda_step* steps, uint64_t step_count, const SourceCalls* source, const SinkCalls* sink,
                 StreamReport* reports, spillway_cuda_status* status);
void free_stream(spillway_cuda_stream* stream);

// Memory of another device for their spilled rows (peers.cu).
void open_peer(spillway_cuda_gpu* gpu, int32_t ordinal, uint64_t memory_limit_bytes, spillway_cuda_peer* peer,
               spillway_cuda_status* status);

}}  // namespace spillway::cuda::plugin
