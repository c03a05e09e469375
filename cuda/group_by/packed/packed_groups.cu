// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "device/launch.hpp"
#include "group_by/packed/packed_groups.hpp"
#include "group_by/plan/narrow_plan.hpp"
#include "group_by/tables/aggregate_pass.cuh"
#include "group_by/tables/emit_groups.cuh"
#include "group_by/tables/find_rows.cuh"
#include "group_by/tables/merge_table.cuh"
#include "group_by/tables/narrow_rows.cuh"
#include "radix_partition/radix_partition.hpp"
#include "radix_partition/radix_policy.hpp"

// Groups of radix partitions in a block's shared memory, for packed rows of whole words (packed_groups.hpp). A block
// takes a unit (a partition, or a part of a heavy one), looks up four rows per thread, which wide loads bring into
// registers while the four rows before them are worked on, and appends the groups to the result. The first rows of the
// next unit are on their way while groups leave.
// Bytes: each row read once, each group written once. 2^28 rows of 12 bytes: 3.2 GB, 0.81 ms at 3.98 TB/s, which leaves
// a multiprocessor some 25 cycles of 1.98 GHz per 32 rows, those of 24 bytes 50; column_groups.cu counts what is done
// in them, less the mixing of keys.
namespace spillway::cuda { inline namespace grouping {

namespace {

// What packed_groups_kernel gets.
struct PackedPass {
    AggregatePass aggregate;  // accumulators in the order of their columns' words
    const unsigned char* rows = nullptr;
    NarrowColumns columns;
};

struct PackedGroupsShared {
    GroupUnit units[2];  // this one, and the next
    uint32_t elsewhere;  // rows that the block's table had no place for
    uint32_t stop;       // the attempt has failed
    EmitShared emit;
};

// Rows as they lie in memory: mixed key, columns.
template <int kKeyWords, int kWordsOfValues>
struct WholeRows {
    static constexpr int kRows = kPackedGroupsRows;
    static constexpr int kValueWords = kWordsOfValues;

    uint32_t word[kRows][kKeyWords + kValueWords];

    __device__ void values_at(int v, uint32_t (&each)[kRows]) const {
#pragma unroll
        for (int r = 0; r < kRows; ++r) each[r] = word[r][kKeyWords + v];
    }
    __device__ void values_at(int v, unsigned long long (&each)[kRows]) const {
        const int high = kKeyWords + (v + 1 < kValueWords ? v + 1 : v);
#pragma unroll
        for (int r = 0; r < kRows; ++r) each[r] = wide_of(word[r][kKeyWords + v], word[r][high]);
    }
    __device__ typename MixedKey<kKeyWords>::Key key(int r) const {
        if constexpr (kKeyWords == 1) return word[r][0];
        return wide_of(word[r][0], word[r][kKeyWords - 1]);
    }
};

// kSums: for NarrowColumns::sums alone.
template <int kKeyWords, int kValueWords, bool kPairs, bool kSums>
class PackedGroups {
    using Key = typename MixedKey<kKeyWords>::Key;
    using Slots = BlockSlots<kKeyWords>;
    using Search = RowSearch<kKeyWords, kPairs>;
    using Rows = WholeRows<kKeyWords, kValueWords>;
    static constexpr int kWords = kKeyWords + kValueWords;  // of a row
    static constexpr int kRows = Rows::kRows;
    // Rows of an odd number of words: loads of 16 bytes of four neighbouring rows per thread. Others have loads of 8 or
    // 16 bytes each, of which a warp's are for neighbouring rows: of 24 bytes a load then touches 6 lines of 128 bytes,
    // where threads with 96 bytes each touched 24.
    static constexpr bool kNeighbours = kWords % 2 != 0;
    static constexpr uint32_t kRowStep = kNeighbours ? 1 : kWarpThreads;
    static_assert(kRows % 4 == 0, "loads of 16 bytes");
    static_assert(kRegionAlignRows % kRows == 0, "rows that begin at multiples of 16 bytes");

  public:
    __device__ PackedGroups(const PackedPass& pass, unsigned char* memory, PackedGroupsShared& shared)
        : packed_(pass),
          pass_(pass.aggregate),
          shared_(shared),
          table_{reinterpret_cast<typename Slots::KeyWord*>(memory),
                 reinterpret_cast<uint32_t*>(memory + pass_.keys_bytes(kKeyWords)), pass_.slots, pass_.entries()} {}

