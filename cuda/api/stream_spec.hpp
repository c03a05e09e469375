// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "api/fixed_list.hpp"
#include "api/group_spec.hpp"
#include "api/join_spec.hpp"
#include "api/packed_block.hpp"

// Operators on relations that are larger than GPU memory: what they are asked for, where their rows come from and go
// to, and what they report.
namespace spillway::cuda { inline namespace api {

// A group-by aggregates values of so many bytes at most.
constexpr uint32_t kAggregatedBytesMax = 8;

// Words of a packed row that kernels keep in registers, and columns beside its key: one byte each behind a key of 4
// bytes, in rows of that width.
constexpr int kRowWordsMax = 8;
constexpr int kRowColumnsMax = 28;
constexpr int kResultColumnsMax = 2 * kRowColumnsMax + 2;
// Words of a row of a staged join: wider ones pass through kernels that take any width. 28 columns of 4 bytes and a key
// of 8, or 15 of 8 bytes, are 120 and 128 bytes.
constexpr int kJoinWordsMax = 32;
// The same of a partial row of a group-by, its key and all accumulators.
constexpr int kPartialWordsMax = 2 + 2 * kGroupAggregatesMax;
// An accumulator is of one column of a chunk at most, and is itself a column of a partial row.
static_assert(kGroupAggregatesMax <= kRowColumnsMax);

// Radix bits of the first pass at most: partitions of a pass that keeps its counters in shared memory; more take one
// pass more.
constexpr int kFirstPassBitsMax = 12;
// Those of a second pass, which is a single one.
constexpr int kSecondPassBitsMax = 8;

// Words of a join's filter at most: of the 64 bits of a key's hash, 40 choose its word and 24 its bits in there.
constexpr uint64_t kFilterWordsMax = 1ULL << 40;

// Sums of one join at most: they are kept in registers.
constexpr uint32_t kSumColumnsMax = 4;
// Parts of integers, of 32 bits at most, that a join adds up for a group-by without keys behind it, which then gets no
// rows: those of twelve sums of 64-bit integers (kGroupAggregatesMax).
constexpr uint32_t kSumPartsMax = 24;

using ColumnWidths = FixedList<uint32_t, kRowColumnsMax>;

// Rows of one input, in pinned host memory or in memory of any GPU: columns of one value after the other.
struct Chunk {
    uint64_t rows = 0;                    // StreamSizes::chunk_rows at most; operators join small ones
    const void* key = nullptr;            // key_bytes each
    const uint32_t* key_valid = nullptr;  // a bit per row in whole 32-bit words, 1 = has a key; nullptr: all have
    FixedList<const void*, kRowColumnsMax> columns;
    // In pinned memory: blocks of the key and of each column whose values are packed, which then begin at line 0, a
    // multiple of 64; nullptr: values lie as they are. Operators whose kernels read chunks where they lie take none.
    const PackedBlock* key_blocks = nullptr;
    FixedList<const PackedBlock*, kRowColumnsMax> column_blocks;  // empty: of no column

