// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/gpu_lane.hpp"
#include "device/gpu_table.hpp"
#include "device/value_packer.hpp"
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
    bool packed = false;  // kFixed only

    bool is_bytes() const { return column.kind == cuda::ColumnKind::kBytes; }
    // Bytes per row of a chunk's staging memory: values, or offsets.
    uint64_t row_bytes() const { return is_bytes() ? sizeof(uint64_t) : column.width; }
};

UploadPlan upload_plan(const ColumnType& type, bool decode);

// Takes the bytes of one column of a chunk, one value behind the other: into an area that has room for all of them, or,
// of chunks whose text is longer than the memory for it, run by run on their way.
class TextStream {
  public:
    TextStream(GpuTable& table, size_t column, GpuLane& lane, LaneStaging& staging, const JobControl& control)
        : table_(table), column_(column), lane_(lane), staging_(staging), control_(control) {}
    // `at`: the place of the first byte in the column. area: nullptr where there is none.
    void start(uint64_t at, uint8_t* area, uint64_t area_bytes);
    uint64_t position() const { return at_ + run_bytes_; }
    // False: the area is full, so that there are more bytes than the offsets of the column told before.
    bool append(const uint8_t* from, uint64_t bytes);
    void flush();  // before another stream uses the staging memory
    // What is in the area.
    cuda::TableCopy copy() const;

  private:
    GpuTable& table_;
    const size_t column_;
    GpuLane& lane_;
    LaneStaging& staging_;
    const JobControl& control_;
    uint64_t at_ = 0;
    uint8_t* area_ = nullptr;
    uint64_t area_bytes_ = 0;
    uint8_t* run_ = nullptr;  // taken and not yet sent
    uint64_t run_bytes_ = 0;
};

// Where the rows of a chunk go in the memory of one worker.
struct ChunkPlace {
    uint8_t* values = nullptr;  // or offsets
    uint8_t* validity = nullptr;
    TextStream* text = nullptr;     // of strings
    ValuePacker* packer = nullptr;  // of what is packed
};

// Writes rows of a view into a chunk; `at` is the first row's place in it. False: see TextStream::append.
bool stage_rows(const UploadPlan& plan, const ColumnView& view, int64_t rows, const ChunkPlace& place, int64_t at);

// Bytes that the values of a decoded dictionary column take.
uint64_t decoded_bytes(const ColumnView& view, int64_t rows);

}  // namespace spillway
