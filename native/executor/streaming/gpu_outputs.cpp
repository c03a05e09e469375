// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/gpu_outputs.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "device/value_packing.hpp"

namespace spillway {

namespace {

// Columns of a batch of so many bytes leave the cache before they are read.
constexpr uint64_t kPastCachesBytesMin = 256ULL << 10;

uint64_t blocks_before(const GpuOutput& output, uint64_t row) {
    return row / cuda::kPackedValues * cuda::packed_planes(output.width);
}

}  // namespace

uint8_t* UnpackedValues::room(size_t column, uint64_t bytes) {
    if (values_.size() <= column) values_.resize(column + 1);
    values_[column].renew(budget_, bytes, "result rows of the GPU");
    return values_[column].data();
}

GpuOutputs::GpuOutputs(const std::vector<GpuOutput>& outputs, uint64_t first, uint64_t rows, UnpackedValues* unpacked)
    : outputs_(&outputs), first_(first), rows_(rows), unpacked_(unpacked), known_(outputs.size()) {}

const uint8_t* GpuOutputs::values(size_t column) const {
    const GpuOutput& output = (*outputs_)[column];
    if (known_[column] != nullptr) return known_[column];
    if (output.blocks == nullptr) return known_[column] = output.data + first_ * output.width;
    SPILLWAY_CHECK(unpacked_ != nullptr);
    const uint64_t before = first_ % cuda::kPackedValues;  // in the first block
    uint8_t* const to = unpacked_->room(column, (before + rows_) * output.width);
    unpack_column(output.blocks + blocks_before(output, first_), output.data, output.width, before + rows_, to);
    return known_[column] = to + before * output.width;
}

std::vector<const uint8_t*> GpuOutputs::all_values() const {
    std::vector<const uint8_t*> all;
    for (size_t column = 0; column < outputs_->size(); ++column) all.push_back(values(column));
    return all;
}

void GpuOutputs::copy(size_t column, uint8_t* to) const {
    const GpuOutput& output = (*outputs_)[column];
    const uint64_t bytes = rows_ * output.width;
    if (output.blocks == nullptr || known_[column] != nullptr || first_ % cuda::kPackedValues != 0) {
        std::memcpy(to, values(column), bytes);
        return;
    }
    unpack_column(output.blocks + blocks_before(output, first_), output.data, output.width, rows_, to,
                  bytes >= kPastCachesBytesMin);
}

GpuOutputs GpuOutputs::part(uint64_t begin, uint64_t end) const {
    GpuOutputs made(*outputs_, first_ + begin, end - begin, unpacked_);
    for (size_t column = 0; column < known_.size(); ++column) {
        if (known_[column] != nullptr) made.known_[column] = known_[column] + begin * (*outputs_)[column].width;
    }
    return made;
}

uint64_t GpuOutputs::saved_bytes() const {
    uint64_t saved = 0;
    for (const GpuOutput& output : *outputs_) {
        if (output.blocks == nullptr) continue;
        SPILLWAY_CHECK(first_ % cuda::kPackedValues == 0);
        uint64_t sent = 0;
        const uint64_t end = blocks_before(output, first_ + rows_ + cuda::kPackedValues - 1);
        for (uint64_t block = blocks_before(output, first_); block < end; ++block) {
            sent += cuda::packed_bytes(output.blocks[block].bits) + sizeof(cuda::PackedBlock);
        }
        saved += rows_ * output.width - std::min(sent, rows_ * output.width);
    }
    return saved;
}

}  // namespace spillway
