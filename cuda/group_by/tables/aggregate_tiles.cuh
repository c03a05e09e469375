// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/tables/add_rows.cuh"
#include "group_by/tables/aggregate_pass.cuh"
#include "group_by/tables/emit_groups.cuh"
#include "group_by/tables/find_slots.cuh"
#include "group_by/tables/merge_table.cuh"

// Groups in shared memory. A block works on units of rows: each row's key is looked up in the block's table, its values
// are added to the slot, and at the end of the unit the groups are merged into the table in GPU memory or, when no
// other unit has their keys, appended to the result. Rows come from columns or as packed rows of a radix partition.
// Bytes: each row read once (by each slice of the hash range), each group written once; a unit that merges takes some
// three random accesses per group. 2^28 rows of 12 bytes: 3.2 GB, 0.81 ms at 3.98 TB/s, which leaves a multiprocessor
// some 25 cycles of 1.98 GHz per 32 rows. By count of accesses to shared memory it needs some 22 of them: 3 to stage, 3
// to read, 3.5 for random slots of each the key and two payloads, and what max changes. It is bound by instructions,
// some 240, 60 cycles: H200, maxima of two columns of 4 bytes, 2.3 ms with 4 groups, 2.8 with 2^10.
namespace spillway::cuda { inline namespace grouping {

struct GroupShared {
    TileLoads loads;
    GroupUnit unit;
    uint32_t stop[2];    // set with the tile of each buffer, looked at with the next one
    uint32_t elsewhere;  // rows that the block's table had no place for
    EmitShared emit;
};

template <int kKeyWords>
class TileAggregation {
    using Key = typename MixedKey<kKeyWords>::Key;
    using Slots = BlockSlots<kKeyWords>;
    using Batch = TableRows<kKeyWords>;

  public:
    __device__ TileAggregation(const AggregatePass& pass, unsigned char* memory, GroupShared& shared)
        : pass_(pass),
          shared_(shared),
          stream_(pass.source, memory + ((pass.table_bytes(kKeyWords) + 127) & ~127U), shared.loads),
          table_{reinterpret_cast<typename Slots::KeyWord*>(memory),
                 reinterpret_cast<uint32_t*>(memory + pass.keys_bytes(kKeyWords)), pass.slots, pass.entries()},
          first_slot_(blockIdx.x % pass.slices * pass.slots),
          all_slots_(pass.slices * pass.slots) {}

    __device__ void run() {
        if (threadIdx.x == 0) {
            stream_.init();
            shared_.stop[0] = shared_.stop[1] = 0;
            shared_.elsewhere = 0;
            shared_.unit = pass_.units == nullptr ? strided_unit() : unit_at(claim());
        }
        clear_table(pass_, table_);
        fence_shared_for_bulk();
        __syncthreads();
        GroupUnit unit = shared_.unit;
        if (unit.begin >= unit.end) return;
        start(0, unit, unit.begin);
        __syncthreads();
        for (int buffer = 0;;) {
            buffer = aggregate_unit(unit, buffer);
            const GroupUnit next = shared_.unit;
            if (next.begin < next.end) start(buffer, next, next.begin);
            flush(unit);
            if (next.begin >= next.end) return;
            clear_table(pass_, table_);
            fence_shared_for_bulk();
            __syncthreads();
            unit = next;
        }
    }

  private:
    __device__ GroupUnit strided_unit() const {
        GroupUnit unit{};
        unit.begin = static_cast<uint64_t>(blockIdx.x / pass_.slices) * pass_.source.tile_rows;
        unit.end = pass_.rows;
        unit.step_rows = static_cast<uint64_t>(gridDim.x / pass_.slices) * pass_.source.tile_rows;
        unit.merges = true;
        return unit;
    }
    __device__ unsigned long long claim() const {
        return pass_.units == nullptr ? 0 : atomicAdd(pass_.next_unit, 1ULL);
    }
    // An empty one when there is none left.
    __device__ GroupUnit unit_at(unsigned long long number) const {
        return pass_.units == nullptr || number >= *pass_.unit_count ? GroupUnit{} : pass_.units[number];
    }

    __device__ uint32_t tile_rows(const GroupUnit& unit, uint64_t row) const {
        return static_cast<uint32_t>(min(unit.end - row, static_cast<uint64_t>(pass_.source.tile_rows)));
    }
    __device__ void start(int buffer, const GroupUnit& unit, uint64_t row) {
        stream_.start(buffer, row, tile_rows(unit, row));
    }

