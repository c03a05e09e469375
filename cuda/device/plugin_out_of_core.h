/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of plugin.h for joins of relations larger than GPU memory. Both sides come in chunks of host memory from a
 * source of the host, and result rows leave into memory of a sink of the host; what fits neither GPU memory nor the
 * rows' first chunk waits in pinned host memory of the plugin, or on a disk of the host. The numbers of enum classes
 * are those of out_of_core/out_of_core_join.hpp and materialize/join_output.hpp.
 */
#ifndef SPILLWAY_CUDA_DEVICE_PLUGIN_OUT_OF_CORE_H
#define SPILLWAY_CUDA_DEVICE_PLUGIN_OUT_OF_CORE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A join that has begun. */
typedef struct spillway_cuda_out_of_core spillway_cuda_out_of_core;

/* Numbers of sides, wherever there are two of something. */
enum { SPILLWAY_CUDA_BUILD = 0, SPILLWAY_CUDA_PROBE = 1 };

/* OutOfCoreResult. */
enum { SPILLWAY_CUDA_RESULT_COUNT = 0, SPILLWAY_CUDA_RESULT_SUMS = 1, SPILLWAY_CUDA_RESULT_ROWS = 2 };

/* Rows of one side: columns of one value after the other, in pinned memory of the device (allocate_pinned). */
typedef struct spillway_cuda_chunk {
    uint64_t rows;             /* chunk_rows of the sizes at most */
    const void* key;           /* key_bytes each */
    const uint32_t* key_valid; /* a bit per row in whole 32-bit words, 1 = has a key; NULL: all have */
    const void* const* columns;
} spillway_cuda_chunk;

/*
 * Called by the thread that called build or probe, one after the other. They may wait, and return with the chunk or
 * the memory there; they throw nothing.
 */
typedef struct spillway_cuda_source {
    void* context;
    /* 1: the next rows; 0: there are no more; -1: it failed, for a reason that the caller keeps. */
    int32_t (*next)(void* context, spillway_cuda_chunk* chunk);
    /* The oldest chunk that was not released yet has been read. Not called any more after an error. */
    void (*release)(void* context);
} spillway_cuda_source;

typedef struct spillway_cuda_sink {
    void* context;
    /* Pinned memory for so many rows, a pointer per column of the output. 0; -1: it failed. */
    int32_t (*open)(void* context, uint64_t rows, void** columns);
    /* The rows of the oldest open() that was not closed yet are there. Not called any more after an error. */
    void (*close)(void* context);
} spillway_cuda_sink;

/*
 * Storage for spilled rows that find no room in pinned memory. Threads of the plugin call, several at once, from begin
 * until the operation has been freed. They return 0; -1: it failed, for a reason that the caller keeps.
 */
typedef struct spillway_cuda_disk {
    void* context;
    /* Writes the bytes, and tells where. */
    int32_t (*write)(void* context, const void* data, uint64_t bytes, uint64_t* at);
    /* Reads what begins `offset` bytes into what was written at `at`. */
    int32_t (*read)(void* context, uint64_t at, uint64_t offset, void* data, uint64_t bytes);
} spillway_cuda_disk;

/* Widths of a side's columns beside its key: 1, 2, 4, 8 or 16 bytes; a row has 32 bytes at most with its key. */
typedef struct spillway_cuda_widths {
    uint64_t count;
    const uint32_t* width;
} spillway_cuda_widths;

typedef struct spillway_cuda_output_column {
    int32_t side; /* OutputSide: build, probe, key, presence */
    uint32_t column;
} spillway_cuda_output_column;

/* Which partitioner of cuda/far_partition takes the first pass, by its number; or the one that suits the GPU. */
enum { SPILLWAY_CUDA_BEST_PARTITIONER = -1 };

/*
 * Of a join by kernels alone, which read and write host memory themselves: one that gives pairs, of sides with no
 * column or one of the key's width. Of the sizes it uses radix_bits, chunk_rows, page_rows, spill_bytes (host memory
 * for pages at most), result_rows and result_slots.
 */
typedef struct spillway_cuda_coherent {
    uint64_t rows[2];          /* of each side at most: pages for them are taken when the join begins */
    uint64_t device_bytes;     /* GPU memory that the join may take; pages that it has no room for are the host's */
    int32_t partitioner;       /* SPILLWAY_CUDA_BEST_PARTITIONER, or FarPartitioner */
    uint32_t partition_blocks; /* blocks of the first pass, one per multiprocessor at most; 0: on all of them */
    uint32_t gather_blocks;    /* ... that gather rows while the others join; 0: a quarter of them */
} spillway_cuda_coherent;

/* As OutOfCoreSizes. */
typedef struct spillway_cuda_out_of_core_sizes {
    uint32_t radix_bits;
    uint32_t chunk_slots;
    uint64_t chunk_rows;
    uint64_t page_rows;
    uint64_t pages;
    uint32_t resident_partitions;
    uint32_t result_slots;
    uint64_t spill_block_bytes;
    uint64_t spill_bytes;
    uint64_t result_rows;
    uint64_t disk_block_bytes;
    uint32_t disk_blocks;  /* 0: rows go to no disk */
    uint64_t filter_words; /* 0: no Bloom filter drops probe rows */
} spillway_cuda_out_of_core_sizes;

typedef struct spillway_cuda_out_of_core_spec {
    uint32_t key_bytes; /* 4 or 8 */
    int32_t emit;       /* JoinEmit */
    int32_t anti;
    int32_t keep_unmatched_build;
    int32_t keep_unmatched_probe;
    int32_t result;                 /* SPILLWAY_CUDA_RESULT_* */
    spillway_cuda_widths widths[2]; /* by side */
    uint64_t output_count;
    const spillway_cuda_output_column* outputs; /* rows and sums */
    spillway_cuda_out_of_core_sizes sizes;
    const spillway_cuda_disk* disk;         /* NULL: none */
    const spillway_cuda_coherent* coherent; /* NULL: copy engines bring chunks in and packed rows out */
} spillway_cuda_out_of_core_spec;

typedef struct spillway_cuda_out_of_core_report {
    uint64_t rows[2]; /* of each side */
    uint64_t result_rows;
    uint64_t h2d_bytes; /* over the link: chunks, spilled rows that came back */
    uint64_t d2h_bytes; /* ... spilled rows, result rows */
    uint64_t spilled_rows[2];
    uint64_t spilled_bytes[2];   /* as packed, in memory and on disk */
    uint64_t disk_written_bytes; /* of them */
    uint64_t disk_read_bytes;
    uint64_t resident_partitions; /* after the build side */
    double build_ms;
    double probe_ms;
    double spilled_ms;
    uint64_t peak_bytes;   /* of the device after it */
    uint64_t dropped_rows; /* of the probe side, by the filter: those without a key, too */
} spillway_cuda_out_of_core_report;

#ifdef __cplusplus
}
#endif

#endif
