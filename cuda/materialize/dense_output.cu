// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/launch.hpp"
#include "materialize/dense_output.hpp"
#include "primitive/prefix_sum.hpp"

namespace spillway::cuda { inline namespace materialize {

namespace {

constexpr int kThreads = 256;

// Bytes: 20 per chunk. Of each chunk: rows before `rows` that nobody wrote, rows behind it that somebody did. One entry
// more than there are chunks, so that exclusive sums end in the totals.
__global__ void count_moves(const uint32_t* holes, uint64_t chunks, uint32_t chunk_rows, uint64_t rows, uint64_t* free,
                            uint64_t* written) {
    const uint64_t chunk = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (chunk > chunks) return;
    uint64_t free_rows = 0;
    uint64_t written_rows = 0;
    if (chunk < chunks) {
        const uint64_t begin = chunk * chunk_rows;
        const uint64_t used_end = begin + chunk_rows - holes[chunk];
        const uint64_t end = begin + chunk_rows;
        if (used_end < rows) free_rows = min(end, rows) - used_end;
        if (used_end > rows) written_rows = used_end - max(begin, rows);
    }
    free[chunk] = free_rows;
    written[chunk] = written_rows;
}

template <class Value>
__device__ void move_value(void* column, uint64_t to, uint64_t from) {
    static_cast<Value*>(column)[to] = static_cast<const Value*>(column)[from];
}

__device__ void move_field(const MatchColumn& column, uint64_t to, uint64_t from) {
    switch (column.width) {
        case 1:
            return move_value<uint8_t>(column.data, to, from);
        case 2:
            return move_value<uint16_t>(column.data, to, from);
        case 4:
            return move_value<uint32_t>(column.data, to, from);
        case 8:
            return move_value<uint64_t>(column.data, to, from);
        default:
            return move_value<uint4>(column.data, to, from);
    }
}

// Bytes: each row that moves is read and written, with both searches in the sums; reports leave them out, as they are
// a few rows per warp that wrote.
__global__ void move_rows(const __grid_constant__ MatchOutput out, uint32_t key_width, uint64_t chunks, uint64_t rows,
                          const uint64_t* free_before, const uint64_t* written_before) {
    const uint64_t moves = free_before[chunks];
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t move = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; move < moves; move += step) {
        const uint64_t to_chunk = last_not_above(free_before, chunks, move);
        const uint64_t from_chunk = last_not_above(written_before, chunks, move);
        const uint64_t used_end = (to_chunk + 1) * out.chunk_rows - out.holes[to_chunk];
        const uint64_t to = used_end + move - free_before[to_chunk];
        const uint64_t from = max(from_chunk * out.chunk_rows, rows) + move - written_before[from_chunk];
        if (out.key != nullptr) move_field({out.key, key_width, 0}, to, from);
        if (out.presence != nullptr) move_value<uint8_t>(out.presence, to, from);
        for (int c = 0; c < out.columns(); ++c) move_field(out.column[c], to, from);
    }
}

}  // namespace

void close_holes(Device& device, const MatchOutput& out, uint32_t key_width, uint64_t rows, uint64_t reserved_rows) {
    const uint64_t chunks = reserved_rows / out.chunk_rows;
    if (chunks == 0 || rows == reserved_rows) return;
    const cudaStream_t stream = device.stream();
    const uint64_t bytes = (chunks + 1) * sizeof(uint64_t);
    const Allocation free = device.memory().allocate(bytes, "holes of the result");
    const Allocation written = device.memory().allocate(bytes, "holes of the result");
    launch(count_moves, grid_of_threads(chunks + 1, kThreads), dim3(kThreads), 0, stream, out.holes, chunks,
           out.chunk_rows, rows, free.as<uint64_t>(), written.as<uint64_t>());
    for (const Allocation* sums : {&free, &written}) exclusive_sum(device, sums->as<uint64_t>(), chunks + 1);
    const dim3 grid = grid_over(device, std::min(reserved_rows - rows, rows), kThreads, 8);
    launch(move_rows, grid, dim3(kThreads), 0, stream, out, key_width, chunks, rows, free.as<const uint64_t>(),
           written.as<const uint64_t>());
}

}}  // namespace spillway::cuda::materialize
