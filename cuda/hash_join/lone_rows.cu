// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/launch.hpp"
#include "hash_join/join_policy.hpp"
#include "hash_join/lone_rows.hpp"
#include "hash_join/packed_match.cuh"
#include "materialize/column_match.cuh"
#include "primitive/warp.cuh"
#include "radix_partition/plan_regions.hpp"

namespace spillway::cuda { inline namespace hash_join {

namespace {

struct SourceColumns {
    const void* data[kOutputColumnsMax] = {};
};

__device__ uint8_t presence_of(int side, bool keyed) {
    return static_cast<uint8_t>((side == 0 ? kBuildPresent : kProbePresent) | (keyed ? kKeyPresent : 0));
}

// A row of any width in memory.
__device__ void write_loose_field(const MatchColumn& column, uint64_t place, const uint32_t* row) {
    const uint32_t first = column.offset / 4;
    const uint32_t more = column.width / 4;
    const uint32_t words[4] = {row[first], more > 1 ? row[first + 1] : 0, more > 2 ? row[first + 2] : 0,
                               more > 2 ? row[first + 3] : 0};
    write_field(column, place, words);
}

// Counts of a warp, into the matches at its end.
__device__ void add_count(const MatchOutput& out, uint64_t count) {
    if (lane_index() == 0 && count > 0) atomicAdd(out.matches, static_cast<unsigned long long>(count));
}

// Bytes: 24 per partition.
__global__ void partition_sizes(JoinSide side, uint64_t partitions, uint64_t* sizes) {
    const uint64_t p = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (p < partitions) sizes[p] = side.end[p] - side.begin[p];
}

// Bytes: a mark per row read, and the packed row and the result's columns of each row that is written; bound by
// bandwidth. first_tile: of each partition, in tiles of kLoneTileRows.
template <int kKeyWords, bool kCountOnly>
__global__ void __launch_bounds__(kLoneThreads)
    lone_rows_kernel(const __grid_constant__ JoinPass pass, LoneRows what, const uint64_t* first_tile) {
    const JoinSide& side = what.side == 0 ? pass.build : pass.probe;
    const MatchOutput& out = pass.output.out;
    OutputPlaces places(out);
    uint64_t count = 0;
    const uint64_t tiles = first_tile[pass.partitions];
    for (uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const uint64_t p = warp_last_not_above(first_tile, pass.partitions, tile);
        const uint64_t begin = side.begin[p] + (tile - first_tile[p]) * kLoneTileRows;
        const uint64_t end = min(side.end[p], begin + kLoneTileRows);
        for (uint64_t row = begin + warp_index() * kWarpThreads; row < end; row += kLoneThreads) {
            const uint64_t mine = row + lane_index();
            const bool wanted = mine < end && (side.marks[mine] != 0) == what.marked;
            const uint32_t lanes = __ballot_sync(kFullWarp, wanted);
            if (kCountOnly) {
                count += __popc(lanes);
                continue;
            }
            const uint32_t* const words = side.rows + mine * side.row_words;
            places.give(lanes, [&](uint64_t place) {
                if (out.key != nullptr) write_packed_key<kKeyWords>(out, place, words[0], words[kKeyWords - 1]);
                if (out.presence != nullptr) out.presence[place] = presence_of(what.side, true);
                for (int c = out.first_column(what.side); c < out.last_column(what.side); ++c) {
                    write_loose_field(out.column[c], place, words);
                }
                write_zeros(out, 1 - what.side, place);
            });
        }
    }
    if (kCountOnly) {
        add_count(out, count);
    } else {
        places.finish();
    }
}

// Bytes: a bit per row read, and the columns of rows that are written, in order on both sides; bound by bandwidth.
template <bool kCountOnly>
__global__ void __launch_bounds__(kLoneThreads)
    keyless_rows_kernel(const __grid_constant__ MatchOutput out, const __grid_constant__ SourceColumns source,
                        const uint32_t* key_valid, uint64_t first, uint64_t end, uint32_t key_width, int side) {
    OutputPlaces places(out);
    const ColumnSideWriter writer(out, side);
    uint64_t count = 0;
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * kLoneThreads;
    const uint64_t warp = static_cast<uint64_t>(blockIdx.x) * kLoneThreads + warp_index() * kWarpThreads;
    for (uint64_t row = first + warp; row < end; row += step) {
        const uint64_t mine = row + lane_index();
        const bool wanted = mine < end && ((key_valid[row / 32] >> lane_index()) & 1) == 0;
        const uint32_t lanes = __ballot_sync(kFullWarp, wanted);
        if (kCountOnly) {
            count += __popc(lanes);
            continue;
        }
        places.give(lanes, [&](uint64_t place) {
            if (out.key != nullptr && key_width == 4) static_cast<uint32_t*>(out.key)[place] = 0;
            if (out.key != nullptr && key_width == 8) static_cast<uint64_t*>(out.key)[place] = 0;
            if (out.presence != nullptr) out.presence[place] = presence_of(side, false);
            writer.write(place, {source.data, mine});
            write_zeros(out, 1 - side, place);
        });
    }
    if (kCountOnly) {
        add_count(out, count);
    } else {
        places.finish();
    }
}

dim3 lone_grid(Device& device, uint64_t rows) {
    const auto most = static_cast<uint64_t>(device.properties().multiprocessors * kLoneBlocksPerMultiprocessor);
    return dim3(static_cast<unsigned>(std::min(most, rows / kLoneTileRows + 1)));
}

}  // namespace

void launch_lone_rows(Device& device, const JoinPass& pass, const LoneRows& what, uint32_t key_words, uint64_t rows) {
    const JoinSide& side = what.side == 0 ? pass.build : pass.probe;
    const Allocation sizes = device.memory().allocate(pass.partitions * sizeof(uint64_t), "sizes of partitions");
    constexpr unsigned kThreads = 256;
    launch(partition_sizes, grid_of_threads(pass.partitions, kThreads), dim3(kThreads), 0, device.stream(), side,
           pass.partitions, sizes.as<uint64_t>());
    const Allocation tiles = first_tiles(device, sizes.as<const uint64_t>(), pass.partitions, kLoneTileRows);
    const auto kernel = key_words == 1 ? (what.count_only ? lone_rows_kernel<1, true> : lone_rows_kernel<1, false>)
                                       : (what.count_only ? lone_rows_kernel<2, true> : lone_rows_kernel<2, false>);
    launch(kernel, lone_grid(device, rows), dim3(kLoneThreads), 0, device.stream(), pass, what,
           tiles.as<const uint64_t>());
}

void launch_keyless_rows(Device& device, const MatchOutput& output, const DeviceRelation& relation,
                         const void* const* source, const LoneRows& what, uint64_t first, uint64_t end) {
    if (relation.key_valid == nullptr || first >= end) return;
    SourceColumns columns;
    if (source != nullptr) std::copy_n(source, output.columns(), columns.data);
    const auto kernel = what.count_only ? keyless_rows_kernel<true> : keyless_rows_kernel<false>;
    launch(kernel, lone_grid(device, end - first), dim3(kLoneThreads), 0, device.stream(), output, columns,
           relation.key_valid, first, end, relation.key.width, what.side);
}

uint64_t lone_rows_warps(Device& device, uint64_t rows) {
    return static_cast<uint64_t>(lone_grid(device, rows).x) * (kLoneThreads / kWarpThreads);
}

}}  // namespace spillway::cuda::hash_join
