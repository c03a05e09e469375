// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "baseline_join/slot_rows.cuh"
#include "baseline_join/table_kernels.hpp"
#include "device/launch.hpp"
#include "row_index/total.cuh"
#include "stream/write_result.cuh"

namespace spillway::cuda { inline namespace baseline_join {

namespace {

// body(row, group, is there) for the lanes of all groups of 32 rows that this warp takes; whole warps stay together.
template <class Body>
__device__ inline void for_row_groups(uint64_t row_count, const Body& body) {
    const uint64_t warps = static_cast<uint64_t>(gridDim.x) * (blockDim.x / kWarpThreads);
    const uint64_t first = static_cast<uint64_t>(blockIdx.x) * (blockDim.x / kWarpThreads) + warp_index();
    const uint64_t groups = (row_count + kGroupRows - 1) / kGroupRows;
    for (uint64_t group = first; group < groups; group += warps) {
        const uint64_t row = group * kGroupRows + lane_index();
        body(row, group, row < row_count);
    }
}

// The place of a build row in the table; slot_count and a refusal: it has none.
template <int kKeyWords>
__device__ inline uint64_t claim(const SlotTableView& table, uint64_t key, uint64_t& refused) {
    if (table.perfect == 0) {
        const uint64_t slot = claim_linear<kKeyWords>(table, key);
        if (slot == table.slot_count) refused |= kWalkTooLong;
        return slot;
    }
    const uint64_t slot = perfect_slot<kKeyWords>(table, key);
    if (slot >= table.slot_count) {
        refused |= kOutOfRange;
        return table.slot_count;
    }
    if (claim_slot(table, slot)) return slot;
    refused |= kKeyTwice;
    return table.slot_count;
}

template <int kKeyWords>
__global__ void insert_kernel(TablePass pass, unsigned long long* refusals) {
    const SlotTableView& table = pass.table;
    uint64_t refused = 0;
    for_row_groups(pass.row_count, [&](uint64_t row, uint64_t, bool present) {
        if (!present) return;
        const uint32_t* const from = pass.rows + row * pass.row_words;
        const uint64_t slot = claim<kKeyWords>(table, row_key<kKeyWords>(from), refused);
        if (slot == table.slot_count) return;
        uint32_t* const to = table.slots + slot * table.slot_words;
        if (table.perfect == 0) {
            copy_words(from, to, table.slot_words);
            return;
        }
        // Behind a key of one or two words columns are not aligned as they are in slots.
        __align__(16) uint32_t columns[kRowWordsMax];
#pragma unroll
        for (uint32_t w = 0; w < kRowWordsMax; ++w) {
            if (w < table.slot_words) columns[w] = from[kKeyWords + w];
        }
        copy_words(columns, to, table.slot_words);
    });
    if (refused != 0) atomicOr(refusals, static_cast<unsigned long long>(refused));
}

template <int kKeyWords>
__global__ void sum_rows_kernel(TablePass pass, ResultWindow columns, uint64_t* totals) {
    uint64_t sums[kSumColumnsMax] = {};
    uint64_t rows = 0;
    for_row_groups(pass.row_count, [&](uint64_t row, uint64_t, bool present) {
        if (!present) return;
        const uint32_t* const probe = pass.rows + row * pass.row_words;
        rows += for_partners<kKeyWords>(pass.table, probe, [&](const uint32_t* build) {
#pragma unroll
            for (uint32_t c = 0; c < kSumColumnsMax; ++c) {
                if (c >= static_cast<uint32_t>(columns.columns)) break;
                sums[c] += addend<kKeyWords>(columns.column[c], build, probe, true);
            }
        });
    });
    add_total(rows, totals);
#pragma unroll
    for (uint32_t c = 0; c < kSumColumnsMax; ++c) {
        if (c < static_cast<uint32_t>(columns.columns)) add_total(sums[c], totals + 1 + c);
    }
}

template <int kKeyWords>
__global__ void count_rows_kernel(TablePass pass, uint64_t* group_rows) {
    for_row_groups(pass.row_count, [&](uint64_t row, uint64_t group, bool present) {
        uint64_t rows = 0;
        if (present) {
            rows = for_partners<kKeyWords>(pass.table, pass.rows + row * pass.row_words, [](const uint32_t*) {});
        }
        // Lanes come back from walks of different lengths.
        __syncwarp();
#pragma unroll
        for (uint32_t distance = 16; distance > 0; distance /= 2) {
            rows += __shfl_xor_sync(kFullWarp, rows, distance);
        }
        if (lane_index() == 0) group_rows[group] = rows;
    });
}

template <int kKeyWords>
__global__ void write_rows_kernel(TablePass pass, const uint64_t* first_of_group, ResultWindow window) {
    const uint64_t last = window.first + window.rows;
    for_row_groups(pass.row_count, [&](uint64_t row, uint64_t group, bool present) {
        const uint64_t first = first_of_group[group];
        // The same for the whole warp.
        if (first >= last || first_of_group[group + 1] <= window.first) return;
        const uint32_t* const probe = pass.rows + row * pass.row_words;
        uint64_t rows = 0;
        if (present) rows = for_partners<kKeyWords>(pass.table, probe, [](const uint32_t*) {});
        __syncwarp();
        uint64_t position = first + warp_inclusive_sum(rows) - rows;
        if (rows == 0 || position >= last || position + rows <= window.first) return;
        // The walk is the same as before, for nothing is inserted any more.
        for_partners<kKeyWords>(pass.table, probe, [&](const uint32_t* build) {
            if (position >= window.first && position < last) {
                write_result<kKeyWords>(window, position - window.first, build, probe, true);
            }
            ++position;
        });
    });
}

dim3 grid_of(Device& device, const TablePass& pass) {
    const uint64_t blocks = (pass.row_count + kTableThreads - 1) / kTableThreads;
    const uint64_t most = static_cast<uint64_t>(device.properties().multiprocessors) * kTableBlocksPerMultiprocessor;
    return dim3(static_cast<unsigned>(std::min(blocks, most)));
}

}  // namespace

void insert_rows(Device& device, const TablePass& pass, uint64_t* refusals) {
    launch(pass.key_words == 1 ? insert_kernel<1> : insert_kernel<2>, grid_of(device, pass), dim3(kTableThreads), 0,
           device.stream(), pass, reinterpret_cast<unsigned long long*>(refusals));
}

void throw_refusal(uint64_t refusals) {
    if (refusals == 0) return;
    const char* const why = (refusals & kOutOfRange) != 0 ? "a build key lies outside of the range that was named"
                            : (refusals & kKeyTwice) != 0 ? "perfect hashing joins build keys that come once each"
                                                          : "linear probing is not for keys in thousands of build rows";
    throw Error(ErrorCode::kInvalid, why);
}

void sum_rows(Device& device, const TablePass& pass, const ResultWindow& columns, uint64_t* totals) {
    if (columns.columns > static_cast<int32_t>(kSumColumnsMax)) {
        throw Error(ErrorCode::kInvalid, "a join gives at most " + std::to_string(kSumColumnsMax) + " sums");
    }
    launch(pass.key_words == 1 ? sum_rows_kernel<1> : sum_rows_kernel<2>, grid_of(device, pass), dim3(kTableThreads), 0,
           device.stream(), pass, columns, totals);
}

void count_rows_of_groups(Device& device, const TablePass& pass, uint64_t* group_rows) {
    const uint64_t groups = (pass.row_count + kGroupRows - 1) / kGroupRows;
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(group_rows + groups, 0, sizeof(uint64_t), device.stream()));
    launch(pass.key_words == 1 ? count_rows_kernel<1> : count_rows_kernel<2>, grid_of(device, pass),
           dim3(kTableThreads), 0, device.stream(), pass, group_rows);
}

void write_rows(Device& device, const TablePass& pass, const uint64_t* first_of_group, const ResultWindow& window) {
    launch(pass.key_words == 1 ? write_rows_kernel<1> : write_rows_kernel<2>, grid_of(device, pass),
           dim3(kTableThreads), 0, device.stream(), pass, first_of_group, window);
}

}}  // namespace spillway::cuda::baseline_join
