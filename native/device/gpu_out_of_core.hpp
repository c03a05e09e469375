// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

#include "device/gpu_device.hpp"
#include "device/gpu_operation.hpp"

struct spillway_cuda_out_of_core;

namespace spillway {

namespace detail {

template <>
void GpuOwned<spillway_cuda_out_of_core>::reset() noexcept;

}  // namespace detail

// Joins of relations larger than GPU memory; see cuda/out_of_core/out_of_core_join.hpp for what each size means.

struct GpuOutOfCoreSizes {
    uint32_t radix_bits = 8;
    uint32_t chunk_slots = 3;
    uint64_t chunk_rows = 0;
    uint64_t page_rows = 0;  // a power of two
    uint64_t pages = 0;
    uint32_t resident_partitions = 0;
    uint32_t result_slots = 2;
    uint64_t spill_block_bytes = 0;
    uint64_t spill_bytes = 0;
    uint64_t result_rows = 0;
    uint64_t disk_block_bytes = 0;
    uint32_t disk_blocks = 0;  // 0: no rows go to disk
    uint64_t filter_words = 0;
};

// Enumerators have the order of the plugin's.
enum class GpuOutOfCoreResult : uint8_t { kCount, kSums, kRows };
enum class GpuOutputSide : uint8_t { kBuild, kProbe, kKey, kPresence };
enum GpuPresence : uint8_t { kBuildPresent = 1, kProbePresent = 2, kKeyPresent = 4 };

struct GpuOutputColumn {
    GpuOutputSide side = GpuOutputSide::kProbe;
    uint32_t column = 0;  // of the side's widths
};

constexpr size_t kBuildSide = 0;
constexpr size_t kProbeSide = 1;

// Numbers are those of the plugin.
enum class GpuPartitioner : int8_t { kBest = -1, kStandard, kLinear, kShared, kHierarchical, kBulk };

// A join by kernels alone, which read and write host memory themselves; of the sizes it uses radix_bits, chunk_rows,
// page_rows, spill_bytes, result_rows and result_slots.
struct GpuCoherent {
    uint64_t rows[2] = {};      // of each side at most
    uint64_t device_bytes = 0;  // GPU memory that the join may take
    GpuPartitioner partitioner = GpuPartitioner::kBest;
    uint32_t partition_blocks = 0;  // 0: as many as there are multiprocessors
    uint32_t gather_blocks = 0;     // 0: the plugin's share of them
};

struct GpuOutOfCoreSpec {
    uint32_t key_bytes = 8;
    std::vector<uint32_t> widths[2];  // of the columns of each side beside its key
    GpuJoinEmit emit = GpuJoinEmit::kPairs;
    bool anti = false;
    bool keep_unmatched_build = false;
    bool keep_unmatched_probe = false;
    GpuOutOfCoreResult result = GpuOutOfCoreResult::kCount;
    std::vector<GpuOutputColumn> outputs;  // kRows, kSums
    GpuOutOfCoreSizes sizes;
    std::optional<GpuCoherent> coherent;  // none: copy engines bring chunks in and packed rows out

    uint32_t output_width(const GpuOutputColumn& output) const;
    // A filter would lose rows of the result.
    bool keeps_lone_probe_rows() const;
    // Kernels alone can run it: pairs, of sides with no column or one of the key's width.
    bool can_be_coherent() const;
};

struct GpuOutOfCoreReport {
    uint64_t rows[2] = {};
    uint64_t result_rows = 0;
    uint64_t h2d_bytes = 0;
    uint64_t d2h_bytes = 0;
    uint64_t spilled_rows[2] = {};
    uint64_t spilled_bytes[2] = {};  // as packed, in memory and on disk
    uint64_t disk_written_bytes = 0;
    uint64_t disk_read_bytes = 0;
    uint64_t resident_partitions = 0;
    double build_ms = 0;
    double probe_ms = 0;
    double spilled_ms = 0;
    uint64_t peak_bytes = 0;    // of the device, since its last reset_peak()
    uint64_t dropped_rows = 0;  // of the probe side, by the filter
    std::vector<uint64_t> sums;
};

// Rows of one side in pinned memory.
struct GpuChunk {
    uint64_t rows = 0;
    const void* key = nullptr;
    const uint32_t* key_valid = nullptr;  // nullptr: all have a key
    const void* const* columns = nullptr;
};

// Both are called by the thread that runs the join, and may throw: the join ends then, and throws the same.
class GpuChunkSource {
  public:
    virtual ~GpuChunkSource() = default;
    virtual bool next(GpuChunk& chunk) = 0;  // false: there are no more
    virtual void release() noexcept = 0;     // the oldest chunk has been read
};

class GpuResultSink {
  public:
    virtual ~GpuResultSink() = default;
    virtual void open(uint64_t rows, void** columns) = 0;  // pinned memory for each column of the output
    virtual void close() noexcept = 0;                     // the rows of the oldest open() are there
};

// Where a join or group-by puts spilled rows that pinned memory has no room for; it must outlive the operation. Threads
// of the plugin call, several at once. write() and read() may throw: the operation ends then, and throws the same.
class GpuSpillDisk {
  public:
    virtual ~GpuSpillDisk() = default;
    // Returns where the bytes are.
    virtual uint64_t write(const void* data, uint64_t bytes) = 0;
    // What begins `offset` bytes into what write() put at `at`.
    virtual void read(uint64_t at, uint64_t offset, void* data, uint64_t bytes) = 0;

    // The first exception: the plugin has none of its own.
    void keep(std::exception_ptr thrown) noexcept;
    std::exception_ptr kept() noexcept;

  private:
    std::mutex mutex_;
    std::exception_ptr thrown_;
};

// build(), then probe(), each once. Throws as GpuDevice; after an error the join can only go.
class GpuOutOfCoreJoin : public detail::GpuOwned<spillway_cuda_out_of_core> {
  public:
    GpuOutOfCoreJoin() = default;
    // disk: nullptr: there is none.
    static GpuOutOfCoreJoin begin(GpuDevice& device, const GpuOutOfCoreSpec& spec, GpuSpillDisk* disk = nullptr);
    // GPU memory that the sizes take.
    static uint64_t device_bytes(const GpuDevice& device, const GpuOutOfCoreSpec& spec);

    // sink: nullptr unless rows are wanted. Returns the rows of each partition of the build side.
    std::vector<uint64_t> build(GpuChunkSource& source, GpuResultSink* sink);
    GpuOutOfCoreReport probe(GpuChunkSource& source, GpuResultSink* sink);

  private:
    using GpuOwned::GpuOwned;
    uint64_t partitions_ = 1;
    size_t sums_ = 0;
    GpuSpillDisk* disk_ = nullptr;
};

}  // namespace spillway
