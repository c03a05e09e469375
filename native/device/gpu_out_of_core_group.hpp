// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/gpu_out_of_core.hpp"

struct spillway_cuda_out_of_core_group;

namespace spillway {

namespace detail {

template <>
void GpuOwned<spillway_cuda_out_of_core_group>::reset() noexcept;

}  // namespace detail

// Group-bys of relations larger than GPU memory; see cuda/out_of_core_group_by/out_of_core_group_by.hpp for what each
// size means. Enumerators have the order of the plugin's.

enum class GpuPreAggregation : uint8_t { kAuto, kAlways, kNever };

struct GpuOutOfCoreGroupSizes {
    uint32_t radix_bits = 8;
    uint32_t chunk_slots = 3;
    uint64_t chunk_rows = 0;
    uint64_t page_rows = 0;  // a power of two
    uint64_t pages = 0;
    uint64_t merge_rows = 0;  // partial rows that are aggregated at once
    uint64_t spill_block_bytes = 0;
    uint64_t spill_bytes = 0;
    uint64_t result_rows = 0;
    uint32_t result_slots = 2;
    GpuPreAggregation pre_aggregation = GpuPreAggregation::kAuto;
    uint64_t disk_block_bytes = 0;
    uint32_t disk_blocks = 0;  // 0: no rows go to disk
};

enum class GpuPartialKind : uint8_t { kCountRows, kCount, kSum, kMean, kMin, kMax };
enum class GpuNumberKind : uint8_t { kSigned, kUnsigned, kFloat };

struct GpuPartial {
    GpuPartialKind kind = GpuPartialKind::kCountRows;
    GpuNumberKind number = GpuNumberKind::kSigned;
    uint32_t column = 0;  // of the chunks
};

// Rows of the result: the key, [1 where the group has one,] the aggregates.
struct GpuOutOfCoreGroupSpec {
    uint32_t key_bytes = 8;
    std::vector<uint32_t> widths;  // of the columns of chunks: 1, 2, 4 or 8 bytes without NULLs
    std::vector<GpuPartial> aggregates;
    bool null_group = false;  // rows without a key are a group; else they are left out
    GpuOutOfCoreGroupSizes sizes;

    std::vector<uint32_t> output_widths() const;
};

struct GpuOutOfCoreGroupReport {
    uint64_t rows = 0;
    uint64_t groups = 0;
    uint64_t partial_rows = 0;
    uint64_t chunks = 0;
    uint64_t grouped_chunks = 0;
    uint64_t compacted_rows = 0;
    uint64_t h2d_bytes = 0;
    uint64_t d2h_bytes = 0;
    uint64_t spilled_rows = 0;
    uint64_t spilled_bytes = 0;  // as packed, in memory and on disk
    uint64_t resident_partitions = 0;
    double read_ms = 0;
    double resident_ms = 0;
    double spilled_ms = 0;
    uint64_t peak_bytes = 0;  // of the device, since its last reset_peak()
    uint64_t disk_written_bytes = 0;
    uint64_t disk_read_bytes = 0;
};

// run() once. Throws as GpuDevice; after an error the group-by can only go.
class GpuOutOfCoreGroupBy : public detail::GpuOwned<spillway_cuda_out_of_core_group> {
  public:
    GpuOutOfCoreGroupBy() = default;
    // disk: nullptr: there is none.
    static GpuOutOfCoreGroupBy begin(GpuDevice& device, const GpuOutOfCoreGroupSpec& spec,
                                     GpuSpillDisk* disk = nullptr);
    // GPU memory that the sizes take.
    static uint64_t device_bytes(const GpuDevice& device, const GpuOutOfCoreGroupSpec& spec);

    // sink: nullptr where groups are only counted.
    GpuOutOfCoreGroupReport run(GpuChunkSource& source, GpuResultSink* sink);

  private:
    using GpuOwned::GpuOwned;
    GpuSpillDisk* disk_ = nullptr;
};

}  // namespace spillway
