// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <vector>

#include "device/launch.hpp"
#include "group_by/columns/column_groups.hpp"
#include "group_by/plan/narrow_plan.hpp"
#include "group_by/tables/aggregate_pass.cuh"
#include "group_by/tables/find_rows.cuh"
#include "group_by/tables/merge_table.cuh"
#include "group_by/tables/narrow_rows.cuh"

// Aggregates of columns of 4 or 8 bytes by a key of either width (column_groups.hpp). What aggregate_tiles.cuh does for
// any aggregate by descriptors and by way of staged tiles is here straight-line code for four neighbouring rows per
// thread, which loads of 16 bytes bring into registers while the four rows before them are worked on. No barrier but at
// both ends.
// Bytes: each row read once (by each slice of the hash range; the second slice finds most in the L2 cache), each group
// merged once per block. 2^28 rows of 12 bytes: 3.2 GB, 0.81 ms at 3.98 TB/s, which leaves a multiprocessor some 25
// cycles of 1.98 GHz per 32 rows; of 24 bytes 6.4 GB, 1.62 ms and 50 cycles. By count of the machine code 32 rows of 12
// bytes need some 68 instructions by buckets (41 to mix the key, to find its bucket and to look at four keys there, 12
// per value), 17 cycles of four schedulers, and 18 accesses to shared memory (11 for random buckets, 3.5 per value, and
// what max changes). A profile of maxima by buckets on an H200 has 63 of them with 4 groups. With 2^14, a fill of 0.85,
// it has 175, 44 cycles: keys that are not in their first bucket take more than the 20 per round that the code counts
// (find_slots.cuh), and the schedulers are the busiest unit. Keys of 8 bytes take 25 to mix and twice the accesses,
// values of 8 bytes 12 and twice the accesses. For few groups all lanes look at one address or a few, which is no
// conflict: no case of its own. H200, 2^28 rows, maxima, the whole group-by: 12 bytes 0.78 ms with 4 groups, 1.00 with
// 2^12, 1.16 with 2^13, 1.99 with 2^14; key and columns of 8 bytes 1.56 with 4 groups, 2.20 with 2^12.
namespace spillway::cuda { inline namespace grouping {

namespace {

// A load of 16 bytes for four neighbouring rows: a column of 4 bytes is one of them, of 8 bytes two.
struct QuadSource {
    const unsigned char* from = nullptr;
    uint32_t step_bytes = 16;  // to the next four rows
};

// What column_groups_kernel gets.
struct ColumnPass {
    AggregatePass aggregate;  // accumulators in the order of their columns' words
    QuadSource words[kNarrowValueWordsMax];
    NarrowColumns columns;
};

struct ColumnGroupsShared {
    uint32_t elsewhere;  // rows that the block's table had no place for
    uint32_t stop;       // the attempt has failed
};

// Neighbouring rows, a load per word.
template <int kKeyWords, int kWords>
struct RowQuad {
    static constexpr int kRows = kColumnGroupsRows;
    static constexpr int kValueWords = kWords;
    static_assert(sizeof(uint4) == 4 * kRows);

    uint4 keys[kKeyWords];
    uint4 values[kWords > 0 ? kWords : 1];

    __device__ static void spread(const uint4& four, const uint4&, uint32_t (&each)[kRows]) {
        each[0] = four.x;
        each[1] = four.y;
        each[2] = four.z;
        each[3] = four.w;
    }
    template <class Wide>
    __device__ static void spread(const uint4& first, const uint4& last, Wide (&each)[kRows]) {
        static_assert(sizeof(Wide) == 8);
        each[0] = wide_of(first.x, first.y);
        each[1] = wide_of(first.z, first.w);
        each[2] = wide_of(last.x, last.y);
        each[3] = wide_of(last.z, last.w);
    }
    template <class Value>
    __device__ void values_at(int v, Value (&each)[kRows]) const {
        spread(values[v], values[v + 1 < kWords ? v + 1 : v], each);
    }
};

// kSums: for NarrowColumns::sums alone.
template <int kKeyWords, int kValueWords, bool kPairs, bool kSums>
class ColumnGroups {
    using Key = typename MixedKey<kKeyWords>::Key;
    using Slots = BlockSlots<kKeyWords>;
    using Quad = RowQuad<kKeyWords, kValueWords>;
    using Search = RowSearch<kKeyWords, kPairs>;
    static constexpr int kRows = Quad::kRows;
    static constexpr int kThreads = column_threads(kKeyWords, kValueWords, kSums);

