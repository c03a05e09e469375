// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/launch.hpp"
#include "radix_partition/scatter.cuh"
#include "radix_partition/scatter_launch.hpp"

namespace spillway::cuda {

namespace {

template <class Shape>
void launch_shape(Device& device, const ScatterPass& pass) {
    // Two blocks per multiprocessor, where shared memory has room for both: one moves memory while the other works in
    // shared memory. No more than there are tiles: the first pass knows their number, later ones have at most one for
    // every region and one for every full tile.
    const uint64_t blocks =
        2ULL * (Shape::kSharedBytes + 4096) <= device.properties().shared_bytes_per_multiprocessor ? 2 : 1;
    const uint64_t most = blocks * device.properties().multiprocessors;
    const uint64_t tiles = Shape::kFromRows ? pass.rows / Shape::kTileRows + pass.regions : pass.tiles;
    launch(scatter_kernel<Shape>, dim3(static_cast<unsigned>(std::min(most, tiles))), dim3(kScatterThreads),
           Shape::kSharedBytes, device.stream(), pass);
}

template <int kRowWords, int kKeyWords, TileSource kSource>
void launch_source(Device& device, const ScatterPass& pass) {
    // A pass of fewer bits has more room for rows.
    pass.bits <= 7 ? launch_shape<ScatterShape<kRowWords, kKeyWords, 7, kSource>>(device, pass)
                   : launch_shape<ScatterShape<kRowWords, kKeyWords, kPassBitsMax, kSource>>(device, pass);
}

template <int kRowWords, int kKeyWords>
void launch_key(Device& device, const ScatterPass& pass, bool from_rows) {
    bool words = true;
    for (int c = 0; c < pass.in.columns; ++c) words = words && pass.in.width[c] == 4 && pass.in.data[c] != nullptr;
    if (from_rows) {
        launch_source<kRowWords, kKeyWords, TileSource::kRows>(device, pass);
    } else if (words) {
        launch_source<kRowWords, kKeyWords, TileSource::kWords>(device, pass);
    } else {
        launch_source<kRowWords, kKeyWords, TileSource::kColumns>(device, pass);
    }
}

template <int kRowWords>
void launch_width(Device& device, const ScatterPass& pass, uint32_t key_words, bool from_rows) {
    if (key_words == 1) {
        launch_key<kRowWords, 1>(device, pass, from_rows);
    } else if constexpr (kRowWords >= 2) {
        launch_key<kRowWords, 2>(device, pass, from_rows);
    }
}

}  // namespace

uint32_t scatter_tile_rows(uint32_t row_words, bool from_rows) {
    return kScatterThreads * scatter_items(static_cast<int>(row_words), from_rows);
}

void launch_scatter(Device& device, const ScatterPass& pass, const RowLayout& layout, bool from_rows) {
    switch (layout.row_words) {
        case 1:
            return launch_width<1>(device, pass, layout.key_words, from_rows);
        case 2:
            return launch_width<2>(device, pass, layout.key_words, from_rows);
        case 3:
            return launch_width<3>(device, pass, layout.key_words, from_rows);
        case 4:
            return launch_width<4>(device, pass, layout.key_words, from_rows);
        case 5:
            return launch_width<5>(device, pass, layout.key_words, from_rows);
        case 6:
            return launch_width<6>(device, pass, layout.key_words, from_rows);
        case 7:
            return launch_width<7>(device, pass, layout.key_words, from_rows);
        case 8:
            return launch_width<8>(device, pass, layout.key_words, from_rows);
        default:
            throw Error(ErrorCode::kInternal, "no scatter kernel for rows of this width");
    }
}

}  // namespace spillway::cuda
