// SPDX-License-Identifier: Apache-2.0
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

// Counts kSampleRows probe rows, but those without a key.
struct RangeSample {
    uint32_t outside = 0;
    uint32_t inside = 0;
};

// One block. Counts the probe keys of a sample that lie outside of the range of a sample of build keys, by unsigned
// order or by signed order, whichever leaves more of them out. Reads kSampleRows keys of each side, 32 bytes each.
template <class Key>
__global__ void __launch_bounds__(kSampleRows)
    sample_range_kernel(const KeyRows<Key> build, const KeyRows<Key> probe, RangeSample* sample) {
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
    const int keys = __syncthreads_count(has_probe);
    const int outside = max(found[0], found[1]);
    if (threadIdx.x == 0) *sample = {static_cast<uint32_t>(outside), static_cast<uint32_t>(keys - outside)};
}

// Keys from `first` on, modulo their width.
template <class Key>
struct InRange {
    Key first;
    Key last_distance;

    __device__ bool operator()(Key key) const { return static_cast<Key>(key - first) <= last_distance; }
};

// Keys of a range that have a bit in `marks`.
template <class Key>
struct IsMarked {
    Key first;
    const uint32_t* marks;

    __device__ bool operator()(Key key) const {
        const auto place = static_cast<uint64_t>(static_cast<Key>(key - first));
        return (__ldg(&marks[place / 32]) >> (place % 32) & 1) != 0;
    }
};

// A bit per row with a key of which `holds` is true. Bytes: each key once, its bit of validity, and a bit written.
template <class Key, class Holds>
__global__ void __launch_bounds__(kRangeFilterThreads)
    rows_that_kernel(const __grid_constant__ KeyRows<Key> side, const Holds holds, uint32_t* words) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * kRangeFilterThreads * kRangeFilterRows;
    const uint64_t warp = static_cast<uint64_t>(blockIdx.x) * kRangeFilterThreads / kWarpThreads + warp_index();
    for (uint64_t row = warp * kWarpThreads * kRangeFilterRows; row < side.rows; row += step) {
        Key keys[kRangeFilterRows];
        bool there[kRangeFilterRows];
#pragma unroll
        for (int u = 0; u < kRangeFilterRows; ++u) {
            const uint64_t at = row + u * kWarpThreads + lane_index();
            there[u] = side.has_key(at);
            keys[u] = there[u] ? __ldg(side.keys + at) : 0;
        }
#pragma unroll
        for (int u = 0; u < kRangeFilterRows; ++u) there[u] = there[u] && holds(keys[u]);
#pragma unroll
        for (int u = 0; u < kRangeFilterRows; ++u) {
            const uint32_t bits = __ballot_sync(kFullWarp, there[u]);
            const uint64_t at = row + u * kWarpThreads;
            if (lane_index() == 0 && at < side.rows) words[at / kWarpThreads] = bits;
        }
    }
}

// Bytes: the keys; bound by the rate of atomic operations in the L2 cache.
template <class Key>
__global__ void __launch_bounds__(kRangeFilterThreads)
    mark_keys_kernel(const __grid_constant__ KeyRows<Key> side, Key first, Key last_distance, uint32_t* marks) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * kRangeFilterThreads;
    for (uint64_t row = static_cast<uint64_t>(blockIdx.x) * kRangeFilterThreads + threadIdx.x; row < side.rows;
         row += step) {
        if (!side.has_key(row)) continue;
        const auto place = static_cast<Key>(side.keys[row] - first);
        if (place > last_distance) continue;
        // A frequent key has its bit nearly always: atomic operations on one word are taken one after the other.
        if ((__ldcg(&marks[place / 32]) >> (place % 32) & 1) != 0) continue;
        atomicOr(&marks[place / 32], 1U << (place % 32));
    }
}

template <class Key>
KeyRows<Key> keys_of(const DeviceRelation& relation) {
    return {static_cast<const Key*>(relation.key.data), relation.key_valid, relation.rows};
}

template <class Key>
RangeSample sample_range(Device& device, const DeviceRelation& build, const DeviceRelation& probe) {
    const Allocation memory = device.memory().allocate(sizeof(RangeSample), "sample of keys");
    launch(sample_range_kernel<Key>, dim3(1), dim3(kSampleRows), 0, device.stream(), keys_of<Key>(build),
           keys_of<Key>(probe), memory.as<RangeSample>());
    RangeSample sample;
    SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(&sample, memory.as(), sizeof sample, cudaMemcpyDeviceToHost, device.stream()));
    device.synchronize();
    return sample;
}

template <class Key, class Holds>
Allocation rows_that(Device& device, const DeviceRelation& side, const Holds& holds, const char* name) {
    Allocation words = device.memory().allocate((side.rows + 31) / 32 * sizeof(uint32_t), name);
    count_moved(device, side.rows * sizeof(Key) + side.rows / (side.key_valid == nullptr ? 8 : 4));
    launch(rows_that_kernel<Key, Holds>,
           grid_over(device, side.rows, kRangeFilterThreads * kRangeFilterRows, kRangeFilterBlocks),
           dim3(kRangeFilterThreads), 0, device.stream(), keys_of<Key>(side), holds, words.as<uint32_t>());
    return words;
}

