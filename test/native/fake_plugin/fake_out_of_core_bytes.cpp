// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fake_out_of_core.hpp"

namespace fake {

namespace {

uint64_t aligned(uint64_t bytes) {
    return (bytes + 255) / 256 * 256;
}

uint64_t row_words(const spillway_cuda_out_of_core_spec& spec, int side) {
    uint64_t bytes = spec.key_bytes;
    for (uint64_t c = 0; c < spec.widths[side].count; ++c) bytes += spec.widths[side].width[c];
    return (bytes + 3) / 4;
}

// A chunk as it comes.
uint64_t chunk_bytes(const spillway_cuda_out_of_core_spec& spec, int side) {
    const uint64_t rows = spec.sizes.chunk_rows;
    uint64_t bytes = aligned(rows * spec.key_bytes) + aligned((rows + 31) / 32 * 4);
    for (uint64_t c = 0; c < spec.widths[side].count; ++c) bytes += aligned(rows * spec.widths[side].width[c]);
    return bytes;
}

uint64_t result_bytes(const spillway_cuda_out_of_core_spec& spec) {
    const OutOfCorePlan plan(spec);
    const uint64_t tiles = spec.sizes.chunk_rows / 1024 + (2ULL << spec.sizes.radix_bits) + 1024;
    uint64_t slot_bytes = 0;
    for (const auto& output : plan.outputs) slot_bytes += aligned(spec.sizes.result_rows * plan.output_width(output));
    return spec.sizes.result_slots * slot_bytes + 2 * (tiles * 32 + 1) * 8;
}

}  // namespace

uint64_t out_of_core_bytes(const spillway_cuda_out_of_core_spec& spec) {
    if (spec.coherent != nullptr) return spec.coherent->device_bytes;
    const spillway_cuda_out_of_core_sizes& sizes = spec.sizes;
    const uint64_t partitions = 1ULL << sizes.radix_bits;
    uint64_t run_words = 0;
    uint64_t slot_bytes = 0;
    for (int side = 0; side < 2; ++side) {
        const uint64_t words = (sizes.chunk_rows / 32 + partitions) * row_words(spec, side) * 32 + partitions * 32;
        run_words = std::max(run_words, words);
        slot_bytes = std::max({slot_bytes, words * 4, chunk_bytes(spec, side)});
    }
    const uint64_t row_bytes = 4 * std::max(row_words(spec, 0), row_words(spec, 1));
    const uint64_t passes = sizes.radix_bits > 8 ? 2 : 1;
    const uint64_t partitioned = (sizes.chunk_rows + partitions * 8) * row_bytes + partitions * 256;
    const uint64_t page_rows = sizes.pages * sizes.page_rows;
    const bool pairs = spec.emit == 0;
    const bool keyless = pairs ? spec.keep_unmatched_build != 0 || spec.keep_unmatched_probe != 0 : spec.anti != 0;
    const bool marks = pairs ? spec.keep_unmatched_build != 0 : spec.emit == 1;
    const bool probe_marks = pairs ? spec.keep_unmatched_probe != 0 : spec.emit == 2;
    const uint64_t index_rows = std::min(page_rows, 2 * std::max(sizes.chunk_rows, page_rows / partitions));
    uint64_t bytes = sizes.chunk_slots * slot_bytes + (1 + passes) * partitioned + 2 * run_words * 4;
    if (probe_marks) bytes += 16 * sizes.chunk_rows;
    if (keyless) bytes += 2 * partitioned + sizes.chunk_rows / 8;
    bytes += sizes.filter_words * 8;
    bytes += page_rows * 4 * row_words(spec, 0) + (marks ? page_rows : 0);
    bytes += (index_rows + (64 << 8) * 8) * 4 * row_words(spec, 0) + (page_rows / 2 + 2 * partitions) * 4;
    bytes += partitions * 24 + sizes.pages * 4 + sizes.chunk_rows / 8 + 5 * 8 * (partitions << 8);
    if (spec.result == SPILLWAY_CUDA_RESULT_ROWS) bytes += result_bytes(spec);
    const uint64_t lists = (partitions + sizes.chunk_rows / std::max<uint64_t>(sizes.page_rows, 1)) * 96;
    return bytes + 16 * lists + 2 * partitions * 29 * 16 + index_rows / 8 + (16ULL << 20);
}

}  // namespace fake
