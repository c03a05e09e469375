// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/api/table_spec.hpp"
#include "device/gpu_device.hpp"

struct spillway_cuda_pieces;
struct spillway_cuda_table;

namespace spillway {

namespace detail {

template <>
void GpuOwned<spillway_cuda_table>::reset() noexcept;
template <>
void GpuOwned<spillway_cuda_pieces>::reset() noexcept;

}  // namespace detail

// A relation in GPU memory. Thread-safe as GpuDevice; different parts may be written by different threads, each by a
// GpuLane of its own.
class GpuTable : public detail::GpuOwned<spillway_cuda_table> {
  public:
    GpuTable() = default;
    // Throws as GpuDevice::allocate.
    static GpuTable create(GpuDevice& device, uint64_t rows, const std::vector<cuda::ColumnSpec>& columns);
    static GpuTable join(GpuDevice& device, const GpuTable& build, const GpuTable& probe, const cuda::TableJoin& join,
                         cuda::TableReport& report);
    static uint64_t count_join(GpuDevice& device, const GpuTable& build, const GpuTable& probe,
                               const cuda::TableJoin& join, cuda::TableReport& report);
    static GpuTable group(GpuDevice& device, const GpuTable& table, const cuda::TableGroupBy& group,
                          cuda::TableReport& report);

    uint64_t rows() const { return rows_; }
    const std::vector<cuda::ColumnSpec>& columns() const { return columns_; }
    uint64_t bytes() const;  // of all parts

  private:
    friend class GpuLane;
    friend class GpuPieces;
    GpuTable(const GpuDevice& device, spillway_cuda_table* table);

    uint64_t rows_ = 0;
    std::vector<cuda::ColumnSpec> columns_;
};

// A join whose result comes in pieces, so that it may be larger than GPU memory. Calls take turns.
class GpuPieces : public detail::GpuOwned<spillway_cuda_pieces> {
  public:
    GpuPieces() = default;
    // Counts the rows. The tables must stay until the last piece. Throws as GpuTable::join, and kUnsupportedType for
    // algorithms that have no pieces.
    static GpuPieces begin(GpuDevice& device, const GpuTable& build, const GpuTable& probe, const cuda::TableJoin& join,
                           cuda::TableReport& report);

    uint64_t rows() const { return rows_; }
    // All pieces have these columns. Only a piece itself knows whether they are nullable and how long its strings are.
    const std::vector<cuda::ColumnSpec>& columns() const { return columns_; }

    // The next rows, at most rows_max (64 at least: a smaller limit counts as that); an empty handle when all have been
    // given. After an error, also of memory, the same rows come again.
    GpuTable next(GpuDevice& device, uint64_t rows_max, cuda::TableReport& report);

  private:
    using GpuOwned::GpuOwned;
    uint64_t rows_ = 0;
    std::vector<cuda::ColumnSpec> columns_;
};

}  // namespace spillway
