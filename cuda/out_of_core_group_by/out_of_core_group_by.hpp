// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.hpp"
#include "group_by/group_by.hpp"
#include "out_of_core/out_of_core_join.hpp"

// Group-bys of relations that are larger than GPU memory, with groups that may be too many for it as well. Chunks are
// aggregated as they come where that makes them shorter; what they leave, partial rows of a key and accumulators, is
// partitioned and stays in pages of device memory, is aggregated again when pages run out, and is spilled only when
// that frees too few of them.
namespace spillway::cuda {

// Columns of chunks have no NULLs. Integer sums have 64 bits: one that does not fit them, of a chunk or of the whole
// input, throws kOverflow, so that a sum of signed numbers whose parts leave that range and come back may throw, and
// none is ever wrong. The same for means of integers, which are an exact sum by a count. Float sums are of doubles, in
// no particular order.
struct OutOfCoreAggregate {
    GroupAggregateKind kind = GroupAggregateKind::kCountRows;  // kFirst: refused
    ValueKind value_kind = ValueKind::kSigned;
    uint32_t column = 0;  // of the chunk; counts have none
};

enum class PreAggregation : uint8_t {
    kAuto,    // chunks as long as they have few groups, and from time to time one to see whether they have
    kAlways,  // every chunk
    kNever
};

// What the plan decides. Device memory for pages, chunks, results and columns is taken when the group-by begins;
// group-bys of parts take their own for a while (device_bytes() counts it).
struct OutOfCoreGroupSizes {
    int radix_bits = 8;
    uint64_t chunk_rows = 0;
    uint32_t chunk_slots = 3;        // chunks in device memory at once, filled or on their way
    uint64_t page_rows = 0;          // of a page of partial rows: a power of two
    uint64_t pages = 0;              // in device memory
    uint64_t merge_rows = 0;         // partial rows that are aggregated at once: chunk_rows and page_rows at least
    uint64_t spill_block_bytes = 0;  // unit of pinned host memory for spilled rows
    uint64_t spill_bytes = 0;        // of it at most; what is more goes to disk, if there is one
    uint64_t result_rows = 0;        // of a result buffer
    uint32_t result_slots = 2;
    PreAggregation pre_aggregation = PreAggregation::kAuto;
    uint64_t disk_block_bytes = 0;  // unit of what is written to disk
    uint32_t disk_blocks = 0;       // of pinned host memory, beside spill_bytes, on their way to it; 0: no disk
};

// A key and all its accumulators have 32 bytes at most: counts and sums 8 each, minima and maxima their column's, a
// mean those of a sum and a count; equal ones come once.
struct OutOfCoreGroupBySpec {
    uint32_t key_bytes = 8;
    std::vector<uint32_t> widths;  // of the columns: 1, 2, 4 or 8 bytes
    std::vector<OutOfCoreAggregate> aggregates;
    // Rows without a key are a group of their own; else they are left out. Results then have a column more, a byte
    // behind the key: 1 = the group has one. The key of the group that has none is 0.
    bool null_group = false;
    OutOfCoreGroupSizes sizes;
};

struct OutOfCoreGroupByReport {
    uint64_t rows = 0;
    uint64_t groups = 0;
    uint64_t partial_rows = 0;  // that chunks became
    uint64_t chunks = 0;
    uint64_t grouped_chunks = 0;  // that were aggregated on their own
    uint64_t compacted_rows = 0;  // partial rows that were aggregated again to make room
    uint64_t h2d_bytes = 0;       // over the link: chunks, spilled rows that came back
    uint64_t d2h_bytes = 0;       // ... spilled rows, result rows
    uint64_t spilled_rows = 0;
    uint64_t spilled_bytes = 0;        // as packed, on every tier
    uint32_t resident_partitions = 0;  // after the last chunk
    uint64_t narrowed_parts = 0;       // partitions with too many groups, split while they came back
    double read_ms = 0;                // on the caller's clock: until all chunks were read
    double resident_ms = 0;            // ... resident partitions aggregated, also between spilled ones
    double spilled_ms = 0;             // ... spilled ones, and all of the result delivered
    uint64_t disk_written_bytes = 0;   // of the spilled bytes
    uint64_t disk_read_bytes = 0;      // more than were written where partitions come back several times
};

// Result rows: the key, [has a key,] the aggregates (counts, sums and means 8 bytes, others their column's), in no
// particular order. Waits for the device. Throws kOutOfMemory (device or host tier), kInvalid, kCancelled, kOverflow;
// after an error the object can only be destroyed.
class OutOfCoreGroupBy {
  public:
    // disk: takes spilled rows that find no room in host memory, until the group-by goes; threads of it use the disk.
    OutOfCoreGroupBy(Device& device, const OutOfCoreGroupBySpec& spec, SpillDisk* disk = nullptr);
    ~OutOfCoreGroupBy();
    OutOfCoreGroupBy(const OutOfCoreGroupBy&) = delete;
    OutOfCoreGroupBy& operator=(const OutOfCoreGroupBy&) = delete;

    // Once. sink: nullptr where groups are only counted.
    const OutOfCoreGroupByReport& run(ChunkSource& source, ResultSink* sink);
    const OutOfCoreGroupByReport& run(ChunkSource& source, ResultSink& sink) { return run(source, &sink); }

    // Device memory that these sizes take, for a plan that must stay below a limit.
    static uint64_t device_bytes(const OutOfCoreGroupBySpec& spec);
    // Of the columns of the result.
    static std::vector<uint32_t> result_widths(const OutOfCoreGroupBySpec& spec);

  private:
    class Work;
    std::unique_ptr<Work> work_;
};

}  // namespace spillway::cuda