  public:
    __device__ ColumnGroups(const ColumnPass& pass, unsigned char* memory, ColumnGroupsShared& shared)
        : columns_(pass),
          pass_(pass.aggregate),
          shared_(shared),
          table_{reinterpret_cast<typename Slots::KeyWord*>(memory),
                 reinterpret_cast<uint32_t*>(memory + pass_.keys_bytes(kKeyWords)), pass_.slots, pass_.entries()},
          first_slot_(blockIdx.x % pass_.slices * pass_.slots),
          all_slots_(pass_.slices * pass_.slots) {}

    __device__ void run() {
        if (threadIdx.x == 0) shared_.elsewhere = shared_.stop = 0;
        clear_table(pass_, table_);
        __syncthreads();
        add_quads();
        give_hot<kSums>(pass_.plan, columns_.columns, table_, hot_);
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

    __device__ static uint4 load(const unsigned char* from) { return __ldcs(reinterpret_cast<const uint4*>(from)); }
    __device__ Quad load(uint64_t quad) const {
        Quad rows;
#pragma unroll
        for (int k = 0; k < kKeyWords; ++k) rows.keys[k] = load(pass_.plan.key.column + (quad * kKeyWords + k) * 16);
#pragma unroll
        for (int v = 0; v < kValueWords; ++v) {
            rows.values[v] = load(columns_.words[v].from + quad * columns_.words[v].step_bytes);
        }
        return rows;
    }

    // limit: slots, or 0 for a lane without rows.
    __device__ void add(const Quad& rows, uint64_t quad, uint32_t limit) {
        Key mixed[kRows];
        uint32_t at[kRows];
        uint32_t slot[kRows];
        Quad::spread(rows.keys[0], rows.keys[kKeyWords - 1], mixed);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            mixed[r] = MixedKey<kKeyWords>::mix(mixed[r]);
            at[r] = Search::first_place(mixed[r], all_slots_) - first_slot_;
        }
        // Rows that are not for this table change an entry behind the place of the key that marks an empty slot: it is
        // never merged, and without it every access had a condition.
        const uint32_t unplaced = Search::find(table_, limit, pass_.slots + 1, mixed, at, slot);
        if (unplaced != 0) add_elsewhere_rows(unplaced, quad, mixed);
        __syncwarp();
        add_values<kSums>(pass_.plan, columns_.columns, table_, rows, slot, hot_);
    }

    __device__ void add_elsewhere_rows(uint32_t unplaced, uint64_t quad, const Key (&mixed)[kRows]) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            if ((unplaced >> r & 1) != 0) add_row_elsewhere(quad * kRows + r, mixed[r]);
        }
        if (__ldcg(pass_.global.failed) != 0) atomicExch(&shared_.stop, 1U);
    }
    __device__ void add_row_elsewhere(uint64_t row, Key mixed) {
        add_elsewhere<kKeyWords>(pass_, StagedRows{nullptr, row, 1}, 0, 0, mixed, &shared_.elsewhere);
    }

    // The last rows, which are less than four, go to the table in GPU memory: of all slices, once.
    __device__ void add_rest() {
        const uint64_t row = pass_.rows / kRows * kRows + threadIdx.x;
        if (blockIdx.x != 0 || row >= pass_.rows) return;
        const auto* const keys = reinterpret_cast<const Key*>(pass_.plan.key.column);
        add_row_elsewhere(row, MixedKey<kKeyWords>::mix(keys[row]));
    }

