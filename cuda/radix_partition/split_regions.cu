// SPDX-License-Identifier: Apache-2.0
#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "radix_partition/histogram.cuh"
#include "radix_partition/scatter_launch.hpp"
#include "radix_partition/split_regions.hpp"
#include "radix_partition/tile_size.hpp"

namespace spillway::cuda { inline namespace radix_partitioning {

namespace {

uint32_t shift_of(int done, int bits) {
    return static_cast<uint32_t>(bits == 0 ? 0 : 32 - done - bits);
}

cudaStream_t stream_of(Device& device, const RowRegions& in) {
    return in.stream == nullptr ? device.stream() : in.stream;
}

uint32_t tile_rows_of(Device& device, const RowLayout& layout, const RowRegions& in, int bits) {
    return in.tile_rows == 0 ? split_tile_rows(device, layout, bits) : in.tile_rows;
}

}  // namespace

uint32_t split_tile_rows(Device& device, const RowLayout& layout, int bits) {
    if (bits < 0 || bits > pass_bits_max(device.properties(), static_cast<int>(layout.row_words))) {
        throw Error(ErrorCode::kInvalid, "more radix bits than one pass takes");
    }
    return tile_size(device.properties(), static_cast<int>(layout.row_words), scatter_bits_max(bits, false)).rows;
}

void count_split(Device& device, const RowLayout& layout, const RowRegions& in, int done, int bits, uint64_t* counts) {
    count_moved(device, in.total_rows * layout.row_bytes());
    const auto blocks = static_cast<unsigned>(2 * device.properties().multiprocessors);
    launch(histogram_rows_kernel, dim3(blocks), dim3(kHistogramThreads), 0, stream_of(device, in), in.rows,
           layout.row_words, layout.key_words - 1, in.begin, in.end, in.first_tile, in.parent, in.regions,
           tile_rows_of(device, layout, in, bits), shift_of(done, bits), bits,
           reinterpret_cast<unsigned long long*>(counts));
}

void move_split(Device& device, const RowLayout& layout, const RowRegions& in, int done, int bits, uint64_t* front,
                uint64_t* back, uint32_t* out) {
    count_moved(device, 2 * in.total_rows * layout.row_bytes());
    ScatterPass pass;
    pass.tile_rows = tile_rows_of(device, layout, in, bits);
    pass.rows_in = in.rows;
    pass.regions = in.regions;
    pass.begin = in.begin;
    pass.end = in.end;
    pass.parent = in.parent;
    pass.first_tile = in.first_tile;
    pass.rows = in.total_rows;
    pass.rows_out = out;
    pass.front = front;
    pass.back = back;
    pass.bits = static_cast<uint32_t>(bits);
    pass.blocks = in.blocks;
    pass.stream = stream_of(device, in);
    pass.shift = shift_of(done, bits);
    launch_scatter_rows(device, pass, layout);
}

}}  // namespace spillway::cuda::radix_partitioning
