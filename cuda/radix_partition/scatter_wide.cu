// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "device/launch.hpp"
#include "primitive/mix.cuh"
#include "primitive/warp.cuh"
#include "radix_partition/radix_policy.hpp"
#include "radix_partition/scatter_pass.hpp"
#include "radix_partition/tile_size.hpp"

// A pass over rows of more than kRowWordsMax words, of any width: the number of words is not compiled in. A tile of
// rows is put together in shared memory, and each of them leaves from there for the next place of its region: a row is
// long enough for whole sectors, so that rows need neither be sorted in the tile nor wait for others of their digit, as
// they do in scatter.cuh. What no sector is filled by, at both ends of a row, the L2 cache mostly puts together with
// the rows beside it before it goes to memory.
// Bytes per row of w words: read once (from columns what they have, later 4 w), 4 w written: of 40 bytes (two exact
// sums) 80 per later pass, of 200 (24 accumulators) 400. At the ends of rows there is a sector of 32 bytes more to be
// read at worst.
namespace spillway::cuda { inline namespace radix_partitioning {

namespace {

// The part of a block's shared memory whose size is known.
struct WideShared {
    uint64_t target[kPassFanOutMax];  // row in global memory where the tile's rows of the digit go
    uint32_t count[kPassFanOutMax];   // of these rows
};
static_assert(sizeof(WideShared) + 1024 + 128 <= kWideReservedBytes);
static_assert(kPassFanOutMax <= kWideThreads, "a thread keeps a digit");

// Where a row of a tile goes: digit << kPlaceBits | its number among those of the digit.
constexpr uint32_t kPlaceBits = 16;
constexpr uint32_t kNoPlace = ~0U;
static_assert(kWideTileRows <= 1U << kPlaceBits && kPassBitsMax < 32 - kPlaceBits);

struct WideTile {
    uint64_t first = 0;   // row where the pass reads
    uint64_t region = 0;  // that it lies in, as the number of a parent
    uint32_t rows = 0;
};

template <bool kFromRows>
__device__ inline WideTile wide_tile(const ScatterPass& pass, uint64_t index) {
    WideTile tile;
    uint64_t rest = 0;
    if constexpr (kFromRows) {
        const uint64_t place = last_not_above(pass.first_tile, pass.regions, index);
        tile.first = pass.begin[place] + (index - pass.first_tile[place]) * pass.tile_rows;
        tile.region = pass.parent == nullptr ? place : pass.parent[place];
        rest = pass.end[place] - tile.first;
    } else {
        tile.first = index * pass.tile_rows;
        rest = pass.rows - tile.first;
    }
    tile.rows = rest < pass.tile_rows ? static_cast<uint32_t>(rest) : pass.tile_rows;
    return tile;
}

// body(row of the tile, word of the row): neighbouring threads have neighbouring words, and none divides more than
// once.
template <class Body>
__device__ inline void for_each_word(uint32_t rows, uint32_t row_words, const Body& body) {
    uint32_t row = threadIdx.x / row_words;
    uint32_t word = threadIdx.x % row_words;
    const uint32_t rows_on = kWideThreads / row_words;
    const uint32_t words_on = kWideThreads % row_words;
    while (row < rows) {
        body(row, word);
        row += rows_on;
        word += words_on;
        if (word >= row_words) {
            word -= row_words;
            ++row;
        }
    }
}

// Column c of a row to its place there. Fields of 4 bytes and more begin at words.
__device__ inline void load_field(const KeyedColumns& in, int c, uint64_t row, uint32_t* to) {
    const uint32_t offset = in.offset[c];
    const uint32_t width = in.width[c];
    if (in.data[c] == nullptr) {
        to[offset / 4] = static_cast<uint32_t>(row);
        if (width == 8) to[offset / 4 + 1] = static_cast<uint32_t>(row >> 32);
    } else if (width == 8) {
        const uint2 two = static_cast<const uint2*>(in.data[c])[row];
        to[offset / 4] = two.x;
        to[offset / 4 + 1] = two.y;
    } else if (width == 1) {
        reinterpret_cast<uint8_t*>(to)[offset] = static_cast<const uint8_t*>(in.data[c])[row];
    } else if (width == 2) {
        reinterpret_cast<uint16_t*>(to)[offset / 2] = static_cast<const uint16_t*>(in.data[c])[row];
    } else {
        const uint32_t words = width / 4;
        for (uint32_t w = 0; w < words; ++w) {
            to[offset / 4 + w] = static_cast<const uint32_t*>(in.data[c])[row * words + w];
        }
    }
}

// A thread puts a whole row together, so that neighbouring ones read neighbouring values of a column.
template <int kKeyWords>
__device__ inline void load_columns(const ScatterPass& pass, const WideTile& tile, uint32_t row_words, uint32_t* rows) {
    using Mixed = MixedKey<kKeyWords>;
    for (uint32_t i = threadIdx.x; i < tile.rows; i += kWideThreads) {
        const uint64_t row = tile.first + i;
        uint32_t* const to = rows + i * wide_row_stride(row_words);
        to[row_words - 1] = 0;  // fields may end in front of the row's end
        const auto mixed = Mixed::mix(static_cast<const typename Mixed::Key*>(pass.in.key)[row]);
#pragma unroll
        for (int w = 0; w < kKeyWords; ++w) to[w] = static_cast<uint32_t>(mixed >> (32 * w));
        for (int c = 0; c < pass.in.columns; ++c) load_field(pass.in, c, row, to);
    }
}

__device__ inline void load_rows(const ScatterPass& pass, const WideTile& tile, uint32_t row_words, uint32_t* rows) {
    const uint32_t* const from = static_cast<const uint32_t*>(pass.rows_in) + tile.first * row_words;
    for_each_word(tile.rows, row_words, [&](uint32_t row, uint32_t word) {
        rows[row * wide_row_stride(row_words) + word] = from[row * row_words + word];
    });
}

// Counts the rows of each digit, and gives each row its number among them. Rows without a key have no place.
template <int kKeyWords, bool kFromRows>
__device__ inline void place_rows(const ScatterPass& pass, const WideTile& tile, uint32_t stride, const uint32_t* rows,
                                  uint32_t* place, WideShared& shared) {
    const uint32_t* const has_key = kFromRows ? nullptr : pass.in.key_valid;
    for (uint32_t i = threadIdx.x; i < tile.rows; i += kWideThreads) {
        const uint64_t row = tile.first + i;
        if (has_key != nullptr && (has_key[row / 32] >> (row % 32) & 1) == 0) {
            place[i] = kNoPlace;
            continue;
        }
        const uint32_t digit = radix_digit(rows[i * stride + kKeyWords - 1], pass.shift, (1U << pass.bits) - 1);
        place[i] = digit << kPlaceBits | atomicAdd(&shared.count[digit], 1U);
    }
}

template <int kKeyWords, bool kFromRows>
__global__ void __launch_bounds__(kWideThreads, kScatterBlocks)
    scatter_wide_kernel(const __grid_constant__ ScatterPass pass, uint32_t row_words) {
    extern __shared__ uint32_t wide_memory[];
    __shared__ WideShared shared;
    uint32_t* const place = wide_memory;                  // [tile_rows]
    uint32_t* const rows = wide_memory + pass.tile_rows;  // [tile_rows * stride]
    const uint32_t stride = wide_row_stride(row_words);
    const bool mine = threadIdx.x < 1U << pass.bits;  // this thread keeps a digit
    const uint64_t tiles = kFromRows ? pass.first_tile[pass.regions] : pass.tiles;
    for (uint64_t index = blockIdx.x; index < tiles; index += gridDim.x) {
        const WideTile tile = wide_tile<kFromRows>(pass, index);
        if constexpr (kFromRows) {
            load_rows(pass, tile, row_words, rows);
        } else {
            load_columns<kKeyWords>(pass, tile, row_words, rows);
        }
        if (mine) shared.count[threadIdx.x] = 0;
        __syncthreads();
        place_rows<kKeyWords, kFromRows>(pass, tile, stride, rows, place, shared);
        __syncthreads();
        if (mine && shared.count[threadIdx.x] > 0) {
            auto* const front =
                reinterpret_cast<unsigned long long*>(&pass.front[(tile.region << pass.bits) + threadIdx.x]);
            shared.target[threadIdx.x] = atomicAdd(front, static_cast<unsigned long long>(shared.count[threadIdx.x]));
        }
        __syncthreads();
        auto* const out = static_cast<uint32_t*>(pass.rows_out);
        for_each_word(tile.rows, row_words, [&](uint32_t row, uint32_t word) {
            const uint32_t to = place[row];
            if (to == kNoPlace) return;
            const uint64_t target = shared.target[to >> kPlaceBits] + (to & ((1U << kPlaceBits) - 1));
            out[target * row_words + word] = rows[row * stride + word];
        });
        __syncthreads();
    }
}

template <int kKeyWords>
void launch_wide(Device& device, const ScatterPass& pass, uint32_t row_words) {
    const bool from_rows = pass.rows_in != nullptr;
    const TileSize size = tile_size(device.properties(), static_cast<int>(row_words), kPassBitsMax);
    const auto all = static_cast<uint64_t>(device.properties().multiprocessors);
    // This follows launch_shape().
    const uint64_t tiles = from_rows ? pass.rows / pass.tile_rows + pass.regions : pass.tiles;
    const uint64_t most = pass.blocks == 0 ? size.blocks * all : pass.blocks;
    const auto blocks = static_cast<unsigned>(std::min(most, tiles));
    const auto kernel = from_rows ? scatter_wide_kernel<kKeyWords, true> : scatter_wide_kernel<kKeyWords, false>;
    launch(kernel, dim3(blocks), dim3(kWideThreads), size.shared_bytes,
           pass.stream == nullptr ? device.stream() : pass.stream, pass, row_words);
}

}  // namespace

void launch_scatter_wide(Device& device, const ScatterPass& pass, const RowLayout& layout) {
    if (layout.key_words == 1) {
        launch_wide<1>(device, pass, layout.row_words);
    } else {
        launch_wide<2>(device, pass, layout.row_words);
    }
}

}}  // namespace spillway::cuda::radix_partitioning