    bool is_packed() const {
        bool packed = key_blocks != nullptr;
        for (const PackedBlock* const blocks : column_blocks) packed = packed || blocks != nullptr;
        return packed;
    }
};

// Where rows come from, on the host's side. Called by the thread that called run_streams, one call after the other.
// Calls may wait, and return with the chunk there; they throw nothing.
struct SourceCalls {
    void* context = nullptr;
    // 1: the next rows; 0: there are no more; -1: it failed, for a reason that the caller keeps.
    int32_t (*next)(void* context, Chunk* chunk) = nullptr;
    // The oldest chunk that was not released yet has been read. Not called any more after an error.
    void (*release)(void* context) = nullptr;
};

// Where result rows go; called as SourceCalls.
struct SinkCalls {
    void* context = nullptr;
    // Pinned memory for so many rows, a pointer per column of the output. Columns that get a pointer to blocks, too,
    // have their values packed by the GPU: room for them in whole blocks, which begins at a multiple of 64 bytes, and
    // where to put the blocks. 0; -1: it failed.
    int32_t (*open)(void* context, uint64_t rows, void** columns, PackedBlock** blocks) = nullptr;
    // The rows of the oldest open() that was not closed yet are there. Not called any more after an error.
    void (*close)(void* context) = nullptr;
};

// Storage for spilled rows that find no room in pinned memory. Threads of the plugin call, several at once, from begin
// until the operator has been freed. They return 0; -1: it failed, for a reason that the caller keeps.
struct DiskCalls {
    void* context = nullptr;
    // Writes the bytes, and tells where.
    int32_t (*write)(void* context, const void* data, uint64_t bytes, uint64_t* at) = nullptr;
    // Reads what begins `offset` bytes into what was written at `at`.
    int32_t (*read)(void* context, uint64_t at, uint64_t offset, void* data, uint64_t bytes) = nullptr;
};

// A group-by aggregates these of its chunks before it partitions their rows.
enum class PreAggregation : uint8_t {
    kAuto,    // chunks as long as they have few groups, and from time to time one to see whether they have
    kAlways,  // every chunk
    kNever
};

// What errors of memory for spilled rows begin with: who gets one may know of a disk that could have taken them.
constexpr const char* kSpilledRows = "spilled rows";

// What the plan decides. Device memory for pages and results is taken from the driver when the operator begins; that of
// chunks is the pool's between them, so that another user of the pool may be faster.
struct StreamSizes {
    int32_t radix_bits = 8;    // of the first pass
    uint32_t chunk_slots = 3;  // chunks in device memory at once, filled or on their way
    uint64_t chunk_rows = 0;   // of a chunk of any input, in device memory
    // Chunks as the host lends them, and how many it has: operators join several to one of chunk_rows.
    uint64_t host_chunk_rows = 0;
    uint32_t host_chunk_slots = 5;
    uint64_t page_rows = 0;  // of a page of build rows, or of partial rows: a power of two
    uint64_t pages = 0;      // for such rows, in device memory
    // Joins: partitions of the build side that begin in device memory; more are spilled when pages run out.
    uint32_t resident_partitions = ~0U;
    uint32_t result_slots = 2;
    uint64_t result_rows = 0;        // of a result buffer, where the result is rows
    uint64_t spill_block_bytes = 0;  // unit of a peer's and of pinned host memory for spilled rows
    uint64_t peer_bytes = 0;         // of a peer's at most, if there is one; joins by kernels have pages there
    uint64_t spill_bytes = 0;        // of pinned memory, for what is more; the rest goes to disk, if there is one
    uint64_t disk_block_bytes = 0;   // unit of what is written to disk
    uint32_t disk_blocks = 0;        // of host memory, beside spill_bytes, on their way to it; 0: no disk
    bool packed = true;              // spilled rows; false: in all their bits, as joins without this do
    // Joins: words of 8 bytes, a power of two, of a Bloom filter of the build side's keys that drops probe rows before
    // they are partitioned; 0: none. Joins that keep unmatched probe rows have none.
    uint64_t filter_words = 0;
    // Group-bys: partial rows that are aggregated at once, chunk_rows and page_rows at least.
    uint64_t merge_rows = 0;
    PreAggregation pre_aggregation = PreAggregation::kAuto;
};

enum class JoinResultKind : uint8_t {
    kCount,  // rows
    kSums,   // rows, and the sum of every column of the output (4 or 8 bytes, unsigned, modulo 2^64)
    kRows    // all rows, into a sink
};

struct StagedJoinSpec {
    uint32_t key_bytes = 8;
    ColumnWidths widths[2];  // of the columns of build and probe side; rows have 32 bytes at most
    // So many columns of either side, the first ones, 8 bytes each, are compared beside a key of 8 bytes: rows are
    // partners where all of these are equal. Rows are partitioned by the key alone.
    uint32_t key_columns = 0;
    JoinKind kind;
    JoinResultKind result = JoinResultKind::kRows;
    FixedList<JoinOutputColumn, kResultColumnsMax> output;  // kRows and kSums
    StreamSizes sizes;

