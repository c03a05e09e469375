// SPDX-License-Identifier: Apache-2.0
#include "radix_partition/scatter_launch.cuh"

namespace spillway::cuda { inline namespace radix_partitioning {

namespace {

template <int kRowWords, int kKeyWords>
struct FromColumns {
    static void launch(Device& device, const ScatterPass& pass) {
        bool words = true;
        for (int c = 0; c < pass.in.columns; ++c) words = words && pass.in.width[c] >= 4;
        if (!words) {
            launch_shape<ScatterShape<kRowWords, kKeyWords, kPassBitsMax, TileSource::kColumns>>(device, pass);
        } else if (pass.bits <= kFewBits) {
            launch_shape<ScatterShape<kRowWords, kKeyWords, kFewBits, TileSource::kWords>>(device, pass);
        } else {
            launch_shape<ScatterShape<kRowWords, kKeyWords, kPassBitsMax, TileSource::kWords>>(device, pass);
        }
    }
};

}  // namespace

void launch_scatter_columns(Device& device, const ScatterPass& pass, const RowLayout& layout) {
    launch_layout<FromColumns>(device, pass, layout);
}

}}  // namespace spillway::cuda::radix_partitioning