    __device__ void run() {
        if (threadIdx.x == 0) {
            shared_.elsewhere = shared_.stop = 0;
            claim(shared_.units[0]);
        }
        clear_table(pass_, table_);
        __syncthreads();
        begin(shared_.units[0]);
        for (uint32_t turn = 0; count_ > 0; turn ^= 1) {
            add_unit();
            if (threadIdx.x == 0) claim(shared_.units[turn ^ 1]);
            __syncthreads();
            // Groups of a table without places would walk through it in vain.
            if (shared_.stop != 0) return;
            begin(shared_.units[turn ^ 1]);
            if (shared_.units[turn].merges) {
                merge_table(pass_, table_);
                __syncthreads();
            } else {
                emit_table(pass_, table_, shared_.emit, [](Key) { return false; });
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
        next_ = load(first_row());
    }

    // Returns the first row of a thread, whose other rows follow at steps of kRowStep.
    __device__ static uint32_t first_row() {
        return kNeighbours ? threadIdx.x * kRows : warp_index() * (kWarpThreads * kRows) + lane_index();
    }

    __device__ Rows load(uint32_t first) const {
        if constexpr (kNeighbours) {
            return load_neighbours(first);
        } else {
            return load_each(first);
        }
    }

    // Loads rows of the unit from row `first` on, kRowStep apart. Behind the last row it loads copies of that one,
    // which are not used.
    __device__ Rows load_each(uint32_t first) const {
        using Load = std::conditional_t<kWords % 4 == 0, uint4, uint2>;
        constexpr int kLoadWords = sizeof(Load) / 4;
        Rows rows{};
        if (count_ == 0) return rows;
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            const uint64_t row = min(first + r * kRowStep, count_ - 1);
            const auto* const from = reinterpret_cast<const Load*>(from_ + row * kWords);
#pragma unroll
            for (int at = 0; at < kWords; at += kLoadWords) {
                const Load some = __ldcs(from + at / kLoadWords);
                rows.word[r][at] = some.x;
                rows.word[r][at + 1] = some.y;
                if constexpr (kLoadWords == 4) {
                    rows.word[r][at + 2] = some.z;
                    rows.word[r][at + 3] = some.w;
                }
            }
        }
        return rows;
    }

    // Loads rows of the unit that lie next to each other, from row `first` on; those that are not there are 0.
    __device__ Rows load_neighbours(uint32_t first) const {
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
        const uint32_t lanes = lane_index() * (kNeighbours ? kRows : 1);
        for (uint32_t first = first_row(); first - lanes < count_; first += step) {
            const Rows now = next_;
            next_ = load(first + step);
            add(now, first);
        }
        give_hot<kSums>(pass_.plan, packed_.columns, table_, hot_);
    }

    __device__ void add(const Rows& rows, uint32_t first) {
        Key mixed[kRows];
        uint32_t at[kRows];
        uint32_t slot[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            mixed[r] = rows.key(r);
            const uint32_t place = Search::first_place(static_cast<Key>(mixed[r] << pass_.radix_bits), pass_.slots);
            at[r] = first + r * kRowStep < count_ ? place : pass_.slots;
        }
        // Rows that are not there change an entry behind the place of the key that marks an empty slot: it is never
        // merged, and without it every access had a condition.
        const uint32_t unplaced = Search::find(table_, pass_.slots, pass_.slots + 1, mixed, at, slot);
        if (unplaced != 0) add_elsewhere_rows(unplaced, first, mixed);
        __syncwarp();
        add_values<kSums>(pass_.plan, packed_.columns, table_, rows, slot, hot_);
    }

    // Once the attempt has failed rows are left out: a table in GPU memory that is full is walked through in vain. A
    // way out of the loop over the rows instead took 0.11 ms of 2^27 rows that never need it (H200, 2^20 groups).
    __device__ void add_elsewhere_rows(uint32_t unplaced, uint32_t first, const Key (&mixed)[kRows]) {
        if (__ldcg(pass_.global.failed) != 0) {
            atomicExch(&shared_.stop, 1U);
            return;
        }
        const uint32_t* const from = from_ + static_cast<uint64_t>(first) * kWords;
        const StagedRows rows = {reinterpret_cast<const unsigned char*>(from), 0, kRows * kRowStep};
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            if ((unplaced >> r & 1) == 0) continue;
            add_elsewhere<kKeyWords>(pass_, rows, r * kRowStep, 0, mixed[r], &shared_.elsewhere);
        }
    }

