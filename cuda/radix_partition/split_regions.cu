// SPDX-License-Identifier: Apache-2.0
#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "radix_partition/histogram.cuh"
#include "radix_partition/scatter_launch.hpp"
#include "radix_partition/split_regions.hpp"
#include "radix_partition/tile_size.hpp"

namespace spillway::cuda {

uint64_t split_rows_max(uint64_t rows, uint64_t parents, int bits) {
    return rows + (parents << bits) * kRegionAlignRows;
}

SplitRegions split_regions(Device& device, const RowLayout& layout, const RowRegions& in, int done, int bits,
                           uint32_t* out) {
    if (bits < 0 || bits > pass_bits_max(device.properties(), static_cast<int>(layout.row_words)) || done + bits > 32) {
        throw Error(ErrorCode::kInvalid, "more radix bits than one pass takes");
    }
    const uint64_t children = in.parents << bits;
    const auto shift = static_cast<uint32_t>(bits == 0 ? 0 : 32 - done - bits);
    const uint32_t tile_rows =
        tile_size(device.properties(), static_cast<int>(layout.row_words), scatter_bits_max(bits, false)).rows;
    SplitRegions split;
    split.counts = device.memory().allocate((children + 1) * sizeof(uint64_t), "histogram");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(split.counts.as(), 0, (children + 1) * sizeof(uint64_t), device.stream()));
    const Allocation tiles = first_tiles(device, in.sizes, in.regions, tile_rows);
    count_moved(device, 3 * in.total_rows * layout.row_bytes());
    launch(histogram_rows_kernel, dim3(2U * static_cast<unsigned>(device.properties().multiprocessors)),
           dim3(kHistogramThreads), 0, device.stream(), in.rows, layout.row_words, layout.key_words - 1, in.begin,
           in.end, tiles.as<const uint64_t>(), in.parent, in.regions, tile_rows, shift, bits,
           split.counts.as<unsigned long long>());
    split.regions = Regions::open(device, split.counts.as<const uint64_t>(), children);
    ScatterPass pass;
    pass.tile_rows = tile_rows;
    pass.rows_in = in.rows;
    pass.regions = in.regions;
    pass.begin = in.begin;
    pass.end = in.end;
    pass.parent = in.parent;
    pass.first_tile = tiles.as<const uint64_t>();
    pass.rows = in.total_rows;
    pass.rows_out = out;
    pass.front = split.regions.front.as<uint64_t>();
    pass.back = split.regions.back.as<uint64_t>();
    pass.bits = static_cast<uint32_t>(bits);
    pass.shift = shift;
    launch_scatter_rows(device, pass, layout);
    return split;
}

}  // namespace spillway::cuda
