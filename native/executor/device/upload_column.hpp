// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/gpu_table.hpp"
#include "executor/device/staging.hpp"
#include "model/column_view.hpp"

namespace spillway {

// How the rows of a column become those of a GPU column.
enum class UploadForm : uint8_t {
    kFixed,
    kBits,
    kNothing,
    kBinary,
    kViews,
    kDecodedFixed,
    kDecodedBits,
    kDecodedBytes
};

struct UploadPlan {
    UploadForm form = UploadForm::kFixed;
    cuda::ColumnSpec column;

    bool is_bytes() const { return column.kind == cuda::ColumnKind::kBytes; }
    // Bytes per row of a chunk's staging memory: values, or offsets.
    uint64_t row_bytes() const { return is_bytes() ? sizeof(uint64_t) : column.width; }
};

UploadPlan upload_plan(const ColumnType& type, bool decode);

// Sends the bytes of one column, one value behind the other.
class ValueStream {
  public:
    ValueStream(GpuTable& table, size_t column, DeviceStaging& staging, const JobControl& control)
        : table_(table), column_(column), staging_(staging), control_(control) {}
    void start(uint64_t at) { at_ = at; }
    uint64_t position() const { return at_ + run_bytes_; }
    void append(const uint8_t* from, uint64_t bytes);
    void flush();  // before another stream uses the staging memory

  private:
    GpuTable& table_;
    const size_t column_;
    DeviceStaging& staging_;
    const JobControl& control_;
    uint64_t at_ = 0;
    const uint8_t* run_ = nullptr;  // taken and not yet sent
    uint64_t run_bytes_ = 0;
};

// Writes rows of a view into a chunk: `values` (or offsets) and `validity` begin at the chunk, `at` is the first row's
// place in it. `stream` takes the bytes of strings.
void stage_rows(const UploadPlan& plan, const ColumnView& view, int64_t rows, uint8_t* values, uint8_t* validity,
                int64_t at, ValueStream* stream);

// Bytes that the values of a decoded dictionary column take.
uint64_t decoded_bytes(const ColumnView& view, int64_t rows);

}  // namespace spillway
