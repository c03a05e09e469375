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

const uint8_t* GpuOutputs::values(size_t column) const {
    const GpuOutput& output = (*outputs_)[column];
    SPILLWAY_CHECK(output.blocks == nullptr);
    return output.data + first_ * output.width;
}

std::vector<const uint8_t*> GpuOutputs::all_values() const {
    std::vector<const uint8_t*> all;
    for (size_t column = 0; column < outputs_->size(); ++column) all.push_back(values(column));
    return all;
}

void GpuOutputs::copy(size_t column, uint8_t* to) const {
    const GpuOutput& output = (*outputs_)[column];
    const uint64_t bytes = rows_ * output.width;
    if (output.blocks == nullptr) {
        std::memcpy(to, values(column), bytes);
        return;
    }
    SPILLWAY_CHECK(first_ % cuda::kPackedValues == 0);
    unpack_column(output.blocks + blocks_before(output, first_), output.data, output.width, rows_, to,
                  bytes >= kPastCachesBytesMin);
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