template <class Key>
RowsInRange filter(Device& device, const DeviceRelation& build, const DeviceRelation& probe) {
    const RangeSample sample = sample_range<Key>(device, build, probe);
    if (sample.outside < kRangeFilterShareMin * kSampleRows) return {};
    const KeyRange range = find_key_range(device, build);
    // There is nothing to join without a key, and nothing to leave out where the range has room for all.
    if (range.keys == 0 || range.keys == ~uint64_t{0}) return {};
    device.check_cancelled();
    const InRange<Key> is_in{static_cast<Key>(range.first), static_cast<Key>(range.keys - 1)};
    return {rows_that<Key>(device, probe, is_in, "rows within the range"),
            static_cast<double>(sample.inside) / kSampleRows, range};
}

template <class Key>
Allocation partners(Device& device, const DeviceRelation& build, const DeviceRelation& probe, const KeyRange& range) {
    const uint64_t bytes = (range.keys + 31) / 32 * sizeof(uint32_t);
    const Allocation marks = device.memory().allocate(bytes, "marks of keys");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(marks.as(), 0, bytes, device.stream()));
    count_moved(device, probe.rows * sizeof(Key) + 2 * bytes);
    const auto first = static_cast<Key>(range.first);
    launch(mark_keys_kernel<Key>, grid_over(device, probe.rows, kRangeFilterThreads, kRangeFilterBlocks),
           dim3(kRangeFilterThreads), 0, device.stream(), keys_of<Key>(probe), first, static_cast<Key>(range.keys - 1),
           marks.as<uint32_t>());
    device.check_cancelled();
    return rows_that<Key>(device, build, IsMarked<Key>{first, marks.as<const uint32_t>()}, "rows with a partner");
}

uint64_t row_bytes(const DeviceRelation& relation) {
    uint64_t bytes = relation.key.width;
    for (const DeviceColumn& column : relation.columns) bytes += column.width;
    return bytes;
}

}  // namespace

RowsInRange rows_in_range(Device& device, const DeviceRelation& build, const DeviceRelation& probe, uint64_t rows_min) {
    if (probe.rows < rows_min || build.rows == 0 || build.rows > probe.rows * kRangeFilterBuildMax) return {};
    const PhaseScope transform(device, Phase::kTransform);
    return build.key.width == 4 ? filter<uint32_t>(device, build, probe) : filter<uint64_t>(device, build, probe);
}

KeptRows keep_rows(Device& device, const DeviceRelation& relation, const Allocation& bits, double kept_share,
                   double share_max, uint64_t gathered_rows_min) {
    KeptRows kept;
    kept.relation = relation;
    kept.relation.key_valid = bits.as<const uint32_t>();
    if (kept_share > share_max || relation.rows < gathered_rows_min) return kept;
    const PhaseScope transform(device, Phase::kTransform);
    const RowList list = list_rows(device, {kept.relation.key_valid, relation.rows}, row_number_width(relation.rows));
    // A column of no rows has no data, which would mean row numbers; and who expected few may have been wrong.
    const auto most = static_cast<uint64_t>(kGatheredShareSlack * share_max * static_cast<double>(relation.rows));
    if (list.count == 0 || list.count > most) return kept;
    const auto gather = [&](const DeviceColumn& column) {
        kept.memory.push_back(device.memory().allocate(list.count * column.width, "rows that are kept"));
        gather_rows(device, column, list.numbers(), kept.memory.back().as());
        return DeviceColumn{kept.memory.back().as(), column.width};
    };
    kept.relation.rows = list.count;
    kept.relation.key_valid = nullptr;
    kept.relation.key = gather(relation.key);
    for (DeviceColumn& column : kept.relation.columns) column = gather(column);
    return kept;
}

Allocation rows_with_partner(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                             const KeyRange& range) {
    const PhaseScope transform(device, Phase::kTransform);
    return build.key.width == 4 ? partners<uint32_t>(device, build, probe, range)
                                : partners<uint64_t>(device, build, probe, range);
}

FilteredSides filter_sides(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                           const JoinKind& kind, uint64_t rows_min, uint64_t gathered_rows_min) {
    FilteredSides sides;
    sides.build.relation = build;
    sides.probe.relation = probe;
    if (kind.keeps_unmatched_probe()) return sides;
    sides.in_range = rows_in_range(device, build, probe, rows_min);
    if (!sides.in_range) return sides;
    const KeyRange& range = sides.in_range.range;
    const double kept_share = sides.in_range.kept_share;
    const double keys_share = kept_share * static_cast<double>(probe.rows) / static_cast<double>(range.keys);
    const double build_share_max = gathered_share_max(row_bytes(build), true);
    const bool both = !kind.keeps_unmatched_build() && build.rows >= gathered_rows_min &&
                      range.keys <= kPartnerKeysMax && keys_share <= build_share_max;
    sides.probe = keep_rows(device, probe, sides.in_range.bits, kept_share, gathered_share_max(row_bytes(probe), both),
                            gathered_rows_min);
    const bool gathered = !sides.probe.memory.empty();
    if (!both || !gathered || sides.probe.relation.rows == 0) return sides;
    sides.with_partner = rows_with_partner(device, build, sides.probe.relation, range);
    sides.build = keep_rows(device, build, sides.with_partner, keys_share, build_share_max, gathered_rows_min);
    return sides;
}

}}  // namespace spillway::cuda::equi_joins
