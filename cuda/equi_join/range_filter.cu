// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "equi_join/range_filter.hpp"
#include "materialize/gather_rows.hpp"
#include "materialize/row_list.hpp"
#include "no_partitioning_join/key_range.hpp"
#include "primitive/key_rows.cuh"
#include "primitive/warp.cuh"

namespace spillway::cuda { inline namespace equi_joins {

namespace {

template <class Key>
__device__ Key lesser_of(Key a, Key b) {
    return b < a ? b : a;
}
template <class Key>
__device__ Key greater_of(Key a, Key b) {
    return a < b ? b : a;
}

// One block. Counts the probe keys of a sample that lie outside of the range of a sample of build keys, by unsigned
// order or by signed order, whichever leaves more of them out. Reads kSampleRows keys of each side, 32 bytes each.
template <class Key>
__global__ void __launch_bounds__(kSampleRows)
    sample_range_kernel(const KeyRows<Key> build, const KeyRows<Key> probe, uint32_t* outside) {
    constexpr Key kFlips[2] = {0, static_cast<Key>(Key{1} << (8 * sizeof(Key) - 1))};
    constexpr Key kMost = static_cast<Key>(~Key{0});
    __shared__ Key low[2][kSampleRows / kWarpThreads];
    __shared__ Key high[2][kSampleRows / kWarpThreads];
    const auto row_of = [](const KeyRows<Key>& side) {
        return static_cast<uint64_t>(static_cast<double>(side.rows) / kSampleRows * threadIdx.x);
    };
    const uint64_t build_row = row_of(build);
    const uint64_t probe_row = row_of(probe);
    const bool has_build = build.has_key(build_row);
    const bool has_probe = probe.has_key(probe_row);
    const Key build_key = has_build ? build.keys[build_row] : 0;
    const Key probe_key = has_probe ? probe.keys[probe_row] : 0;
    for (int order = 0; order < 2; ++order) {
        Key least = has_build ? static_cast<Key>(build_key ^ kFlips[order]) : kMost;
        Key most = has_build ? static_cast<Key>(build_key ^ kFlips[order]) : 0;
        for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
            least = lesser_of(least, __shfl_xor_sync(kFullWarp, least, distance));
            most = greater_of(most, __shfl_xor_sync(kFullWarp, most, distance));
        }
        low[order][warp_index()] = least;
        high[order][warp_index()] = most;
    }
    __syncthreads();
    int found[2];
    for (int order = 0; order < 2; ++order) {
        Key least = kMost;
        Key most = 0;
        for (uint32_t w = 0; w < kSampleRows / kWarpThreads; ++w) {
            least = lesser_of(least, low[order][w]);
            most = greater_of(most, high[order][w]);
        }
        const Key key = static_cast<Key>(probe_key ^ kFlips[order]);
        found[order] = __syncthreads_count(has_probe && (key < least || key > most));
    }
    if (threadIdx.x == 0) *outside = static_cast<uint32_t>(max(found[0], found[1]));
}

// Bytes: each key once, its bit of validity, and a bit written.
template <class Key>
__global__ void __launch_bounds__(kRangeFilterThreads)
    rows_in_range_kernel(const __grid_constant__ KeyRows<Key> probe, Key first, Key last_distance, uint32_t* words) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * kRangeFilterThreads * kRangeFilterRows;
    const uint64_t warp = static_cast<uint64_t>(blockIdx.x) * kRangeFilterThreads / kWarpThreads + warp_index();
    for (uint64_t row = warp * kWarpThreads * kRangeFilterRows; row < probe.rows; row += step) {
        Key keys[kRangeFilterRows];
        bool there[kRangeFilterRows];
#pragma unroll
        for (int u = 0; u < kRangeFilterRows; ++u) {
            const uint64_t at = row + u * kWarpThreads + lane_index();
            there[u] = probe.has_key(at);
            keys[u] = there[u] ? __ldg(probe.keys + at) : 0;
        }
#pragma unroll
        for (int u = 0; u < kRangeFilterRows; ++u) {
            const bool is_in = there[u] && static_cast<Key>(keys[u] - first) <= last_distance;
            const uint32_t bits = __ballot_sync(kFullWarp, is_in);
            const uint64_t at = row + u * kWarpThreads;
            if (lane_index() == 0 && at < probe.rows) words[at / kWarpThreads] = bits;
        }
    }
}

template <class Key>
KeyRows<Key> keys_of(const DeviceRelation& relation) {
    return {static_cast<const Key*>(relation.key.data), relation.key_valid, relation.rows};
}

// Returns how many of kSampleRows probe rows.
template <class Key>
uint32_t sampled_outside(Device& device, const DeviceRelation& build, const DeviceRelation& probe) {
    const Allocation memory = device.memory().allocate(sizeof(uint32_t), "sample of keys");
    launch(sample_range_kernel<Key>, dim3(1), dim3(kSampleRows), 0, device.stream(), keys_of<Key>(build),
           keys_of<Key>(probe), memory.as<uint32_t>());
    uint32_t outside = 0;
    SPILLWAY_CUDA_CHECK(
        cudaMemcpyAsync(&outside, memory.as(), sizeof outside, cudaMemcpyDeviceToHost, device.stream()));
    device.synchronize();
    return outside;
}

template <class Key>
RowsInRange filter(Device& device, const DeviceRelation& build, const DeviceRelation& probe) {
    const double outside_share = static_cast<double>(sampled_outside<Key>(device, build, probe)) / kSampleRows;
    if (outside_share < kRangeFilterShareMin) return {};
    const KeyRange range = find_key_range(device, build);
    // There is nothing to join without a key, and nothing to leave out where the range has room for all.
    if (range.keys == 0 || range.keys == ~uint64_t{0}) return {};
    device.check_cancelled();
    Allocation words = device.memory().allocate((probe.rows + 31) / 32 * sizeof(uint32_t), "rows within the range");
    count_moved(device, probe.rows * sizeof(Key) + probe.rows / (probe.key_valid == nullptr ? 8 : 4));
    launch(rows_in_range_kernel<Key>,
           grid_over(device, probe.rows, kRangeFilterThreads * kRangeFilterRows, kRangeFilterBlocks),
           dim3(kRangeFilterThreads), 0, device.stream(), keys_of<Key>(probe), static_cast<Key>(range.first),
           static_cast<Key>(range.keys - 1), words.as<uint32_t>());
    return {std::move(words), 1 - outside_share};
}

}  // namespace

