/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of plugin.h for group-bys of relations larger than GPU memory, whose groups may be too many for it as well.
 * Rows come from a source and groups leave to a sink as those of plugin_out_of_core.h do. The numbers of enum classes
 * are those of group_by/group_by.hpp and out_of_core_group_by/out_of_core_group_by.hpp.
 */
#ifndef SPILLWAY_CUDA_DEVICE_PLUGIN_OUT_OF_CORE_GROUP_H
#define SPILLWAY_CUDA_DEVICE_PLUGIN_OUT_OF_CORE_GROUP_H

#include <stdint.h>

#include "plugin_out_of_core.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spillway_cuda_gpu;
struct spillway_cuda_status;

/* A group-by that has begun. */
typedef struct spillway_cuda_out_of_core_group spillway_cuda_out_of_core_group;

typedef struct spillway_cuda_out_of_core_aggregate {
    int32_t kind;       /* GroupAggregateKind without first values */
    int32_t value_kind; /* ValueKind */
    uint32_t column;    /* of the chunks; counts have none */
} spillway_cuda_out_of_core_aggregate;

/* As OutOfCoreGroupSizes. */
typedef struct spillway_cuda_out_of_core_group_sizes {
    uint32_t radix_bits;
    uint32_t chunk_slots;
    uint64_t chunk_rows;
    uint64_t page_rows;
    uint64_t pages;
    uint64_t merge_rows;
    uint64_t spill_block_bytes;
    uint64_t spill_bytes;
    uint64_t result_rows;
    uint32_t result_slots;
    int32_t pre_aggregation; /* PreAggregation */
    uint64_t disk_block_bytes;
    uint32_t disk_blocks; /* 0: rows go to no disk */
} spillway_cuda_out_of_core_group_sizes;

/* Columns of the result: the key, [a byte: 1 = the group has a key,] the aggregates. */
typedef struct spillway_cuda_out_of_core_group_spec {
    uint32_t key_bytes; /* 4 or 8 */
    int32_t null_group; /* rows without a key are a group, and results have the byte */
    /* Of the columns of chunks: 1, 2, 4 or 8 bytes. A key and all accumulators have 32 bytes at most. */
    spillway_cuda_widths widths;
    uint64_t aggregate_count;
    const spillway_cuda_out_of_core_aggregate* aggregates;
    spillway_cuda_out_of_core_group_sizes sizes;
    const spillway_cuda_disk* disk; /* NULL: none */
} spillway_cuda_out_of_core_group_spec;

typedef struct spillway_cuda_out_of_core_group_report {
    uint64_t rows;
    uint64_t groups;
    uint64_t partial_rows; /* that chunks became */
    uint64_t chunks;
    uint64_t grouped_chunks; /* that were aggregated on their own */
    uint64_t compacted_rows; /* aggregated again to make room */
    uint64_t h2d_bytes;      /* over the link: chunks, spilled rows that came back */
    uint64_t d2h_bytes;      /* ... spilled rows, result rows */
    uint64_t spilled_rows;
    uint64_t spilled_bytes;       /* as packed, in memory and on disk */
    uint64_t resident_partitions; /* after the last chunk */
    double read_ms;
    double resident_ms;
    double spilled_ms;
    uint64_t peak_bytes;         /* of the device after it */
    uint64_t disk_written_bytes; /* of the spilled bytes */
    uint64_t disk_read_bytes;
} spillway_cuda_out_of_core_group_report;

/*
 * Part of spillway_cuda_functions. What the spec's sizes take of GPU memory; needs no GPU. Then begin and run, once
 * each, which return when the device is done. sink: NULL where groups are only counted. After an error the group-by can
 * only be freed.
 */
typedef struct spillway_cuda_out_of_core_group_functions {
    void (*bytes)(const spillway_cuda_out_of_core_group_spec* spec, uint64_t* bytes,
                  struct spillway_cuda_status* status);
    void (*begin)(struct spillway_cuda_gpu* gpu, const spillway_cuda_out_of_core_group_spec* spec,
                  spillway_cuda_out_of_core_group** group, struct spillway_cuda_status* status);
    void (*run)(spillway_cuda_out_of_core_group* group, const spillway_cuda_source* source,
                const spillway_cuda_sink* sink, spillway_cuda_out_of_core_group_report* report,
                struct spillway_cuda_status* status);
    void (*free)(spillway_cuda_out_of_core_group* group);
} spillway_cuda_out_of_core_group_functions;

#ifdef __cplusplus
}
#endif

#endif