    const ColumnPass& columns_;
    const AggregatePass& pass_;
    ColumnGroupsShared& shared_;
    const Slots table_;
    const uint32_t first_slot_;
    const uint32_t all_slots_;
    HotSums<kValueWords, has_hot_sums(kKeyWords, kValueWords, kSums)> hot_;
};

template <int kKeyWords, int kValueWords, bool kPairs, bool kSums>
__global__ void __launch_bounds__(column_threads(kKeyWords, kValueWords, kSums), 1)
    column_groups_kernel(const __grid_constant__ ColumnPass pass) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ ColumnGroupsShared shared;
    ColumnGroups<kKeyWords, kValueWords, kPairs, kSums>(pass, memory, shared).run();
}

static_assert(sizeof(ColumnPass) <= 4096, "parameters of a kernel");

ColumnPass pass_of(const GroupPlan& plan, const AggregatePass& aggregate) {
    ColumnPass pass;
    std::vector<uint32_t> words;
    uint32_t word = 0;
    for (const DeviceColumn& column : plan.columns) {
        words.push_back(word);
        for (uint32_t half = 0; half < column.width / 4; ++half) {
            pass.words[word++] = {static_cast<const unsigned char*>(column.data) + 16 * half, 4 * column.width};
        }
    }
    const NarrowPlan narrow = NarrowPlan::make(plan, words);
    pass.aggregate = aggregate;
    pass.aggregate.plan = narrow.slots;
    pass.columns = narrow.columns;
    return pass;
}

template <int kKeyWords, int kValueWords, bool kPairs, bool kSums>
void launch_kernel(Device& device, const ColumnPass& columns) {
    constexpr uint64_t kThreads = column_threads(kKeyWords, kValueWords, kSums);
    const AggregatePass& pass = columns.aggregate;
    const auto multiprocessors = static_cast<uint64_t>(device.properties().multiprocessors);
    const uint64_t quads = pass.rows / kColumnGroupsRows;
    const uint64_t useful = std::max<uint64_t>((quads + kThreads - 1) / kThreads, 1);
    const uint64_t teams = std::min(std::max<uint64_t>(multiprocessors / pass.slices, 1), useful);
    launch(column_groups_kernel<kKeyWords, kValueWords, kPairs, kSums>,
           dim3(static_cast<unsigned>(teams * pass.slices)), dim3(kThreads), (pass.table_bytes(kKeyWords) + 15) & ~15U,
           device.stream(), columns);
}

}  // namespace

bool has_column_groups(const GroupPlan& plan, const GroupByRequest& request) {
    return NarrowPlan::fits(plan, request);
}

ColumnGroupsTable ColumnGroupsTable::make(const DeviceProperties& properties, const GroupPlan& plan, uint64_t groups) {
    const uint64_t slots = (properties.shared_bytes_per_block_optin - kColumnGroupsReservedBytes) / plan.slot_bytes();
    ColumnGroupsTable table;
    // What stands behind the last slot takes up to 4 more.
    table.slots = whole_buckets(slots - 4);
    const auto most = static_cast<uint64_t>(static_cast<double>(table.slots) * narrow_fill(plan.key_words));
    table.slices = std::max<uint64_t>((groups + most - 1) / most, 1);
    const double fill = static_cast<double>(groups) / static_cast<double>(table.slots * table.slices);
    table.pairs = fill <= kPairsFillMax;
    table.is_worth_it = table.slices <= column_groups_slices_max(plan.key_words);
    return table;
}

void launch_column_groups(Device& device, const GroupPlan& plan, const AggregatePass& aggregate) {
    const ColumnPass pass = pass_of(plan, aggregate);
    launch_narrow(plan, aggregate.pairs, [&](auto shape) {
        // Only where it has more threads than the kernel for all.
        constexpr bool kSums = has_sums_kernel(shape.kKey, shape.kValues);
        if (kSums && pass.columns.sums) {
            launch_kernel<shape.kKey, shape.kValues, shape.kPairs, kSums>(device, pass);
        } else {
            launch_kernel<shape.kKey, shape.kValues, shape.kPairs, false>(device, pass);
        }
    });
}

}}  // namespace spillway::cuda::grouping
