// SPDX-License-Identifier: Apache-2.0
#include "device/copy_to_device.hpp"
#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "hash_join/pieces_policy.hpp"
#include "hash_join/range_counts.hpp"
#include "primitive/mix.cuh"
#include "primitive/warp.cuh"
#include "radix_partition/radix_policy.hpp"

namespace spillway::cuda { inline namespace hash_join {

namespace {

// A slot: the number of the first build row with its key, and above it how many there are. 0: empty.
constexpr int kNumberBits = 14;
constexpr uint32_t kNumberMask = (1U << kNumberBits) - 1;
constexpr uint32_t kOneRow = 1U << kNumberBits;
static_assert(kCountBuildRowsMax <= kNumberMask, "rows have numbers of 14 bits");

__host__ __device__ inline uint32_t slots_for(uint32_t count) {
    return count + count / 3 + 8;  // one is always empty, where searches end
}

struct CountPass {
    const MatchRange* ranges = nullptr;
    uint64_t count = 0;
    JoinSide build;
    JoinSide probe;
    uint32_t radix_bits = 0;
    uint32_t capacity = 0;  // build rows of a range at most
    unsigned long long* matches = nullptr;
};

template <int kKeyWords>
__device__ inline typename MixedKey<kKeyWords>::Key key_of_row(const JoinSide& side, uint64_t row) {
    const uint32_t* const words = side.rows + row * side.row_words;
    if constexpr (kKeyWords == 1) {
        return words[0];
    } else {
        return words[0] | static_cast<uint64_t>(words[1]) << 32;
    }
}

// Linear probing over distinct keys. Rows of one key share a slot, which counts them: the time is that of the rows and
// not of the matches, of which one key in many rows on both sides has the product.
template <int kKeyWords>
struct CountTable {
    using Key = typename MixedKey<kKeyWords>::Key;

    Key* keys;
    uint32_t* slots;
    uint32_t slot_count;
    uint32_t radix_bits;

    // From the bits behind those that all keys of the partition share.
    __device__ uint32_t first_slot(Key key) const {
        return __umulhi(static_cast<uint32_t>((key << radix_bits) >> (32 * (kKeyWords - 1))), slot_count);
    }
    __device__ uint32_t next_slot(uint32_t slot) const { return slot + 1 == slot_count ? 0 : slot + 1; }

    __device__ void insert(uint32_t number) const {
        const Key key = keys[number];
        for (uint32_t slot = first_slot(key);; slot = next_slot(slot)) {
            const uint32_t held = atomicCAS(slots + slot, 0U, kOneRow | number);
            if (held == 0) return;
            if (keys[held & kNumberMask] == key) {
                atomicAdd(slots + slot, kOneRow);
                return;
            }
        }
    }
    // The slot's word; 0: no build row has the key.
    __device__ uint32_t find(Key key) const {
        for (uint32_t slot = first_slot(key);; slot = next_slot(slot)) {
            const uint32_t held = slots[slot];
            if (held == 0 || keys[held & kNumberMask] == key) return held;
        }
    }
};

// A block takes a range: the keys of its build rows go to a table in shared memory, where those of the probe rows are
// looked up. Bytes: the sectors with keys of both sides, which are those of whole rows, and a byte per mark.
template <int kKeyWords>
__global__ void __launch_bounds__(kCountThreads) count_ranges_kernel(const __grid_constant__ CountPass pass) {
    using Table = CountTable<kKeyWords>;
    using Key = typename Table::Key;
    extern __shared__ __align__(16) unsigned char count_memory[];
    Table table;
    table.keys = reinterpret_cast<Key*>(count_memory);
    table.slots = reinterpret_cast<uint32_t*>(table.keys + pass.capacity);
    table.radix_bits = pass.radix_bits;
    for (uint64_t number = blockIdx.x; number < pass.count; number += gridDim.x) {
        const MatchRange range = pass.ranges[number];
        const auto build_count = static_cast<uint32_t>(range.build_rows);
        table.slot_count = slots_for(build_count);
        for (uint32_t slot = threadIdx.x; slot < table.slot_count; slot += kCountThreads) table.slots[slot] = 0;
        for (uint32_t i = threadIdx.x; i < build_count; i += kCountThreads) {
            table.keys[i] = key_of_row<kKeyWords>(pass.build, range.build_first + i);
        }
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < build_count; i += kCountThreads) table.insert(i);
        __syncthreads();
        uint64_t matches = 0;
        for (uint64_t i = threadIdx.x; i < range.probe_rows; i += kCountThreads) {
            const uint32_t held = table.find(key_of_row<kKeyWords>(pass.probe, range.probe_first + i));
            if (held == 0) continue;
            matches += held >> kNumberBits;
            if (pass.probe.marks != nullptr) pass.probe.marks[range.probe_first + i] = 1;
            // The first row with the key stands for all of them; the others follow.
            if (pass.build.marks != nullptr) pass.build.marks[range.build_first + (held & kNumberMask)] = 1;
        }
        matches = warp_inclusive_sum(matches);
        if (lane_index() == kWarpThreads - 1 && matches > 0) {
            atomicAdd(pass.matches + number, static_cast<unsigned long long>(matches));
        }
        __syncthreads();
        if (pass.build.marks != nullptr) {
            // Another block may mark rows of the same keys meanwhile, whose first rows may be others: whatever is read
            // here is the mark of a row with this key.
            uint8_t* const marks = pass.build.marks + range.build_first;
            for (uint32_t i = threadIdx.x; i < build_count; i += kCountThreads) {
                if (marks[table.find(table.keys[i]) & kNumberMask] != 0) marks[i] = 1;
            }
            __syncthreads();  // before the table is cleared
        }
    }
}

// A warp takes a range. Bytes: one per row.
__global__ void count_marked_kernel(const RowRange* ranges, uint64_t count, const uint8_t* marks, bool marked,
                                    uint64_t* found) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * (blockDim.x / kWarpThreads);
    const uint64_t first = static_cast<uint64_t>(blockIdx.x) * (blockDim.x / kWarpThreads) + warp_index();
    for (uint64_t number = first; number < count; number += step) {
        const RowRange range = ranges[number];
        uint64_t rows = 0;
        for (uint64_t row = range.first + lane_index(); row < range.end; row += kWarpThreads) {
            if ((marks[row] != 0) == marked) ++rows;
        }
        rows = warp_inclusive_sum(rows);
        if (lane_index() == kWarpThreads - 1) found[number] = rows;
    }
}

// The same with a bit per row.
__global__ void count_keyless_kernel(const RowRange* ranges, uint64_t count, const uint32_t* key_valid,
                                     uint64_t* found) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * (blockDim.x / kWarpThreads);
    const uint64_t first = static_cast<uint64_t>(blockIdx.x) * (blockDim.x / kWarpThreads) + warp_index();
    for (uint64_t number = first; number < count; number += step) {
        const RowRange range = ranges[number];
        uint64_t rows = 0;
        for (uint64_t row = range.first + lane_index() * 32; row < range.end; row += kWarpThreads * 32) {
            uint32_t missing = ~key_valid[row / 32];
            if (range.end - row < 32) missing &= (1U << (range.end - row)) - 1;
            rows += __popc(missing);
        }
        rows = warp_inclusive_sum(rows);
        if (lane_index() == kWarpThreads - 1) found[number] = rows;
    }
}