    // Returns the buffer that is free. Claims the next unit only during the last tile: with few units a block must not
    // keep one waiting.
    __device__ int aggregate_unit(const GroupUnit& unit, int buffer) {
        bool is_last = false;
        for (uint64_t row = unit.begin; !is_last; row += unit.step_rows) {
            is_last = row + unit.step_rows >= unit.end || shared_.stop[buffer ^ 1] != 0;
            if (!is_last) start(buffer ^ 1, unit, row + unit.step_rows);
            // Their results are used behind the tile, so that nobody waits for them.
            uint32_t failed = 0;
            unsigned long long claimed = 0;
            if (threadIdx.x == 0) {
                failed = __ldcg(pass_.global.failed);
                if (is_last) claimed = claim();
            }
            const StagedRows tile = {stream_.wait(buffer), row, tile_rows(unit, row)};
            for (uint32_t at = 0; at < tile.rows; at += kGroupThreads * kGroupRowsAtOnce) add(tile, at);
            if (threadIdx.x == 0) {
                shared_.stop[buffer] = failed;
                if (is_last) shared_.unit = failed != 0 ? GroupUnit{} : unit_at(claimed);
            }
            fence_shared_for_bulk();
            __syncthreads();
            buffer ^= 1;
        }
        return buffer;
    }

    __device__ Key mixed_key(const StagedRows& tile, uint32_t i) const {
        // Keys are staged whatever the algorithm; in packed rows they lie at multiples of 4 bytes.
        const TileField& field = pass_.plan.key;
        const unsigned char* const at = tile.staged + field.base_bytes + i * field.stride_bytes;
        const auto* const words = reinterpret_cast<const uint32_t*>(at);
        Key key = words[0];
        if constexpr (kKeyWords == 2) key |= static_cast<Key>(words[1]) << 32;
        return pass_.plan.keys_are_mixed ? key : MixedKey<kKeyWords>::mix(key);
    }
    // Another slice's key: not below slots.
    __device__ uint32_t first_slot(Key mixed) const {
        const auto top = static_cast<uint32_t>(static_cast<Key>(mixed << pass_.radix_bits) >> (32 * (kKeyWords - 1)));
        return Slots::bucket_of(top, all_slots_) - first_slot_;
    }

    __device__ void add(const StagedRows& tile, uint32_t at) {
        Batch rows;
        Key mixed[kGroupRowsAtOnce];
        uint32_t first[kGroupRowsAtOnce];
#pragma unroll
        for (int r = 0; r < kGroupRowsAtOnce; ++r) {
            rows.row[r] = at + r * kGroupThreads + threadIdx.x;
            rows.mask[r] = 0;
            first[r] = pass_.slots;
            mixed[r] = 0;
            if (rows.row[r] >= tile.rows) continue;
            if (pass_.plan.has_mask) {
                rows.mask[r] = static_cast<uint32_t>(tile.bits(pass_.plan.mask, pass_.plan.row_number, rows.row[r]));
                if (pass_.plan.key_bit != kNoBit && (rows.mask[r] >> pass_.plan.key_bit & 1) == 0) continue;
            }
            mixed[r] = mixed_key(tile, rows.row[r]);
            first[r] = first_slot(mixed[r]);
        }
        const uint32_t unplaced = find_slots<kKeyWords>(table_, pass_.slots, Slots::kNoSlot, mixed, first, rows.slot);
        if (unplaced != 0) {
#pragma unroll
            for (int r = 0; r < kGroupRowsAtOnce; ++r) {
                if ((unplaced >> r & 1) == 0) continue;
                add_elsewhere<kKeyWords>(pass_, tile, rows.row[r], rows.mask[r], mixed[r], &shared_.elsewhere);
            }
        }
        __syncwarp();
#pragma unroll 1
        for (int a = 0; a < pass_.plan.accumulators; ++a) {
            apply_rows<kKeyWords>(pass_.plan.accumulator[a], pass_.plan, tile, rows, table_);
        }
    }

    __device__ Key edge_key(uint64_t row) const {
        const StagedArray& keys = pass_.source.array[0];
        return MixedKey<kKeyWords>::mix(reinterpret_cast<const Key*>(keys.data)[row]);
    }

    // All groups of the unit leave the block.
    __device__ void flush(const GroupUnit& unit) {
        if (unit.merges) {
            merge_table(pass_, table_);
            return __syncthreads();
        }
        Key first_key = 0;
        Key last_key = 0;
        if (unit.merges_edges) {
            first_key = edge_key(unit.begin);
            last_key = edge_key(unit.end - 1);
        }
        emit_table(pass_, table_, shared_.emit,
                   [&](Key mixed) { return unit.merges_edges && (mixed == first_key || mixed == last_key); });
    }

    const AggregatePass& pass_;
    GroupShared& shared_;
    TileStream stream_;
    const Slots table_;
    const uint32_t first_slot_;
    const uint32_t all_slots_;
};

template <int kKeyWords>
__global__ void __launch_bounds__(kGroupThreads, kGroupBlocksPerMultiprocessor)
    aggregate_tiles_kernel(const __grid_constant__ AggregatePass pass) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ GroupShared shared;
    TileAggregation<kKeyWords>(pass, memory, shared).run();
}

}}  // namespace spillway::cuda::grouping
