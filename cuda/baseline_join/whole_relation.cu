// SPDX-License-Identifier: Apache-2.0
#include "baseline_join/baseline_join_policy.hpp"
#include "baseline_join/whole_relation.hpp"
#include "device/launch.hpp"

namespace spillway::cuda { inline namespace baseline_join {

namespace {

// Bits of rows [first, first + rows), read once and written once by the word; those before them stay, those behind are
// not used yet. from nullptr: all are set.
__global__ void __launch_bounds__(kTableThreads)
    append_bits(const uint32_t* from, uint64_t rows, uint64_t first, uint32_t* to) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    const uint64_t first_word = first / 32;
    const auto shift = static_cast<uint32_t>(first % 32);
    const uint64_t source_words = (rows + 31) / 32;
    const uint64_t words = (shift + rows + 31) / 32;
    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += step) {
        // The word's upper bits come from the source's word of the same number, the lower ones from the one before.
        const uint32_t upper = i >= source_words ? 0 : from == nullptr ? ~0U : from[i];
        const uint32_t lower = i == 0 ? 0 : from == nullptr ? ~0U : from[i - 1];
        const uint32_t bits = shift == 0 ? upper : upper << shift | lower >> (32 - shift);
        const uint32_t kept = i == 0 && shift > 0 ? to[first_word] & ((1U << shift) - 1) : 0;
        to[first_word + i] = bits | kept;
    }
}

void launch_append(Device& device, const uint32_t* from, uint64_t rows, uint64_t first, uint32_t* to) {
    launch(append_bits, grid_over(device, rows / 32 + 2, kTableThreads, kTableBlocksPerMultiprocessor),
           dim3(kTableThreads), 0, device.stream(), from, rows, first, to);
}

}  // namespace

WholeRelation::WholeRelation(Device& device, uint32_t key_bytes, const ColumnWidths& widths, uint64_t rows_max)
    : device_(device), rows_max_(rows_max) {
    const auto room = [&](uint32_t width) { return device.memory().allocate(rows_max * width, "the build side"); };
    key_ = room(key_bytes);
    relation_.key = {key_.as(), key_bytes};
    for (const uint32_t width : widths) {
        columns_.push_back(room(width));
        relation_.columns.push_back({columns_.back().as(), width});
    }
}

void WholeRelation::append(const DeviceRelation& chunk) {
    if (chunk.rows > rows_max_ - relation_.rows) {
        throw Error(ErrorCode::kInvalid, "the build side has more rows than there is room for");
    }
    if (chunk.rows == 0) return;
    append_valid(chunk);
    const auto copy = [&](const Allocation& to, const DeviceColumn& from) {
        SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(to.as<uint8_t>() + relation_.rows * from.width, from.data,
                                            chunk.rows * from.width, cudaMemcpyDeviceToDevice, device_.stream()));
    };
    copy(key_, chunk.key);
    for (size_t c = 0; c < columns_.size(); ++c) copy(columns_[c], chunk.columns[c]);
    relation_.rows += chunk.rows;
}

void WholeRelation::append_valid(const DeviceRelation& chunk) {
    if (chunk.key_valid == nullptr && !valid_) return;
    if (!valid_) {
        // The last chunk's bits may reach into a word more than its rows do.
        valid_ = device_.memory().allocate((rows_max_ / 32 + 2) * sizeof(uint32_t), "rows that have a key");
        relation_.key_valid = valid_.as<const uint32_t>();
        if (relation_.rows > 0) launch_append(device_, nullptr, relation_.rows, 0, valid_.as<uint32_t>());
    }
    launch_append(device_, chunk.key_valid, chunk.rows, relation_.rows, valid_.as<uint32_t>());
}

}}  // namespace spillway::cuda::baseline_join
