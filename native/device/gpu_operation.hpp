// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace spillway {

// What joins and group-bys of tables in GPU memory are asked for. Enumerators have the order of the plugin's.

enum class GpuColumnKind : uint8_t { kFixed, kBytes };

struct GpuColumn {
    GpuColumnKind kind = GpuColumnKind::kFixed;
    uint32_t width = 0;     // kFixed; bools are bytes of 0 or 1
    bool nullable = false;  // has a validity bitmap
    uint64_t bytes = 0;     // kBytes: of all values
};

enum class GpuPart : uint8_t { kValues, kOffsets, kValidity };

enum class GpuKeyKind : uint8_t { kSigned, kUnsigned, kFloat, kFixed, kBytes };

struct GpuKeyPart {
    uint32_t column = 0;
    GpuKeyKind kind = GpuKeyKind::kSigned;
    uint32_t width = 0;  // normalized; kBytes: 0
};

enum class GpuJoinAlgorithm : uint8_t {
    kRadixHash,
    kNoPartitioning,
    kPerfectHash,
    kBucketChain,
    kSortMergeGather,
    kSortMergeColumns,
    kMergeSort,
    kSharedHistogram
};
enum class GpuJoinEmit : uint8_t { kPairs, kBuildOnce, kProbeOnce };
enum class GpuSide : uint8_t { kBuild, kProbe, kEither };

struct GpuJoinColumn {
    GpuSide side = GpuSide::kBuild;
    uint32_t build_column = 0;
    uint32_t probe_column = 0;
};

struct GpuJoin {
    GpuJoinAlgorithm algorithm = GpuJoinAlgorithm::kRadixHash;
    GpuJoinEmit emit = GpuJoinEmit::kPairs;
    bool anti = false;
    bool keep_unmatched_build = false;
    bool keep_unmatched_probe = false;
    bool nulls_equal = false;
    uint64_t expected_rows = 0;
    uint64_t first_key = 0;  // kPerfectHash
    uint64_t key_range = 0;  // 0: not known, found on the GPU
    std::vector<GpuKeyPart> build_keys;
    std::vector<GpuKeyPart> probe_keys;  // as many
    std::vector<GpuJoinColumn> columns;
};

enum class GpuGroupAlgorithm : uint8_t {
    kHash,
    kPartitioned,
    kSorted,
    kPartitionedGather,
    kSortedColumns,
    kDictionarySorted
};
enum class GpuAggregateKind : uint8_t { kCountRows, kCount, kSum, kMin, kMax, kMean, kFirst, kAny, kCountDistinct };
enum class GpuValueKind : uint8_t { kSigned, kUnsigned, kFloat, kDecimal, kBytes };

struct GpuAggregate {
    GpuAggregateKind kind = GpuAggregateKind::kCountRows;
    uint32_t column = 0;
    GpuValueKind value_kind = GpuValueKind::kSigned;
    uint32_t result_width = 8;
    int32_t decimal_scale = 0;
};

struct GpuGroupBy {
    GpuGroupAlgorithm algorithm = GpuGroupAlgorithm::kHash;
    uint64_t expected_groups = 0;
    std::vector<GpuKeyPart> keys;
    std::vector<GpuAggregate> aggregates;
};

// As spillway_cuda_report.
struct GpuReport {
    double elapsed_ms = 0;  // until the device was done
    double transform_ms = 0;
    double match_ms = 0;
    double materialize_ms = 0;
    uint64_t moved_bytes = 0;  // that kernels must read and write, by arithmetic
    uint64_t peak_bytes = 0;   // of the device, since its last reset_peak()
    int32_t algorithm = 0;     // that ran, by its number
};

}  // namespace spillway