RowsInRange rows_in_range(Device& device, const DeviceRelation& build, const DeviceRelation& probe, uint64_t rows_min) {
    if (probe.rows < rows_min || build.rows == 0 || build.rows > probe.rows * kRangeFilterBuildMax) return {};
    const PhaseScope transform(device, Phase::kTransform);
    return build.key.width == 4 ? filter<uint32_t>(device, build, probe) : filter<uint64_t>(device, build, probe);
}

KeptRows keep_rows(Device& device, const DeviceRelation& probe, const RowsInRange& in_range,
                   uint64_t gathered_rows_min) {
    KeptRows kept;
    kept.relation = probe;
    kept.relation.key_valid = in_range.bits.as<const uint32_t>();
    if (in_range.kept_share > kGatheredShareMax || probe.rows < gathered_rows_min) return kept;
    const PhaseScope transform(device, Phase::kTransform);
    const RowList list = list_rows(device, {kept.relation.key_valid, probe.rows}, row_number_width(probe.rows));
    const auto gather = [&](const DeviceColumn& column) {
        kept.memory.push_back(device.memory().allocate(list.count * column.width, "rows within the range"));
        gather_rows(device, column, list.numbers(), kept.memory.back().as());
        return DeviceColumn{kept.memory.back().as(), column.width};
    };
    kept.relation.rows = list.count;
    kept.relation.key_valid = nullptr;
    kept.relation.key = gather(probe.key);
    for (DeviceColumn& column : kept.relation.columns) column = gather(column);
    return kept;
}

}}  // namespace spillway::cuda::equi_joins
