// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "pair_join/pair_places.cuh"
#include "pair_join/pair_policy.hpp"
#include "pair_join/tuple_units.cuh"
#include "primitive/warp.cuh"

// Joins co-partitions of (key, row number) in shared memory: a block takes a unit (a partition, or a part of an uneven
// one), puts its build tuples into a hash table, and its warps look probe tuples up, each thread several at a time from
// its registers, and write a pair of row numbers per match. Bytes: the tuples of both sides once, and the pairs once;
// H200, 2^27 x 2^27 tuples of 8 bytes with as many pairs of 8 bytes: 3.2 GB, 0.81 ms at the copy rate of 3.98 TB/s.
namespace spillway::cuda { inline namespace pair_join {

constexpr uint32_t kNoTuple = 0xffff;

// The hash table of a block over the build tuples of its unit, in shared memory: chains of numbers, so that inserting
// is one exchange, however often a key comes.
template <class Key, class Row, class Parts>
struct TupleTable {
    static_assert(Parts::kBuildTuples < kNoTuple, "links have 16 bits");
    static constexpr uint32_t kTuples = Parts::kBuildTuples;
    static constexpr uint32_t kSlots = 1U << Parts::kSlotBits;
    static constexpr uint32_t kKeyBits = 8 * sizeof(Key);

    Key* keys;
    Row* rows;
    uint32_t* heads;  // [kSlots]
    uint16_t* links;
    uint32_t* marks;  // bits of tuples that have a match
    uint32_t radix_bits;

    __host__ __device__ static constexpr uint64_t bytes() {
        return kTuples * (sizeof(Key) + sizeof(Row) + sizeof(uint16_t)) + kSlots * sizeof(uint32_t) + kTuples / 8;
    }
    __device__ static TupleTable in(unsigned char* memory, uint32_t radix_bits) {
        TupleTable table;
        table.keys = reinterpret_cast<Key*>(memory);
        unsigned char* const behind_keys = memory + kTuples * sizeof(Key);
        table.rows = reinterpret_cast<Row*>(behind_keys);
        table.heads = reinterpret_cast<uint32_t*>(behind_keys + kTuples * sizeof(Row));
        table.marks = table.heads + kSlots;
        table.links = reinterpret_cast<uint16_t*>(table.marks + kTuples / 32);
        table.radix_bits = radix_bits;
        return table;
    }

    // From the bits behind those that all keys of a partition share.
    __device__ uint32_t slot_of(Key key) const {
        return static_cast<uint32_t>(static_cast<Key>(key << radix_bits) >> (kKeyBits - Parts::kSlotBits));
    }
    __device__ void insert(uint32_t number, Key key) const {
        links[number] = static_cast<uint16_t>(atomicExch(&heads[slot_of(key)], number));
    }
    // The first tuple with that key from `number` on; kNoTuple: there is none.
    __device__ uint32_t find(uint32_t number, Key key) const {
        while (number != kNoTuple && keys[number] != key) number = links[number];
        return number;
    }
    // Says whether somebody else has done so before.
    __device__ bool mark(uint32_t number) const {
        return (atomicOr(&marks[number / 32], 1U << number % 32) >> (number % 32) & 1) != 0;
    }
    __device__ bool is_marked(uint32_t number) const { return (marks[number / 32] >> (number % 32) & 1) != 0; }
};

enum class PairUse : uint8_t {
    kWrite,         // marks too, where they are wanted; chunks of the output for each warp, or places that were counted
    kWriteByBlock,  // the same into chunks for each block
    kWriteByThread,
    kCount,
    kMark  // alone: a probe tuple is done when all build tuples with its key are marked
};

template <class Parts>
struct TupleJoinShared {
    TupleUnit<Parts> units[2];  // this one, and the next
    uint32_t matches;           // of this unit, counted or written so far: 2^26 at most
    BlockChunk chunk;
};

template <class Key, class Row, class Parts, PairUse kUse, class Units = SharedUnits>
class TupleJoin {
    using Table = TupleTable<Key, Row, Parts>;
    static constexpr int kThreads = Parts::kThreads;
    static constexpr bool kWrites =
        kUse == PairUse::kWrite || kUse == PairUse::kWriteByBlock || kUse == PairUse::kWriteByThread;

