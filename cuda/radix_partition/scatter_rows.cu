// SPDX-License-Identifier: Apache-2.0
#include "radix_partition/scatter_launch.cuh"

namespace spillway::cuda { inline namespace radix_partitioning {

namespace {

template <int kRowWords, int kKeyWords>
struct FromRows {
    static void launch(Device& device, const ScatterPass& pass) {
        if (pass.bits <= kFewBits) {
            launch_shape<ScatterShape<kRowWords, kKeyWords, kFewBits, TileSource::kRows>>(device, pass);
        } else {
            launch_shape<ScatterShape<kRowWords, kKeyWords, kPassBitsMax, TileSource::kRows>>(device, pass);
        }
    }
};

}  // namespace

void launch_scatter_rows(Device& device, const ScatterPass& pass, const RowLayout& layout) {
    launch_layout<FromRows>(device, pass, layout);
}

}}  // namespace spillway::cuda::radix_partitioning
