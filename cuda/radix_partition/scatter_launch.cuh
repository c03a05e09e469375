// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "device/launch.hpp"
#include "radix_partition/scatter.cuh"
#include "radix_partition/scatter_pass.hpp"
#include "radix_partition/tile_size.hpp"

// What both files of launches share. They are two so that two cores compile them side by side.
namespace spillway::cuda { inline namespace radix_partitioning {

template <class Shape>
void launch_shape(Device& device, const ScatterPass& pass) {
    static_assert(sizeof(typename Scatter<Shape>::Shared) + 1024 + 128 <= scatter_reserved_bytes(Shape::kBitsMax));
    // No more blocks than there are tiles: the first pass knows their number, later ones have at most one for every
    // region and one for every full tile.
    const TileSize size = tile_size(device.properties(), Shape::kRowWords, Shape::kBitsMax);
    const auto all = static_cast<uint64_t>(device.properties().multiprocessors);
    const uint64_t most = pass.blocks == 0 ? size.blocks * all : pass.blocks;
    const uint64_t tiles = Shape::kFromRows ? pass.rows / pass.tile_rows + pass.regions : pass.tiles;
    launch(scatter_kernel<Shape>, dim3(static_cast<unsigned>(std::min(most, tiles))), dim3(kScatterThreads),
           size.shared_bytes, pass.stream == nullptr ? device.stream() : pass.stream, pass);
}

template <template <int, int> class Launcher, int kRowWords>
void launch_row_words(Device& device, const ScatterPass& pass, uint32_t key_words) {
    if (key_words == 1) {
        Launcher<kRowWords, 1>::launch(device, pass);
    } else if constexpr (kRowWords >= 2) {
        Launcher<kRowWords, 2>::launch(device, pass);
    }
}

// Launcher<row words, key words>::launch(device, pass) of the layout.
template <template <int, int> class Launcher>
void launch_layout(Device& device, const ScatterPass& pass, const RowLayout& layout) {
    switch (layout.row_words) {
        case 1:
            return launch_row_words<Launcher, 1>(device, pass, layout.key_words);
        case 2:
            return launch_row_words<Launcher, 2>(device, pass, layout.key_words);
        case 3:
            return launch_row_words<Launcher, 3>(device, pass, layout.key_words);
        case 4:
            return launch_row_words<Launcher, 4>(device, pass, layout.key_words);
        case 5:
            return launch_row_words<Launcher, 5>(device, pass, layout.key_words);
        case 6:
            return launch_row_words<Launcher, 6>(device, pass, layout.key_words);
        case 7:
            return launch_row_words<Launcher, 7>(device, pass, layout.key_words);
        case 8:
            return launch_row_words<Launcher, 8>(device, pass, layout.key_words);
        default:
            throw Error(ErrorCode::kInternal, "no scatter kernel for rows of this width");
    }
}

}}  // namespace spillway::cuda::radix_partitioning