    uint32_t output_width(const JoinOutputColumn& column) const {
        if (column.side == OutputSide::kKey) return key_bytes;
        if (column.side == OutputSide::kPresence) return 1;
        // A side without columns has its key for one where kernels alone join.
        const ColumnWidths& of = widths[column.side == OutputSide::kBuild ? kBuildSide : kProbeSide];
        return of.empty() ? key_bytes : of.at(column.column);
    }
    FixedList<uint32_t, kResultColumnsMax> output_widths() const {
        FixedList<uint32_t, kResultColumnsMax> all;
        for (const JoinOutputColumn& column : output) all.push_back(output_width(column));
        return all;
    }
    // Kernels alone can run it: sides have no column, or one of the key's width, which may be the rest of the key.
    bool can_be_coherent() const {
        const auto fits = [this](const ColumnWidths& of) {
            return of.empty() || (of.size() == 1 && of[0] == key_bytes);
        };
        const bool has_rest = widths[kBuildSide].size() == 1 && widths[kProbeSide].size() == 1;
        const bool whole_key = key_columns == 0 || (key_columns == 1 && key_bytes == 8 && has_rest);
        return whole_key && fits(widths[kBuildSide]) && fits(widths[kProbeSide]);
    }
};

// How kernels partition far memory, as in section 4 of the Triton join's paper (Lutz et al., SIGMOD 2022), each with
// its name there.
enum class FarPartitioner : uint8_t {
    kStandard,      // a store per tuple, and an atomic operation on the partition's cursor
    kLinear,        // a block sorts a batch in shared memory and stores its runs, which begin anywhere
    kShared,        // buffers in shared memory, used by all threads of a block; whole aligned lines are stored
    kHierarchical,  // the same with a larger buffer per block and partition in GPU memory behind them
    kBulk,          // kShared, flushed by bulk copies that one thread issues (compute capability 9.0)
    kBest           // the one that suits the GPU
};
constexpr int kFarPartitioners = 5;

// By their numbers, kBest last.
constexpr const char* kFarPartitionerNames[kFarPartitioners + 1] = {"standard",     "linear", "shared",
                                                                    "hierarchical", "bulk",   "auto"};

// Parts of a range, or pages, by memory tier, as weights: 1, 0, 3 is one stripe of GPU memory for three of the host's.
struct StripeShares {
    uint32_t device = 0;
    uint32_t peer = 0;
    uint32_t host = 0;
};

struct CoherentOptions {
    FarPartitioner partitioner = FarPartitioner::kBest;
    uint32_t partition_grid = 0;  // blocks of the first pass, of which a multiprocessor takes one; 0: on all of them
    // Blocks that gather while others join, or have the second pass; 0: the policy's.
    uint32_t gather_grid = 0;
    // The join has the other multiprocessors: the share per stage of the paper's section 5.2. A block that gathers
    // takes all shared memory of its own. Otherwise the two mix.
    bool gather_alone = true;
    // Without a second pass: probe rows are gathered like build rows for counts and sums too, as they always are where
    // results are rows: a write and a read of GPU memory more for each, and loads of 16 bytes where probes load 4.
    bool gather_probe = false;
    // Counts and sums of inner joins: rows of both sides are partitioned once more, from their pages, and joined in
    // shared memory, as in the paper. Otherwise, and where results are rows, build rows are indexed and probe rows
    // looked up.
    bool second_pass = true;
    // Radix bits of that pass, 1 to 8; 0: as many as partitions need to fit a block's shared memory.
    int32_t split_bits = 0;
    uint64_t device_bytes = 0;  // GPU memory that the join may take in all; 0: what is free
    uint64_t page_rows = 0;     // a power of two, 128 bytes to 2 MiB of them; 0: the policy's
    uint64_t group_rows = 0;    // of a side that are joined together, or indexed, about; 0: the policy's
    // Probe rows that are marked at once, about, where a build partition comes in parts; 0: the policy's.
    uint64_t marked_rows = 0;
    // None: as many pages of the GPU's memory as its limit leaves (section 5.3 of the paper mixes them with others, so
    // that memory of the GPU and the link are used at the same time). Without a share of the peer's those of the host
    // are the peer's first, up to StreamSizes::peer_bytes and to what it has.
    StripeShares shares;
    uint32_t chunks = 1;  // of a side, at most: each leaves a part of its partitions' last pages empty
    // Pages are cut from one range of addresses, whose stripes of the GPU's, a peer's and the host's memory take turns,
    // as the paper has it; kInvalid where the driver maps no memory of the host. Otherwise they are of pools, page by
    // page.
    bool mapped = false;
    // Counts and sums of inner joins with a second pass: regions are joined by arrays whose places are keys, as by the
    // paper's perfect hashing. Rows are partitioned by the lowest bits of their keys. The join throws kInvalid when it
    // runs where keys of the build side repeat, or are not dense.
    bool perfect_hash = false;
    // Buckets of a table that joins a region of the second pass in shared memory, 16 or more; 0: as many as fit there.
    // The paper's tables have 2,048.
    uint32_t table_buckets = 0;
};

struct CoherentJoinSpec {
    // Joins of a key and a payload of the same width, 4 or 8 bytes. A side without a payload takes its key for one. A
    // payload that is the rest of a key of 16 bytes (key_columns) is compared by an index, not by tables of a second
    // pass. Of the sizes: radix_bits, spill_bytes (host memory for pages at most), result_rows and result_slots.
    StagedJoinSpec join;
    uint64_t rows[2] = {};  // of build and probe side, at most: pages for them are taken before they come
    CoherentOptions options;
};

// Joins that others are compared with (cuda/baseline_join says how each works, and whose it is).
enum class BaselineJoin : uint8_t {
    kStreamProbe,    // the build side in GPU memory, past which the probe side streams
    kNpjFar,         // a hash table of the build side spread over GPU and host memory
    kCpuPartitioned  // the host's cores partition both sides, the GPU joins the partitions
};
constexpr int kBaselineJoins = 3;
constexpr const char* kBaselineJoinNames[kBaselineJoins] = {"stream-probe", "npj-far", "cpu-partitioned"};

// What kStreamProbe makes of the build side, once, and joins each chunk of the probe side by.
enum class StreamProbe : uint8_t {
    kSorted,       // both are sorted by merge sort, and merged
    kPartitioned,  // both are radix partitioned, and joined partition by partition in shared memory
    kTable         // rows of the chunk are looked up in a table of linear probing
};
constexpr int kStreamProbes = 3;
constexpr const char* kStreamProbeNames[kStreamProbes] = {"sorted", "partitioned", "table"};

struct BaselineJoinSpec {
    BaselineJoin algorithm = BaselineJoin::kStreamProbe;
    StreamProbe stream_probe = StreamProbe::kSorted;
    // kStreamProbe: a chunk passes the link while the one before is joined. kCpuPartitioned: the build side does while
    // the probe side is partitioned. false: after that.
    bool overlap = true;
    // Inner joins alone. Of the sizes, tables take chunk_rows, result_rows and result_slots; kCpuPartitioned also what
    // the staged join has for pages and the ring, and spill_bytes for partitions in host memory.
    StagedJoinSpec join;
    uint64_t build_rows = 0;  // at most: there is room for them before they come; in tables, for those with a key
    StripeShares shares;      // kNpjFar: stripes of the table by tier
    uint32_t threads = 0;     // kCpuPartitioned: of the host; 0: as many as the machine runs at once
};

// Columns of chunks have no NULLs. Integer sums have 64 bits: one that does not fit them, of a chunk or of the whole
// input, throws kOverflow, so that a sum of signed numbers whose parts leave that range and come back may throw, and
// none is ever wrong. The same for means of integers, which are an exact sum by a count. Float sums are of doubles, in
// no particular order.
constexpr uint32_t kNothingDecides = ~0U;

struct StagedAggregate {
    GroupAggregateKind kind = GroupAggregateKind::kCountRows;
    ValueKind value_kind = ValueKind::kSigned;
    uint32_t column = 0;  // of the chunk; counts have none
    // Another column of integers of 4 or 8 bytes, for kMin, kMax and kFirst: only the rows of a group count that have
    // its least value (kMax: its greatest), which is an aggregate itself. So values of 16 bytes are compared: kMin of
    // their high words, and of their low words, unsigned ones of 8 bytes, as far as these decide. kFirst has to have
    // such a column, in which a group has its least value once, as numbers of rows; its values have any width.
    uint32_t decided_by = kNothingDecides;