    const PackedPass& packed_;
    const AggregatePass& pass_;
    PackedGroupsShared& shared_;
    const Slots table_;
    const uint32_t* from_ = nullptr;  // the unit's first row
    uint32_t count_ = 0;  // rows of the unit: a multiprocessor's share of a device's memory, or a little more
    Rows next_;
    HotSums<kValueWords, has_hot_sums(kKeyWords, kValueWords, kSums)> hot_;
};

template <int kKeyWords, int kValueWords, bool kPairs, bool kSums>
__global__ void __launch_bounds__(packed_threads(kKeyWords, kValueWords, kSums), 1)
    packed_groups_kernel(const __grid_constant__ PackedPass pass) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ PackedGroupsShared shared;
    PackedGroups<kKeyWords, kValueWords, kPairs, kSums>(pass, memory, shared).run();
}

static_assert(sizeof(PackedPass) <= 4096, "parameters of a kernel");

PackedPass pass_of(const GroupPlan& plan, const AggregatePass& aggregate, const void* rows) {
    // Where place_packed() says that the columns are.
    std::vector<uint32_t> words(plan.columns.size(), 0);
    for (int i = 0; i < plan.slots.accumulators; ++i) {
        if (plan.sources[i] < 0) continue;
        words[plan.sources[i]] = plan.slots.accumulator[i].value.base_bytes / 4 - plan.key_words;
    }
    const NarrowPlan narrow = NarrowPlan::make(plan, words);
    PackedPass pass;
    pass.aggregate = aggregate;
    pass.aggregate.plan = narrow.slots;
    pass.rows = static_cast<const unsigned char*>(rows);
    pass.columns = narrow.columns;
    return pass;
}

template <int kKeyWords, int kValueWords, bool kPairs, bool kSums>
void launch_kernel(Device& device, const PackedPass& pass, uint32_t blocks) {
    const auto multiprocessors = static_cast<uint32_t>(device.properties().multiprocessors);
    launch(packed_groups_kernel<kKeyWords, kValueWords, kPairs, kSums>, dim3(multiprocessors * blocks),
           dim3(packed_threads(kKeyWords, kValueWords, kSums) / blocks),
           (pass.aggregate.table_bytes(kKeyWords) + 15) & ~15U, device.stream(), pass);
}

uint32_t slots_for(const DeviceProperties& properties, const GroupPlan& plan, uint32_t blocks) {
    const uint64_t shared =
        std::min(properties.shared_bytes_per_block_optin, properties.shared_bytes_per_multiprocessor / blocks);
    // What stands behind the last slot takes up to 4 more.
    return whole_buckets((shared - kPackedGroupsReservedBytes) / plan.slot_bytes() - 4);
}

double fill_of(uint64_t groups, int bits, uint32_t slots) {
    return std::ldexp(static_cast<double>(groups), -bits) / static_cast<double>(slots);
}

}  // namespace

bool has_packed_groups(const GroupPlan& plan, const GroupByRequest& request) {
    if (request.algorithm == GroupByAlgorithm::kPartitionedGather) return false;  // values are not in the rows
    return NarrowPlan::fits(plan, request);
}

bool PackedGroupsShape::pairs(uint64_t groups) const {
    return fill_of(groups, bits, slots) <= kPairsFillMax;
}

PackedGroupsShape PackedGroupsShape::make(const DeviceProperties& properties, const GroupPlan& plan, uint64_t rows,
                                          uint64_t groups) {
    // One pass has so many bits anyway, unless rows are few; tables that want them get the rest of what it has.
    PackedGroupsShape shape;
    while (shape.bits < kGroupRadixBits && rows >> (shape.bits + 1) >= kGroupPartitionRowsMin) ++shape.bits;
    const uint32_t most = slots_for(properties, plan, 1);
    while (shape.bits < kPassBitsMax && fill_of(groups, shape.bits, most) > kPackedGroupsFillBetter) ++shape.bits;
    if (fill_of(groups, shape.bits, most) > narrow_fill(plan.key_words)) {
        // Two blocks per multiprocessor want so many bits: one has rows to look up while the other's groups
        // leave.
        shape.blocks = 2;
        shape.slots = slots_for(properties, plan, 2);
        const auto is_full = [&] { return fill_of(groups, shape.bits, shape.slots) > kPackedGroupsFillOfTwo; };
        while (shape.bits < radix_bits_max() && is_full()) ++shape.bits;
        if (rows / groups < kPackedGroupsFewRows) {
            const double wanted = std::ldexp(static_cast<double>(groups), -shape.bits) / kPackedGroupsFillBetter;
            const uint32_t fewer = std::max(kTableSlotsMin, whole_buckets(static_cast<uint64_t>(wanted)));
            shape.slots = std::min(shape.slots, fewer);
        }
        return shape;
    }
    // A large table has fewer keys that are not in their first bucket, and takes longer to clear and to scan, once per
    // partition.
    const auto each = static_cast<double>((groups >> shape.bits) + 1);
    const double few = std::min(each * kPackedGroupsSlotsPerGroup, static_cast<double>((rows >> shape.bits) / 8));
    const double slots = std::max({few, each * kSlotsPerGroup, static_cast<double>(kTableSlotsMin)});
    shape.slots = whole_buckets(static_cast<uint64_t>(std::min(slots, static_cast<double>(most))));
    return shape;
}

void launch_packed_groups(Device& device, const GroupPlan& plan, const AggregatePass& aggregate, const void* rows,
                          uint32_t blocks) {
    const PackedPass pass = pass_of(plan, aggregate, rows);
    launch_narrow(plan, aggregate.pairs, [&](auto shape) {
        constexpr bool kSums = has_packed_sums_kernel(shape.kKey, shape.kValues);
        if (kSums && pass.columns.sums) {
            launch_kernel<shape.kKey, shape.kValues, shape.kPairs, kSums>(device, pass, blocks);
        } else {
            launch_kernel<shape.kKey, shape.kValues, shape.kPairs, false>(device, pass, blocks);
        }
    });
}

}}  // namespace spillway::cuda::grouping