  public:
    __device__ TupleJoin(const TuplePass& pass, unsigned char* memory, TupleJoinShared<Parts>& shared,
                         const Units& units = {})
        : pass_(pass),
          shared_(shared),
          units_(units),
          table_(Table::in(memory, pass.radix_bits)),
          places_(pass.out, shared.chunk) {}

    __device__ void run() {
        if (warp_index() == 0) units_.next(pass_, shared_.units[0]);
        for (uint32_t turn = 0;; turn ^= 1) {
            __syncthreads();  // the unit before is done, and this one known
            const TupleUnit<Parts>& unit = shared_.units[turn];
            if (unit.probe.count == 0) break;
            load(unit);
            __syncthreads();
            for (uint32_t i = threadIdx.x; i < unit.build.count; i += kThreads) table_.insert(i, table_.keys[i]);
            __syncthreads();
            if (warp_index() == 0) units_.next(pass_, shared_.units[turn ^ 1]);
            if (kUse == PairUse::kWrite && pass_.unit_places != nullptr) first_place_ = pass_.unit_places[unit.number];
            probe(unit);
            if (pass_.marks[0] == nullptr && pass_.unit_matches == nullptr) continue;
            __syncthreads();
            if (pass_.marks[0] != nullptr) hand_over_marks(unit);
            if (pass_.unit_matches != nullptr && threadIdx.x == 0) pass_.unit_matches[unit.number] = shared_.matches;
        }
        const bool hands_out = kWrites && pass_.unit_places == nullptr;
        if (hands_out) places_.finish();
        // The places of warps count what they hand out.
        if (kUse == PairUse::kWrite && hands_out) return;
        if (lane_index() == 0 && count_ > 0) {
            atomicAdd(pass_.out.matches, static_cast<unsigned long long>(count_));
        }
    }

  private:
    __device__ void load(const TupleUnit<Parts>& unit) {
        const auto* const keys = static_cast<const Key*>(pass_.build.keys);
        const auto* const rows = static_cast<const Row*>(pass_.build.rows);
        for (uint32_t i = threadIdx.x; i < unit.build.count; i += kThreads) {
            const uint64_t place = unit.build.place_of(i, pass_.build.bucket_bits);
            table_.keys[i] = __ldg(keys + place);
            table_.rows[i] = rows == nullptr ? static_cast<Row>(place) : __ldg(rows + place);
        }
        for (uint32_t s = threadIdx.x; s < Table::kSlots; s += kThreads) table_.heads[s] = kNoTuple;
        for (uint32_t w = threadIdx.x; w < Table::kTuples / 32; w += kThreads) table_.marks[w] = 0;
        if (threadIdx.x == 0) shared_.matches = 0;
    }

    __device__ void probe(const TupleUnit<Parts>& unit) {
        const auto* const keys = static_cast<const Key*>(pass_.probe.keys);
        const auto* const rows = static_cast<const Row*>(pass_.probe.rows);
        const bool needs_row = kUse != PairUse::kCount;
        const uint64_t before = count_;
        for (uint32_t first = 0; first < unit.probe.count; first += kThreads * kProbeItems) {
            Key key[kProbeItems];
            Row row[kProbeItems];
#pragma unroll
            for (int u = 0; u < kProbeItems; ++u) {
                const uint32_t i = first + u * kThreads + threadIdx.x;
                const bool there = i < unit.probe.count;
                const uint64_t place = there ? unit.probe.place_of(i, pass_.probe.bucket_bits) : 0;
                key[u] = there ? __ldcs(keys + place) : 0;
                row[u] = rows == nullptr || !there || !needs_row ? static_cast<Row>(place) : __ldcs(rows + place);
            }
            // Tuples move up to the first place: copies of the code for each of them would not fit the registers.
#pragma unroll 1
            for (int u = 0; u < kProbeItems; ++u) {
                follow(key[0], row[0], first + u * kThreads + threadIdx.x < unit.probe.count);
#pragma unroll
                for (int later = 1; later < kProbeItems; ++later) {
                    key[later - 1] = key[later];
                    row[later - 1] = row[later];
                }
            }
        }
        if (kUse == PairUse::kCount && pass_.unit_matches != nullptr && lane_index() == 0) {
            atomicAdd(&shared_.matches, static_cast<uint32_t>(count_ - before));
        }
    }

