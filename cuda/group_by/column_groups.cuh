// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/aggregate_pass.cuh"
#include "group_by/find_slots.cuh"
#include "group_by/merge_table.cuh"
#include "group_by/narrow_rows.cuh"

// Aggregates of 4-byte columns by a 4-byte key (column_groups.hpp). What aggregate_tiles.cuh does for any aggregate
// by descriptors and by way of staged tiles is here straight-line code for four neighbouring rows per thread, which one
// load per column brings into registers while the four rows before them are worked on. No barrier but at both ends.
// Bytes: each row read once (by each slice of the hash range; the second slice finds most in the L2 cache), each group
// merged once per block. 2^28 rows of 12 bytes: 3.2 GB, 0.81 ms at 3.98 TB/s, which leaves a multiprocessor 36 cycles
// per 32 rows. By count 32 rows need some 45 instructions (9 to mix the key and find the pair, 5 to look at it, 8 per
// value), 11 cycles of four schedulers, and 14 accesses to shared memory (6 for random pairs, 3.5 per value, and what
// max changes); at a fill of 0.43 some 35 instructions more for keys that are not in their first pair. Not measured.
// For few groups all lanes look at one address or a few, which is no conflict: no case of its own.
namespace spillway::cuda {

struct ColumnGroupsShared {
    uint32_t elsewhere;  // rows that the block's table had no place for
    uint32_t stop;       // the attempt has failed
};

// Neighbouring rows of each column.
template <int kValues>
struct RowQuad {
    uint4 keys;
    uint4 values[kValues > 0 ? kValues : 1];
};

template <int kValues>
class ColumnGroups {
    using Slots = BlockSlots<1>;
    using Quad = RowQuad<kValues>;
    static constexpr int kRows = kColumnGroupsRows;
    static constexpr int kThreads = column_groups_threads(kValues);
    static_assert(sizeof(uint4) == 4 * kRows);

  public:
    __device__ ColumnGroups(const AggregatePass& pass, unsigned char* memory, ColumnGroupsShared& shared)
        : pass_(pass),
          shared_(shared),
          table_{reinterpret_cast<Slots::KeyWord*>(memory), reinterpret_cast<uint32_t*>(memory + pass.keys_bytes(1)),
                 pass.slots, pass.entries()},
          first_slot_(blockIdx.x % pass.slices * pass.slots),
          all_slots_(pass.slices * pass.slots) {}

    __device__ void run() {
        if (threadIdx.x == 0) shared_.elsewhere = shared_.stop = 0;
        clear_table(pass_, table_);
        __syncthreads();
        add_quads();
        add_rest();
        __syncthreads();
        if (shared_.stop == 0) merge_table(pass_, table_);
    }

  private:
    __device__ void add_quads() {
        if (pass_.rows < kRows) return;
        const uint64_t last = pass_.rows / kRows - 1;
        const uint32_t step = gridDim.x / pass_.slices * kThreads;  // at most a device's threads
        uint64_t quad = static_cast<uint64_t>(blockIdx.x / pass_.slices) * kThreads + threadIdx.x;
        Quad next = load(min(quad, last));
        // All lanes of a warp stay until its last rows.
        while (quad - lane_index() <= last) {
            const Quad now = next;
            next = load(min(quad + step, last));
            add(now, quad, quad <= last ? pass_.slots : 0);
            if (__any_sync(kFullWarp, Slots::look(&shared_.stop) != 0)) return;
            quad += step;
        }
    }

    __device__ static uint4 load(const TileField& column, uint64_t quad) {
        return __ldcs(reinterpret_cast<const uint4*>(column.column) + quad);
    }
    __device__ Quad load(uint64_t quad) const {
        Quad rows;
        rows.keys = load(pass_.plan.key, quad);
#pragma unroll
        for (int v = 0; v < kValues; ++v) rows.values[v] = load(pass_.plan.accumulator[v].value, quad);
        return rows;
    }

    // limit: slots, or 0 for a lane without rows.
    __device__ void add(const Quad& rows, uint64_t quad, uint32_t limit) {
        uint32_t mixed[kRows] = {rows.keys.x, rows.keys.y, rows.keys.z, rows.keys.w};
        uint32_t at[kRows];
        uint32_t slot[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            mixed[r] = MixedKey<1>::mix(mixed[r]);
            at[r] = (__umulhi(mixed[r], all_slots_) & ~1U) - first_slot_;
        }
        // Rows that are not for this table change an entry behind the place of the key that marks an empty slot: it is
        // never merged, and without it every access had a condition.
        const uint32_t unplaced = find_slots<1>(table_, limit, pass_.slots + 1, mixed, at, slot);
        if (unplaced != 0) add_elsewhere_rows(unplaced, quad, mixed);
        __syncwarp();
#pragma unroll
        for (int v = 0; v < kValues; ++v) {
            const uint4& from = rows.values[v];
            const uint32_t values[kRows] = {from.x, from.y, from.z, from.w};
            add_narrow(table_, pass_.plan.accumulator[v], values, slot);
        }
        for (int i = kValues; i < pass_.plan.accumulators; ++i) count_narrow(table_, pass_.plan.accumulator[i], slot);
    }

    __device__ void add_elsewhere_rows(uint32_t unplaced, uint64_t quad, const uint32_t (&mixed)[kRows]) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            if ((unplaced >> r & 1) != 0) add_row_elsewhere(quad * kRows + r, mixed[r]);
        }
        if (__ldcg(pass_.global.failed) != 0) atomicExch(&shared_.stop, 1U);
    }
    __device__ void add_row_elsewhere(uint64_t row, uint32_t mixed) {
        add_elsewhere<1>(pass_, TileRows{nullptr, row, 1}, 0, 0, mixed, &shared_.elsewhere);
    }

    // The last rows, which are less than four, go to the table in GPU memory: of all slices, once.
    __device__ void add_rest() {
        const uint64_t row = pass_.rows / kRows * kRows + threadIdx.x;
        if (blockIdx.x != 0 || row >= pass_.rows) return;
        const auto* const keys = reinterpret_cast<const uint32_t*>(pass_.plan.key.column);
        add_row_elsewhere(row, MixedKey<1>::mix(keys[row]));
    }

    const AggregatePass& pass_;
    ColumnGroupsShared& shared_;
    const Slots table_;
    const uint32_t first_slot_;
    const uint32_t all_slots_;
};

template <int kValues>
__global__ void __launch_bounds__(column_groups_threads(kValues), 1)
    column_groups_kernel(const __grid_constant__ AggregatePass pass) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ ColumnGroupsShared shared;
    ColumnGroups<kValues>(pass, memory, shared).run();
}

}  // namespace spillway::cuda
