// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.hpp"
#include "materialize/join_output.hpp"
#include "out_of_core/spill_disk.hpp"

// Joins of relations that are larger than GPU memory, in host memory or a peer's: the Triton join (Lutz, Breß, Zeuch,
// Rabl and Markl, SIGMOD 2022) by way of copy engines, with the residency of a hybrid hash join (docs/internals.md).
namespace spillway::cuda {

// Rows of one side in pinned host memory, or in memory of any GPU: columns of one value after the other.
struct HostChunk {
    uint64_t rows = 0;
    const void* key = nullptr;
    const uint32_t* key_valid = nullptr;  // a bit per row, 1 = has a key; nullptr: all have
    std::vector<const void*> columns;
};

// Where the rows of one side come from. Called by the thread that runs the join.
class ChunkSource {
  public:
    virtual ~ChunkSource() = default;
    // The next rows, OutOfCoreSizes::chunk_rows at most; false when there are no more. May wait for them.
    virtual bool next(HostChunk& chunk) = 0;
    // The oldest chunk that was not released yet has been read. After an error nothing is released any more: the join
    // has waited for its copies when it throws.
    virtual void release() {}
};

// Where result rows go. Called by the thread that runs the join.
class ResultSink {
  public:
    virtual ~ResultSink() = default;
    // Pinned host memory (or memory of any GPU) for so many rows, a pointer per column of the output. May wait for
    // readers, which holds up the join and nothing else.
    virtual std::vector<void*> open(uint64_t rows) = 0;
    // The rows of the oldest open() that was not closed yet are there.
    virtual void close() = 0;
};

enum class OutOfCoreResult : uint8_t {
    kCount,  // rows
    kSums,   // rows, and the sum of every column of the output (4 or 8 bytes, unsigned, modulo 2^64)
    kRows    // all rows, into a sink
};

// What the plan decides. Device memory is taken from the driver when the join begins; that of chunks is the pool's
// between them, so that another user of the pool may be faster.
struct OutOfCoreSizes {
    int radix_bits = 8;        // of the first pass
    uint64_t chunk_rows = 0;   // of a chunk of either side
    uint32_t chunk_slots = 3;  // chunks in device memory at once, filled or on their way
    // Of a Bloom filter of the build side's keys that drops probe rows before they are partitioned: words of 8 bytes, a
    // power of two; 0 = none. Joins that keep unmatched probe rows have none.
    uint64_t filter_words = 0;
    uint64_t page_rows = 0;              // of a page of build rows: a power of two
    uint64_t pages = 0;                  // for build rows, in device memory
    uint32_t resident_partitions = ~0U;  // that begin in device memory; more are spilled when pages run out
    uint64_t spill_block_bytes = 0;      // unit of pinned host memory for spilled rows
    uint64_t spill_bytes = 0;            // of it at most; what is more goes to disk, if there is one
    uint64_t disk_block_bytes = 0;       // unit of what is written to disk
    uint32_t disk_blocks = 0;            // of pinned host memory, beside spill_bytes, on their way to it; 0: no disk
    bool packed = true;                  // spilled rows; false: in all their bits, as joins without this do
    uint64_t result_rows = 0;            // of a result buffer, kRows
    uint32_t result_slots = 2;
};

struct OutOfCoreSpec {
    uint32_t key_bytes = 8;
    std::vector<uint32_t> widths[2];  // of the columns of build and probe side; rows have 32 bytes at most
    JoinKind kind;
    OutOfCoreResult result = OutOfCoreResult::kRows;
    std::vector<JoinOutputColumn> output;  // kRows and kSums
    OutOfCoreSizes sizes;
};

struct OutOfCoreReport {
    uint64_t build_rows = 0;
    uint64_t probe_rows = 0;
    uint64_t result_rows = 0;
    uint64_t dropped_rows = 0;  // probe rows that the filter kept out, with those that have no key
    std::vector<uint64_t> sums;
    uint64_t h2d_bytes = 0;  // into the device: chunks, spilled rows that came back
    uint64_t d2h_bytes = 0;  // out of it: spilled rows, result rows
    uint64_t spilled_rows[2] = {};
    uint64_t spilled_bytes[2] = {};    // as packed, on every tier
    uint64_t disk_written_bytes = 0;   // of them
    uint64_t disk_read_bytes = 0;      // more than were written where partitions come back several times
    uint32_t resident_partitions = 0;  // after the build side
    double build_ms = 0;               // on the caller's clock: until the build side was read and indexed
    double probe_ms = 0;               // ... the probe side read, resident partitions joined
    double spilled_ms = 0;             // ... spilled partitions joined
};

// One join: build(), then partition_rows() tells the true sizes, then probe(). Both wait for the device. Throws
// kOutOfMemory (device or host tier), kInvalid, kCancelled; after an error the object can only be destroyed.
class OutOfCoreJoin {
  public:
    // peer: a device whose memory takes spilled rows instead of the host's. Access to it must be enabled. disk: takes
    // those that find no room there, until the join goes; threads of the join use it.
    OutOfCoreJoin(Device& device, const OutOfCoreSpec& spec, Device* peer = nullptr, SpillDisk* disk = nullptr);
    ~OutOfCoreJoin();
    OutOfCoreJoin(const OutOfCoreJoin&) = delete;
    OutOfCoreJoin& operator=(const OutOfCoreJoin&) = delete;

    // sink: as probe()'s, for joins that keep build rows without a partner; others need none yet.
    void build(ChunkSource& source, ResultSink* sink = nullptr);
    const std::vector<uint64_t>& partition_rows() const;  // of the build side
    // sink: nullptr unless rows are wanted.
    const OutOfCoreReport& probe(ChunkSource& source, ResultSink* sink);

    // Device memory that these sizes take, for a plan that must stay below a limit.
    static uint64_t device_bytes(const OutOfCoreSpec& spec);

  private:
    class Work;
    std::unique_ptr<Work> work_;
};

}  // namespace spillway::cuda