    // To the first match of all lanes, then to the second of those that have one, and so on; all lanes take part.
    __device__ void follow(Key key, Row row, bool there) {
        uint32_t number = there ? table_.find(table_.heads[table_.slot_of(key)], key) : kNoTuple;
        __syncwarp();
        const bool found = number != kNoTuple;
        if (pass_.marks[1] != nullptr && found) {
            atomicOr(&pass_.marks[1][row / 32], 1U << static_cast<uint32_t>(row % 32));
        }
        if constexpr (kUse == PairUse::kMark) {
            // Who marks the first tuple with a key marks the others too; all who come later have nothing to do.
            if (pass_.marks[0] == nullptr || !found || table_.mark(number)) return;
            while ((number = table_.find(table_.links[number], key)) != kNoTuple) table_.mark(number);
        } else {
            for (;;) {
                const uint32_t lanes = __ballot_sync(kFullWarp, number != kNoTuple);
                if (lanes == 0) return;
                use(lanes, number, row);
                if (number != kNoTuple) number = table_.find(table_.links[number], key);
                __syncwarp();
            }
        }
    }

    __device__ void use(uint32_t lanes, uint32_t number, Row row) {
        if (pass_.marks[0] != nullptr && number != kNoTuple) table_.mark(number);
        count_ += __popc(lanes);
        if constexpr (kWrites) {
            const auto write = [&](uint64_t place) {
                __stcs(static_cast<Row*>(pass_.out.column[0].data) + place, table_.rows[number]);
                __stcs(static_cast<Row*>(pass_.out.column[1].data) + place, row);
            };
            if (kUse != PairUse::kWrite || pass_.unit_places == nullptr) {
                places_.give(lanes, write);
                return;
            }
            uint32_t before = 0;
            if (lane_index() == 0) before = atomicAdd(&shared_.matches, static_cast<uint32_t>(__popc(lanes)));
            before = __shfl_sync(kFullWarp, before, 0);
            if (number != kNoTuple) write(first_place_ + before + __popc(lanes & lanes_below()));
        }
    }

    __device__ void hand_over_marks(const TupleUnit<Parts>& unit) const {
        for (uint32_t i = threadIdx.x; i < unit.build.count; i += kThreads) {
            if (!table_.is_marked(i)) continue;
            const Row row = table_.rows[i];
            atomicOr(&pass_.marks[0][row / 32], 1U << static_cast<uint32_t>(row % 32));
        }
    }

    const TuplePass& pass_;
    TupleJoinShared<Parts>& shared_;
    Units units_;  // of use to the first warp
    const Table table_;
    PairPlaces<kUse == PairUse::kWriteByBlock    ? PairOutput::kBlockChunks
               : kUse == PairUse::kWriteByThread ? PairOutput::kThreadPages
                                                 : PairOutput::kWarpChunks>
        places_;
    uint64_t first_place_ = 0;  // of the unit's pairs
    uint64_t count_ = 0;        // of the warp
};

template <class Key, class Row, class Parts, PairUse kUse>
__global__ void __launch_bounds__(Parts::kThreads, Parts::kBlocksPerMultiprocessor)
    tuple_join_kernel(const __grid_constant__ TuplePass pass) {
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ TupleJoinShared<Parts> shared;
    TupleJoin<Key, Row, Parts, kUse>(pass, memory, shared).run();
}

}}  // namespace spillway::cuda::pair_join