    GroupAggregateKind deciding_kind() const {
        return kind == GroupAggregateKind::kFirst ? GroupAggregateKind::kMin : kind;
    }
};

// A key has kGroupAggregatesMax accumulators at most: counts and sums of 8 bytes, minima and maxima of their column's,
// a first value too, a mean a sum and a count; equal ones come once. Result rows: the key, [has a key,] the aggregates
// (counts, sums and means 8 bytes, others their column's), in no particular order.
struct StagedGroupBySpec {
    uint32_t key_bytes = 8;
    ColumnWidths widths;  // of the columns: 1, 2, 4 or 8 bytes
    FixedList<StagedAggregate, kGroupAggregatesMax> aggregates;
    // Rows without a key are a group of their own; else they are left out. Results then have a column more, a byte
    // behind the key: 1 = the group has one. The key of the group that has none is 0.
    bool null_group = false;
    StreamSizes sizes;

    uint32_t aggregate_width(const StagedAggregate& aggregate) const {
        const bool chooses = aggregate.kind == GroupAggregateKind::kMin || aggregate.kind == GroupAggregateKind::kMax ||
                             aggregate.kind == GroupAggregateKind::kFirst;
        return chooses ? widths.at(aggregate.column) : 8;
    }
    // Returns the width in bytes of each column of the result.
    FixedList<uint32_t, kGroupAggregatesMax + 2> output_widths() const {
        FixedList<uint32_t, kGroupAggregatesMax + 2> made{key_bytes};
        if (null_group) made.push_back(1);
        for (const StagedAggregate& aggregate : aggregates) made.push_back(aggregate_width(aggregate));
        return made;
    }
};

// What an operator did; times are on the caller's clock. What an operator does not have is 0. Rows that come from
// another operator on the GPU, or go to one, are no bytes into the device or out of it.
struct StreamReport {
    uint64_t rows[2] = {};            // of each input
    uint64_t result_rows = 0;         // or groups
    uint64_t dropped_rows = 0;        // probe rows that the filter kept out, with those that have no key
    uint64_t h2d_bytes = 0;           // into the device: chunks, spilled rows that came back
    uint64_t saved_bytes = 0;         // of chunks, that did not cross the link since their values were packed
    uint64_t d2h_bytes = 0;           // out of it: spilled rows, result rows as they are
    uint64_t result_saved_bytes = 0;  // of result rows; 0: whoever takes them counts what packing has saved
    uint64_t spilled_rows[2] = {};
    uint64_t spilled_bytes[2] = {};    // as packed, on every tier
    uint64_t peer_bytes = 0;           // of them, in a peer's memory
    uint64_t disk_written_bytes = 0;   // of them
    uint64_t disk_read_bytes = 0;      // more than were written where partitions come back several times
    uint64_t resident_partitions = 0;  // after the build side, or after the last chunk of a group-by
    double input_ms[2] = {};           // until an input was read and, of a build side, indexed
    double resident_ms = 0;            // group-bys: resident partitions aggregated, also between spilled ones
    double spilled_ms = 0;             // spilled partitions done, and all of the result delivered
    uint64_t peak_bytes = 0;           // of the device after it
    uint64_t partial_rows = 0;         // group-bys: that chunks became
    uint64_t chunks = 0;
    uint64_t grouped_chunks = 0;  // that were aggregated on their own
    uint64_t compacted_rows = 0;  // partial rows that were aggregated again to make room
    uint64_t narrowed_parts = 0;  // partitions with too many groups, split while they came back
    FixedList<uint64_t, kSumColumnsMax> sums;
};

}}  // namespace spillway::cuda::api
