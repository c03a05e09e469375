/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one door between native/ (no CUDA) and cuda/ (libspillway_cuda.so). The host opens the plugin at run time,
 * compares the version, then calls. Functions have C linkage; what they are given and fill are plain structs of
 * integers, enumerations of one size, pointers and arrays, trivially copyable, so that host and plugin may come from
 * different compilers. Nothing else in the project defines any of them again.
 * Rules: every struct and function keeps its meaning while SPILLWAY_CUDA_ABI_VERSION stays; the plugin throws nothing
 * and prints nothing; text is UTF-8, cut to fit and always terminated.
 */
#ifndef SPILLWAY_CUDA_API_PLUGIN_H
#define SPILLWAY_CUDA_API_PLUGIN_H

#include <cstdint>
#include <type_traits>

#include "api/pipe_spec.hpp"
#include "api/stream_spec.hpp"
#include "api/table_spec.hpp"

extern "C" {

#define SPILLWAY_CUDA_ABI_VERSION 19
#define SPILLWAY_CUDA_TEXT_BYTES 256
#define SPILLWAY_CUDA_STATUS_TEXT_BYTES 512
#define SPILLWAY_CUDA_DEVICES_MAX 64
#define SPILLWAY_CUDA_LANE_SLOTS 4

typedef struct spillway_cuda_device {
    int32_t ordinal;
    int32_t multiprocessors;
    int32_t compute_major;
    int32_t compute_minor;
    int32_t copy_engines;
    int32_t pageable_access;   /* kernels reach pageable host memory */
    int32_t host_page_tables;  /* kernels reach it through the host's page tables */
    int32_t host_numa_mapping; /* virtual memory management accepts host NUMA nodes; 0 also when it cannot be asked */
    int32_t numa_node;         /* host NUMA node next to the device, -1 = unknown */
    uint64_t memory_bytes;
    uint64_t l2_bytes;
    char name[SPILLWAY_CUDA_TEXT_BYTES];
    char pci_bus_id[SPILLWAY_CUDA_TEXT_BYTES];
    char reason[SPILLWAY_CUDA_TEXT_BYTES]; /* why this plugin has no code for the device; empty = it has */
} spillway_cuda_device;

typedef struct spillway_cuda_devices {
    int32_t count;
    char reason[SPILLWAY_CUDA_TEXT_BYTES]; /* count == 0: why */
    spillway_cuda_device device[SPILLWAY_CUDA_DEVICES_MAX];
} spillway_cuda_devices;

/* Codes of spillway_cuda_status. */
enum {
    SPILLWAY_CUDA_OK = 0,
    SPILLWAY_CUDA_OUT_OF_MEMORY = 1,
    SPILLWAY_CUDA_FAILED = 2,    /* a call of CUDA or a kernel; see cuda_error */
    SPILLWAY_CUDA_CANCELLED = 3, /* set_cancelled() */
    SPILLWAY_CUDA_INVALID = 4,   /* an argument */
    SPILLWAY_CUDA_INTERNAL = 5,
    SPILLWAY_CUDA_UNSUPPORTED = 6, /* an operation that this plugin does not have for such columns */
    SPILLWAY_CUDA_OVERFLOW = 7     /* a sum does not fit its type */
};

/* What became of a call; the plugin fills all of it, success or not. */
typedef struct spillway_cuda_status {
    int32_t code;
    int32_t cuda_error;    /* number of the cudaError_t behind it, 0 = none */
    int32_t device_lost;   /* this process cannot use the device any more */
    int32_t host_memory;   /* SPILLWAY_CUDA_OUT_OF_MEMORY: of host memory, else of device memory */
    int32_t limit_reached; /* SPILLWAY_CUDA_OUT_OF_MEMORY: of open_device's limit; 0: the driver or system refused */
    int32_t reserved;
    uint64_t wanted_bytes; /* the three of SPILLWAY_CUDA_OUT_OF_MEMORY */
    uint64_t free_bytes;
    uint64_t limit_bytes;
    char text[SPILLWAY_CUDA_STATUS_TEXT_BYTES];
} spillway_cuda_status;

typedef struct spillway_cuda_memory {
    uint64_t used_bytes; /* blocks handed out */
    uint64_t peak_bytes; /* of used_bytes, since open_device or the last reset */
    uint64_t limit_bytes;
    uint64_t free_bytes;     /* within the limit, and what the driver has now */
    uint64_t reserved_bytes; /* taken from the driver: blocks handed out and cached ones */
    uint64_t pinned_used_bytes;
    uint64_t pinned_peak_bytes;
    uint64_t pinned_limit_bytes;
    uint64_t pinned_reserved_bytes;
} spillway_cuda_memory;

/*
 * A device opened for work, a block of its memory, a block of pinned host memory, copies under way, a table, the
 * copies of one thread from and to tables, a join whose result comes in pieces, an operator on inputs larger than GPU
 * memory.
 */
typedef struct spillway_cuda_gpu spillway_cuda_gpu;
typedef struct spillway_cuda_buffer spillway_cuda_buffer;
typedef struct spillway_cuda_pinned spillway_cuda_pinned;
typedef struct spillway_cuda_transfer spillway_cuda_transfer;
typedef struct spillway_cuda_table spillway_cuda_table;
typedef struct spillway_cuda_lane spillway_cuda_lane;
typedef struct spillway_cuda_pieces spillway_cuda_pieces;
typedef struct spillway_cuda_stream spillway_cuda_stream;

/* An operator on the way of rows, and which of its inputs they are. */
typedef struct spillway_cuda_step {
    spillway_cuda_stream* stream;
    /* How result rows of the step before become chunks of this one; NULL for the first step. */
    const spillway::cuda::PipeSpec* pipe;
    int32_t input;
} spillway_cuda_step;

/*
 * All functions but list_devices. Any host thread may call; calls for one gpu run one after the other, but for
 * allocate*, free_*, memory_info, trim, set_cancelled and those of a lane, which may run beside any. An out parameter
 * is NULL or 0 unless the status is SPILLWAY_CUDA_OK. New functions (operations) are added at the end, with a new
 * version.
 */
/* Memory of another device, and how fast it was when it was opened; rates are 0 where there was too little of it. */
typedef struct spillway_cuda_peer {
    uint64_t memory_bytes; /* the limit that holds; 0: there is no such device */
    double read_bytes_per_ms;
    double write_bytes_per_ms;
} spillway_cuda_peer;

typedef struct spillway_cuda_functions {
    uint32_t abi_version;
    uint32_t count; /* function pointers that follow */

    /* memory_limit_bytes 0: all that is free now, less a reserve for the driver. Both limits are hard. */
    void (*open_device)(int32_t ordinal, uint64_t memory_limit_bytes, uint64_t pinned_limit_bytes,
                        spillway_cuda_gpu** gpu, spillway_cuda_status* status);
    /* Refuses, and leaves the device open, while blocks, tables or transfers of it exist. */
    void (*close_device)(spillway_cuda_gpu* gpu, spillway_cuda_status* status);
    void (*memory_info)(spillway_cuda_gpu* gpu, spillway_cuda_memory* memory, spillway_cuda_status* status);
    void (*reset_peak)(spillway_cuda_gpu* gpu);
    /*
     * Gives memory that no block uses back to the driver and the system; host memory alone while an operation runs or
     * one out of core exists.
     */
    void (*trim)(spillway_cuda_gpu* gpu, spillway_cuda_status* status);
    /* Not 0: running and later calls end with SPILLWAY_CUDA_CANCELLED until it is 0 again. */
    void (*set_cancelled)(spillway_cuda_gpu* gpu, int32_t cancelled);
    /* Waits for all work of the device. */
    void (*synchronize)(spillway_cuda_gpu* gpu, spillway_cuda_status* status);

    /* Memory for `purpose`, not zeroed. The address means something on the device only. */
    void (*allocate)(spillway_cuda_gpu* gpu, uint64_t bytes, const char* purpose, spillway_cuda_buffer** buffer,
                     uint64_t* address, spillway_cuda_status* status);
    void (*free_buffer)(spillway_cuda_buffer* buffer);
    /* Host memory that the device reaches: pinned, or plain where the device uses the host's page tables. */
    void (*allocate_pinned)(spillway_cuda_gpu* gpu, uint64_t bytes, const char* purpose, spillway_cuda_pinned** block,
                            void** address, spillway_cuda_status* status);
    void (*free_pinned)(spillway_cuda_pinned* block);

    /*
     * Copy a range of the buffer. They start after the work that the device was given before, and work that it is given
     * later sees the bytes. Pinned host memory, and any of allocate_pinned, is copied while the caller goes on and must
     * stay until wait(). Other host memory goes through such blocks: an upload returns when the source has been read, a
     * download when all bytes are there. `bytes` 0 is no error.
     */
    void (*upload)(spillway_cuda_gpu* gpu, spillway_cuda_buffer* to, uint64_t offset_bytes, const void* from,
                   uint64_t bytes, spillway_cuda_transfer** transfer, spillway_cuda_status* status);
    void (*download)(spillway_cuda_gpu* gpu, void* to, const spillway_cuda_buffer* from, uint64_t offset_bytes,
                     uint64_t bytes, spillway_cuda_transfer** transfer, spillway_cuda_status* status);
    /* Waits for the copy and frees the transfer, also when the status tells of an error. */
    void (*wait)(spillway_cuda_transfer* transfer, spillway_cuda_status* status);

    /* A table whose parts are to be written: contents are whatever was there before. */
    void (*create_table)(spillway_cuda_gpu* gpu, uint64_t rows, const spillway::cuda::ColumnSpec* columns,
                         uint64_t column_count, spillway_cuda_table** table, spillway_cuda_status* status);
    void (*free_table)(spillway_cuda_table* table);
    void (*table_size)(const spillway_cuda_table* table, uint64_t* rows, uint64_t* column_count);
    void (*table_column)(const spillway_cuda_table* table, uint64_t column, spillway::cuda::ColumnSpec* told);
    /*
     * A lane is one host thread's way to copy parts of tables, beside those of others: what begins on it runs in order,
     * after the work that the device was given before open_lane. Copies must have been waited for before other calls
     * see their bytes. A part that the column does not have, or a stretch beyond it, is SPILLWAY_CUDA_INVALID.
     */
    void (*open_lane)(spillway_cuda_gpu* gpu, spillway_cuda_lane** lane, spillway_cuda_status* status);
    /* From the host to the table, and back. slot: below SPILLWAY_CUDA_LANE_SLOTS, what wait_lane waits for. */
    void (*send_rows)(spillway_cuda_lane* lane, uint32_t slot, spillway_cuda_table* to,
                      const spillway::cuda::TableCopy* copies, uint64_t copy_count, spillway_cuda_status* status);
    void (*fetch_rows)(spillway_cuda_lane* lane, uint32_t slot, const spillway_cuda_table* from,
                       const spillway::cuda::TableCopy* copies, uint64_t copy_count, spillway_cuda_status* status);
    /* Waits for the last copies of a slot, if there were any; the host's memory may then be used again. */
    void (*wait_lane)(spillway_cuda_lane* lane, uint32_t slot, spillway_cuda_status* status);
    /* Waits for all copies of the lane. */
    void (*close_lane)(spillway_cuda_lane* lane);

    /* Operations: they return when the device is done. The tables given stay as they are. */
    void (*join_tables)(spillway_cuda_gpu* gpu, const spillway_cuda_table* build, const spillway_cuda_table* probe,
                        const spillway::cuda::TableJoin* join, spillway_cuda_table** result,
                        spillway::cuda::TableReport* report, spillway_cuda_status* status);
    void (*count_join)(spillway_cuda_gpu* gpu, const spillway_cuda_table* build, const spillway_cuda_table* probe,
                       const spillway::cuda::TableJoin* join, uint64_t* rows, spillway::cuda::TableReport* report,
                       spillway_cuda_status* status);
    void (*group_table)(spillway_cuda_gpu* gpu, const spillway_cuda_table* table,
                        const spillway::cuda::TableGroupBy* group, spillway_cuda_table** result,
                        spillway::cuda::TableReport* report, spillway_cuda_status* status);

    /*
     * A join whose rows are all counted and then made in pieces, for results larger than GPU memory. The tables must
     * stay until free_pieces. SPILLWAY_CUDA_UNSUPPORTED for algorithms that have no pieces.
     */
    void (*begin_join)(spillway_cuda_gpu* gpu, const spillway_cuda_table* build, const spillway_cuda_table* probe,
                       const spillway::cuda::TableJoin* join, spillway_cuda_pieces** pieces, uint64_t* total_rows,
                       spillway::cuda::TableReport* report, spillway_cuda_status* status);
    /*
     * The next rows as a table, at most rows_max (64 at least: a smaller limit counts as that); NULL when all have been
     * given. After an error, also of memory, the next call gives the same rows.
     */
    void (*next_piece)(spillway_cuda_pieces* pieces, uint64_t rows_max, spillway_cuda_table** table,
                       spillway::cuda::TableReport* report, spillway_cuda_status* status);
    void (*free_pieces)(spillway_cuda_pieces* pieces);

    /*
     * Operators on inputs larger than GPU memory (stream_spec.hpp; memory_model/ says what their sizes take of it).
     * begin_*, then run_streams for each input, in order, once each; it returns when the input has been read, and after
     * the last one when the device is done. Joins have a build and a probe side; group-bys one input. sink: nullptr
     * unless rows are wanted. disk: nullptr where there is none. After an error the operators can only be freed.
     */
    void (*begin_staged_join)(spillway_cuda_gpu* gpu, const spillway::cuda::StagedJoinSpec* spec,
                              const spillway::cuda::DiskCalls* disk, spillway_cuda_stream** stream,
                              spillway_cuda_status* status);
    void (*begin_coherent_join)(spillway_cuda_gpu* gpu, const spillway::cuda::CoherentJoinSpec* spec,
                                spillway_cuda_stream** stream, spillway_cuda_status* status);
    void (*begin_staged_group_by)(spillway_cuda_gpu* gpu, const spillway::cuda::StagedGroupBySpec* spec,
                                  const spillway::cuda::DiskCalls* disk, spillway_cuda_stream** stream,
                                  spillway_cuda_status* status);
    /*
     * Rows of the source are that input of the first step's operator, whose result rows are that of the next one's, and
     * so on, in memory of the GPU; the sink takes those of the last one. All inputs of an operator before its last one
     * have been read when its rows are wanted. reports: one per step, of all inputs of its operator so far.
     */
    void (*run_streams)(const spillway_cuda_step* steps, uint64_t step_count, const spillway::cuda::SourceCalls* source,
                        const spillway::cuda::SinkCalls* sink, spillway::cuda::StreamReport* reports,
                        spillway_cuda_status* status);
    void (*free_stream)(spillway_cuda_stream* stream);

    /*
     * Another device whose memory takes spilled rows, and pages of joins by kernels, of operators that begin afterwards
     * (StreamSizes::peer_bytes), up to this limit, which is hard, or what the device has. ordinal -1: the first one
     * that the gpu reaches; its own: more of the same device, for tests. Copies of some MiB are timed, a few
     * milliseconds. memory_bytes is 0, and there is no error, where there is no such device. Once for each gpu.
     */
    void (*open_peer)(spillway_cuda_gpu* gpu, int32_t ordinal, uint64_t memory_limit_bytes, spillway_cuda_peer* peer,
                      spillway_cuda_status* status);

    /*
     * As begin_staged_join, without a disk: a join that others are compared with. SPILLWAY_CUDA_UNSUPPORTED, also of
     * run_streams, for what such a join cannot do here: memory that cannot be interleaved, keys in too many rows.
     */
    void (*begin_baseline_join)(spillway_cuda_gpu* gpu, const spillway::cuda::BaselineJoinSpec* spec,
                                spillway_cuda_stream** stream, spillway_cuda_status* status);
} spillway_cuda_functions;

#define SPILLWAY_CUDA_FUNCTION_COUNT 36

/* A change of a size, or of what a field means, needs a new SPILLWAY_CUDA_ABI_VERSION. */
#define SPILLWAY_CUDA_CROSSES(type, bytes)                                                            \
    static_assert(std::is_trivially_copyable_v<spillway::cuda::type>, "crosses the border as it is"); \
    static_assert(sizeof(spillway::cuda::type) == (bytes), "a new size needs a new version")
SPILLWAY_CUDA_CROSSES(ColumnSpec, 24);
SPILLWAY_CUDA_CROSSES(PackedBlock, 16);
SPILLWAY_CUDA_CROSSES(TableCopy, 40);
SPILLWAY_CUDA_CROSSES(KeyPart, 12);
SPILLWAY_CUDA_CROSSES(TableJoinColumn, 12);
SPILLWAY_CUDA_CROSSES(TableJoin, 80);
SPILLWAY_CUDA_CROSSES(TableAggregate, 20);
SPILLWAY_CUDA_CROSSES(TableGroupBy, 48);
SPILLWAY_CUDA_CROSSES(TableReport, 56);
SPILLWAY_CUDA_CROSSES(JoinOutputColumn, 8);
SPILLWAY_CUDA_CROSSES(StagedAggregate, 12);
SPILLWAY_CUDA_CROSSES(StagedJoinSpec, 848);
SPILLWAY_CUDA_CROSSES(CoherentJoinSpec, 944);
SPILLWAY_CUDA_CROSSES(BaselineJoinSpec, 880);
SPILLWAY_CUDA_CROSSES(StagedGroupBySpec, 592);
SPILLWAY_CUDA_CROSSES(SourceCalls, 24);
SPILLWAY_CUDA_CROSSES(SinkCalls, 24);
SPILLWAY_CUDA_CROSSES(DiskCalls, 24);
SPILLWAY_CUDA_CROSSES(Chunk, 496);
SPILLWAY_CUDA_CROSSES(StreamReport, 248);
SPILLWAY_CUDA_CROSSES(PipeSpec, 1120);

/* Names for dlsym. */
#define SPILLWAY_CUDA_ABI_VERSION_SYMBOL "spillway_cuda_abi_version"
#define SPILLWAY_CUDA_LIST_DEVICES_SYMBOL "spillway_cuda_list_devices"
#define SPILLWAY_CUDA_GET_FUNCTIONS_SYMBOL "spillway_cuda_get_functions"

typedef uint32_t (*spillway_cuda_abi_version_fn)(void);
/* Fills *devices. Creates no context on any device. */
typedef void (*spillway_cuda_list_devices_fn)(spillway_cuda_devices* devices);
/* A table that lives as long as the process. */
typedef const spillway_cuda_functions* (*spillway_cuda_get_functions_fn)(void);

uint32_t spillway_cuda_abi_version(void);
void spillway_cuda_list_devices(spillway_cuda_devices* devices);
const spillway_cuda_functions* spillway_cuda_get_functions(void);

}  // extern "C"

#endif
