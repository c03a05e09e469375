// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/emit_block.cuh"
#include "group_by/find_slots.cuh"
#include "group_by/merge_table.cuh"
#include "group_by/narrow_rows.cuh"
#include "group_by/packed_pass.hpp"

// Groups of radix partitions in a block's shared memory, for packed rows of 4-byte words (packed_groups.hpp). A block
// takes a unit (a partition, or a part of a heavy one), looks up four neighbouring rows per thread, which wide loads
// bring into registers while the four rows before them are worked on, and appends the groups to the result. The first
// rows of the next unit are on their way while groups leave.
// Bytes: each row read once, each group written once. 2^28 rows of 12 bytes: 3.2 GB, 0.81 ms at 3.98 TB/s, which leaves
// a multiprocessor 36 cycles per 32 rows; column_groups.cuh counts what is done in them, less the mixing of keys.
namespace spillway::cuda {

struct PackedGroupsShared {
    GroupUnit units[2];  // this one, and the next
    uint32_t elsewhere;  // rows that the block's table had no place for
    EmitShared emit;
};

template <int kColumns>
class PackedGroups {
    using Slots = BlockSlots<1>;
    static constexpr int kWords = 1 + kColumns;  // of a row: mixed key, columns
    static constexpr int kRows = kPackedGroupsRows;
    static_assert(kRows % 4 == 0, "loads of 16 bytes");
    static_assert(kRegionAlignRows % kRows == 0, "rows that begin at multiples of 16 bytes");

    struct Rows {
        uint32_t word[kRows][kWords];
    };

  public:
    __device__ PackedGroups(const PackedPass& pass, unsigned char* memory, PackedGroupsShared& shared)
        : packed_(pass),
          pass_(pass.aggregate),
          shared_(shared),
          table_{reinterpret_cast<Slots::KeyWord*>(memory), reinterpret_cast<uint32_t*>(memory + pass_.keys_bytes(1)),
                 pass_.slots, pass_.entries()} {}

    __device__ void run() {
        if (threadIdx.x == 0) {
            shared_.elsewhere = 0;
            claim(shared_.units[0]);
        }
        clear_table(pass_, table_);
        __syncthreads();
        begin(shared_.units[0]);
        for (uint32_t turn = 0; count_ > 0; turn ^= 1) {
            add_unit();
            if (threadIdx.x == 0) claim(shared_.units[turn ^ 1]);
            __syncthreads();
            begin(shared_.units[turn ^ 1]);
            if (shared_.units[turn].merges) {
                merge_table(pass_, table_);
                __syncthreads();
            } else {
                emit_table(pass_, table_, shared_.emit, [](uint32_t) { return false; });
            }
            clear_table(pass_, table_);
            __syncthreads();
        }
    }

  private:
    __device__ void claim(GroupUnit& unit) {
        const unsigned long long number = atomicAdd(pass_.next_unit, 1ULL);
        const bool is_over = number >= *pass_.unit_count || __ldcg(pass_.global.failed) != 0;
        unit = is_over ? GroupUnit{} : pass_.units[number];
    }

    // Sends for the thread's first rows.
    __device__ void begin(const GroupUnit& unit) {
        from_ = reinterpret_cast<const uint32_t*>(packed_.rows) + unit.begin * kWords;
        count_ = static_cast<uint32_t>(unit.end - unit.begin);
        next_ = load(threadIdx.x * kRows);
    }

    // Of the rows of the unit, from the first one on; those that are not there are 0.
    __device__ Rows load(uint32_t first) const {
        Rows rows{};
        const uint32_t* const from = from_ + static_cast<uint64_t>(first) * kWords;
        if (first + kRows <= count_) {
#pragma unroll
            for (int at = 0; at < kRows * kWords; at += 4) {
                const uint4 four = __ldcs(reinterpret_cast<const uint4*>(from + at));
                rows.word[at / kWords][at % kWords] = four.x;
                rows.word[(at + 1) / kWords][(at + 1) % kWords] = four.y;
                rows.word[(at + 2) / kWords][(at + 2) % kWords] = four.z;
                rows.word[(at + 3) / kWords][(at + 3) % kWords] = four.w;
            }
        } else if (first < count_) {
            // What is between one partition and the next was never written.
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
#pragma unroll
                for (int w = 0; w < kWords; ++w) {
                    if (first + r < count_) rows.word[r][w] = from[r * kWords + w];
                }
            }
        }
        return rows;
    }

    __device__ void add_unit() {
        const uint32_t step = blockDim.x * kRows;
        // All lanes of a warp stay until its last rows.
        for (uint32_t first = threadIdx.x * kRows; first - lane_index() * kRows < count_; first += step) {
            const Rows now = next_;
            next_ = load(first + step);
            add(now, first);
        }
    }

    __device__ void add(const Rows& rows, uint32_t first) {
        uint32_t mixed[kRows];
        uint32_t at[kRows];
        uint32_t slot[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            mixed[r] = rows.word[r][0];
            const uint32_t place = __umulhi(mixed[r] << pass_.radix_bits, pass_.slots) & ~1U;
            at[r] = first + r < count_ ? place : pass_.slots;
        }
        // Rows that are not there change an entry behind the place of the key that marks an empty slot: it is never
        // merged, and without it every access had a condition.
        const uint32_t unplaced = find_slots<1>(table_, pass_.slots, pass_.slots + 1, mixed, at, slot);
        if (unplaced != 0) add_elsewhere_rows(unplaced, first, mixed);
        __syncwarp();
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
            const uint32_t values[kRows] = {rows.word[0][c + 1], rows.word[1][c + 1], rows.word[2][c + 1],
                                            rows.word[3][c + 1]};
            for (int i = packed_.first_of[c]; i < packed_.first_of[c + 1]; ++i) {
                add_narrow(table_, pass_.plan.accumulator[i], values, slot);
            }
        }
        for (int i = packed_.first_of[kColumns]; i < pass_.plan.accumulators; ++i) {
            count_narrow(table_, pass_.plan.accumulator[i], slot);
        }
    }

    __device__ void add_elsewhere_rows(uint32_t unplaced, uint32_t first, const uint32_t (&mixed)[kRows]) {
        const uint32_t* const from = from_ + static_cast<uint64_t>(first) * kWords;
        const TileRows rows = {reinterpret_cast<const unsigned char*>(from), 0, kRows};
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            if ((unplaced >> r & 1) == 0) continue;
            add_elsewhere<1>(pass_, rows, r, 0, mixed[r], &shared_.elsewhere);
        }
    }

    const PackedPass& packed_;
    const AggregatePass& pass_;
    PackedGroupsShared& shared_;
    const Slots table_;
    const uint32_t* from_ = nullptr;  // the unit's first row
    uint32_t count_ = 0;  // rows of the unit: a multiprocessor's share of a device's memory, or a little more
    Rows next_;
};

template <int kColumns>
__global__ void __launch_bounds__(packed_groups_threads(kColumns), 1)
    packed_groups_kernel(const __grid_constant__ PackedPass pass) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ PackedGroupsShared shared;
    PackedGroups<kColumns>(pass, memory, shared).run();
}

}  // namespace spillway::cuda
