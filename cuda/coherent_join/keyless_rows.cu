// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "coherent_join/coherent_policy.hpp"
#include "coherent_join/keyless_rows.hpp"
#include "device/launch.hpp"
#include "primitive/warp.cuh"

namespace spillway::cuda { inline namespace coherent_join {

namespace {

// The rows of one bitmap word, by a whole warp: a lane has the row of its bit.
template <class Column>
__device__ inline void write_keyless_word(uint32_t missing, uint64_t first_row, const Column* payload,
                                          const FarPages& pages, uint32_t page_shift, unsigned long long* count) {
    unsigned long long first = 0;
    if (lane_index() == 0) first = atomicAdd(count, static_cast<unsigned long long>(__popc(missing)));
    first = __shfl_sync(kFullWarp, first, 0);
    const uint64_t at = first + static_cast<uint64_t>(__popc(missing & lanes_below()));
    const uint64_t page = at >> page_shift;
    if ((missing >> lane_index() & 1) == 0 || page >= pages.pages) return;
    Column* const row = reinterpret_cast<Column*>(pages.addresses[page]) + 2 * (at & ((1ULL << page_shift) - 1));
    row[0] = 0;
    row[1] = payload[first_row + lane_index()];
}

// A warp asks for 32 words of the bitmap at once.
template <class Column>
__global__ void __launch_bounds__(kKeylessThreads)
    keyless_rows_kernel(const uint32_t* key_valid, const Column* payload, uint64_t rows, FarPages pages,
                        uint32_t page_shift, unsigned long long* count) {
    constexpr uint64_t kWarpRows = uint64_t{kWarpThreads} * kWarpThreads;
    constexpr uint64_t kWarps = kKeylessThreads / kWarpThreads;
    const uint64_t step = gridDim.x * kWarps * kWarpRows;
    for (uint64_t base = (blockIdx.x * kWarps + warp_index()) * kWarpRows; base < rows; base += step) {
        const uint64_t own = base + uint64_t{lane_index()} * kWarpThreads;  // first row of the lane's word
        uint32_t missing = own < rows ? ~key_valid[own / kWarpThreads] : 0;
        // Bits behind the last row mean nothing.
        if (own < rows && rows - own < kWarpThreads) missing &= (1U << (rows - own)) - 1;
        for (uint32_t words = __ballot_sync(kFullWarp, missing != 0); words != 0; words &= words - 1) {
            const int lane = __ffs(static_cast<int>(words)) - 1;
            write_keyless_word(__shfl_sync(kFullWarp, missing, lane), base + static_cast<uint64_t>(lane) * kWarpThreads,
                               payload, pages, page_shift, count);
        }
    }
}

template <class Column>
void launch_keyless(Device& device, const FarRelation& chunk, const FarPages& pages, unsigned long long* count) {
    constexpr uint64_t kBlockRows = uint64_t{kKeylessThreads} * kWarpThreads;
    const uint64_t most = static_cast<uint64_t>(device.properties().multiprocessors) * kKeylessBlocks;
    const uint64_t blocks = std::min(most, (chunk.rows + kBlockRows - 1) / kBlockRows);
    uint32_t page_shift = 0;
    while (1ULL << page_shift < pages.page_rows) ++page_shift;
    launch(keyless_rows_kernel<Column>, dim3(static_cast<unsigned>(blocks)), dim3(kKeylessThreads), 0, device.stream(),
           chunk.key_valid, static_cast<const Column*>(chunk.payload), chunk.rows, pages, page_shift, count);
}

}  // namespace

uint64_t write_keyless_rows(Device& device, const FarRelation& chunk, const FarPages& pages) {
    if (chunk.key_valid == nullptr || chunk.rows == 0) return 0;
    const Allocation count = device.memory().allocate(sizeof(uint64_t), "rows without a key");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(count.as(), 0, sizeof(uint64_t), device.stream()));
    const auto launch_by = chunk.column_bytes == 4 ? launch_keyless<uint32_t> : launch_keyless<uint64_t>;
    launch_by(device, chunk, pages, count.as<unsigned long long>());
    uint64_t rows = 0;
    SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(&rows, count.as(), sizeof(uint64_t), cudaMemcpyDeviceToHost, device.stream()));
    device.synchronize();
    return rows;
}

}}  // namespace spillway::cuda::coherent_join