constexpr int kScanThreads = 256;

dim3 warps_grid(Device& device, uint64_t ranges) {
    return grid_over(device, ranges, kScanThreads / kWarpThreads, 8);
}

std::vector<uint64_t> download_counts(Device& device, const Allocation& counts, uint64_t count) {
    std::vector<uint64_t> copy(count);
    if (count > 0) {
        SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(copy.data(), counts.as(), count * sizeof(uint64_t), cudaMemcpyDeviceToHost,
                                            device.stream()));
    }
    device.synchronize();
    return copy;
}

uint64_t table_bytes(uint64_t rows, uint32_t key_words) {
    return rows * key_words * 4 + slots_for(static_cast<uint32_t>(rows)) * sizeof(uint32_t);
}

}  // namespace

uint64_t counted_build_rows(Device& device, uint32_t key_words) {
    uint64_t rows = kCountBuildRowsMax / kRegionAlignRows * kRegionAlignRows;
    while (table_bytes(rows, key_words) > device.properties().shared_bytes_per_block_optin) rows -= kRegionAlignRows;
    return rows;
}

std::vector<uint64_t> count_range_matches(Device& device, const JoinSide& build, const JoinSide& probe,
                                          uint32_t key_words, int radix_bits, const std::vector<MatchRange>& ranges) {
    const Allocation given = copy_to_device(device, ranges, "ranges of a join");
    const Allocation counts = device.memory().allocate(ranges.size() * sizeof(uint64_t), "matches of ranges");
    if (counts) SPILLWAY_CUDA_CHECK(cudaMemsetAsync(counts.as(), 0, counts.bytes(), device.stream()));
    CountPass pass;
    pass.ranges = given.as<const MatchRange>();
    pass.count = ranges.size();
    pass.build = build;
    pass.probe = probe;
    pass.radix_bits = static_cast<uint32_t>(radix_bits);
    pass.capacity = static_cast<uint32_t>(counted_build_rows(device, key_words));
    pass.matches = counts.as<unsigned long long>();
    for (const MatchRange& range : ranges) {
        count_moved(device, range.build_rows * (build.row_words * 4ULL + (build.marks == nullptr ? 0 : 1)) +
                                range.probe_rows * (probe.row_words * 4ULL + (probe.marks == nullptr ? 0 : 1)));
    }
    const dim3 grid = grid_over(device, ranges.size(), 1, 2);
    launch(key_words == 1 ? count_ranges_kernel<1> : count_ranges_kernel<2>, grid, dim3(kCountThreads),
           table_bytes(pass.capacity, key_words), device.stream(), pass);
    return download_counts(device, counts, ranges.size());
}

std::vector<uint64_t> count_marked_rows(Device& device, const uint8_t* marks, bool marked,
                                        const std::vector<RowRange>& ranges) {
    const Allocation given = copy_to_device(device, ranges, "ranges of rows");
    const Allocation counts = device.memory().allocate(ranges.size() * sizeof(uint64_t), "rows of ranges");
    for (const RowRange& range : ranges) count_moved(device, range.end - range.first);
    launch(count_marked_kernel, warps_grid(device, ranges.size()), dim3(kScanThreads), 0, device.stream(),
           given.as<const RowRange>(), static_cast<uint64_t>(ranges.size()), marks, marked, counts.as<uint64_t>());
    return download_counts(device, counts, ranges.size());
}

std::vector<uint64_t> count_keyless_rows(Device& device, const uint32_t* key_valid,
                                         const std::vector<RowRange>& ranges) {
    const Allocation given = copy_to_device(device, ranges, "ranges of rows");
    const Allocation counts = device.memory().allocate(ranges.size() * sizeof(uint64_t), "rows of ranges");
    for (const RowRange& range : ranges) count_moved(device, (range.end - range.first) / 8);
    launch(count_keyless_kernel, warps_grid(device, ranges.size()), dim3(kScanThreads), 0, device.stream(),
           given.as<const RowRange>(), static_cast<uint64_t>(ranges.size()), key_valid, counts.as<uint64_t>());
    return download_counts(device, counts, ranges.size());
}

}}  // namespace spillway::cuda::hash_join
