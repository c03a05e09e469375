// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "hash_join/join_policy.hpp"
#include "materialize/match_output.cuh"
#include "primitive/bulk_copy.cuh"
#include "primitive/mix.cuh"
#include "primitive/warp.cuh"

// Joins co-partitions in shared memory: a block takes a unit (a partition, or a part of an uneven one), brings the
// build rows and chains them in a hash table, then its warps look probe rows up and write matches. The bucket chaining
// of Sioulas et al. (ICDE 2019), with whole rows in shared memory, so that payloads are never gathered from global
// memory. Bytes: both sides' rows read once, matches written once. H200, 2^27 x 2^27 rows of 12 bytes with as many
// matches of 20 bytes: 5.9 GB in 2.9 ms, 2.0 TB/s: instructions and chains are the limit, not memory (counting alone
// takes 1.75 ms for 3.2 GB).
namespace spillway::cuda {

struct JoinSide {
    const uint32_t* rows = nullptr;
    const uint64_t* begin = nullptr;  // [partitions]
    const uint64_t* end = nullptr;
    uint32_t row_words = 1;
};

struct JoinPass {
    JoinSide build;
    JoinSide probe;
    uint64_t partitions = 1;
    const uint64_t* first_unit = nullptr;  // [partitions + 1]
    unsigned long long* next_unit = nullptr;
    uint32_t build_capacity = 0;  // rows that a block holds, a multiple of kRegionAlignRows
    uint32_t bucket_shift = 0;    // of the bucket in the top word of the mixed key, below the radix bits
    uint32_t buckets = 1;         // a power of two
    MatchOutput out;
};

__host__ __device__ inline uint64_t join_units(uint64_t build_rows, uint64_t probe_rows, uint32_t build_capacity) {
    return (build_rows + build_capacity - 1) / build_capacity * ((probe_rows + kProbeUnitRows - 1) / kProbeUnitRows);
}

constexpr uint16_t kNoRow = 0xffff;
constexpr uint32_t kQueueRows = 2 * kWarpThreads;

// Shared memory of a block behind the build rows.
struct JoinTable {
    uint32_t* rows;
    uint32_t* heads;        // [buckets]
    uint32_t* queue_probe;  // [warps][kQueueRows] matches that wait until there are 32: probe row of the unit
    uint16_t* queue_build;  // ... build row of the block
    uint16_t* next;         // [build_capacity]

    static uint64_t fixed_bytes(uint32_t buckets) {
        return buckets * 4ULL + kJoinThreads / kWarpThreads * kQueueRows * 6;
    }
    static uint64_t bytes(uint64_t build_capacity, uint32_t row_words, uint32_t buckets) {
        return build_capacity * (row_words * 4ULL + 2) + fixed_bytes(buckets);
    }
    __device__ JoinTable(uint32_t* memory, uint32_t build_capacity, uint32_t row_words, uint32_t buckets)
        : rows(memory),
          heads(rows + build_capacity * row_words),
          queue_probe(heads + buckets),
          queue_build(reinterpret_cast<uint16_t*>(queue_probe + kJoinThreads / kWarpThreads * kQueueRows)),
          next(queue_build + kJoinThreads / kWarpThreads * kQueueRows) {}
};

template <int kKeyWords, bool kCountOnly>
class CoPartitionJoin {
    using Key = typename MixedKey<kKeyWords>::Key;

  public:
    // Rows that a block joins at a time.
    struct Unit {
        const uint32_t* build;
        const uint32_t* probe;
        uint32_t build_count;
        uint32_t probe_count;  // 0: there is no unit left
    };
    struct Shared {
        BulkLoad load;
        Unit units[2];  // this one, and the next
    };

    __device__ CoPartitionJoin(const JoinPass& pass, uint32_t* memory, Shared& shared)
        : pass_(pass),
          shared_(shared),
          table_(memory, pass.build_capacity, pass.build.row_words, pass.buckets),
          queue_probe_(table_.queue_probe + warp_index() * kQueueRows),
          queue_build_(table_.queue_build + warp_index() * kQueueRows),
          writer_(pass.out),
          fetches_(warp_index() == kJoinThreads / kWarpThreads - 1) {}

    __device__ void run() {
        if (threadIdx.x == 0) shared_.load.init();
        if (fetches_) fetch_unit(shared_.units[0]);
        for (uint32_t turn = 0;; turn ^= 1) {
            __syncthreads();
            unit_ = shared_.units[turn];
            if (unit_.probe_count == 0) break;
            for (uint32_t b = threadIdx.x; b < pass_.buckets; b += kJoinThreads) table_.heads[b] = kNoRow;
            fence_shared_for_bulk();
            __syncthreads();
            build(shared_.units[turn ^ 1]);
            probe();
        }
        if (kCountOnly) {
            if (lane_index() == 0 && count_ > 0) atomicAdd(pass_.out.matches, static_cast<unsigned long long>(count_));
        } else {
            writer_.finish();
        }
    }

  private:
    // By one warp, while the others work: the search takes three loads from global memory one after the other, and the
    // divisions a hundred instructions each.
    __device__ void fetch_unit(Unit& unit) {
        unsigned long long number = 0;
        if (lane_index() == 0) number = atomicAdd(pass_.next_unit, 1ULL);
        number = __shfl_sync(kFullWarp, number, 0);
        if (number >= pass_.first_unit[pass_.partitions]) {
            if (lane_index() == 0) unit.probe_count = 0;
            return;
        }
        const uint64_t p = warp_last_not_above(pass_.first_unit, pass_.partitions, static_cast<uint64_t>(number));
        if (lane_index() != 0) return;
        const uint64_t build_rows = pass_.build.end[p] - pass_.build.begin[p];
        const uint64_t capacity = pass_.build_capacity;
        const uint64_t parts = (build_rows + capacity - 1) / capacity;
        const uint64_t within = number - pass_.first_unit[p];
        const uint64_t build_at = within % parts * capacity;
        const uint64_t probe_at = within / parts * kProbeUnitRows;
        const uint64_t probe_rows = pass_.probe.end[p] - pass_.probe.begin[p];
        unit.build_count = static_cast<uint32_t>(min(build_rows - build_at, capacity));
        unit.probe_count = static_cast<uint32_t>(min(probe_rows - probe_at, static_cast<uint64_t>(kProbeUnitRows)));
        unit.build = pass_.build.rows + (pass_.build.begin[p] + build_at) * pass_.build.row_words;
        unit.probe = pass_.probe.rows + (pass_.probe.begin[p] + probe_at) * pass_.probe.row_words;
    }

    __device__ uint32_t bucket(Key key) const {
        return radix_digit(static_cast<uint32_t>(key >> (32 * (kKeyWords - 1))), pass_.bucket_shift, pass_.buckets - 1);
    }
    __device__ static Key key_of(const uint32_t* row) {
        if constexpr (kKeyWords == 1) {
            return row[0];
        } else {
            return row[0] | static_cast<Key>(row[1]) << 32;
        }
    }
    __device__ const uint32_t* build_row(uint32_t i) const { return table_.rows + i * pass_.build.row_words; }
    __device__ const uint32_t* probe_row(uint32_t i) const {
        return unit_.probe + static_cast<uint64_t>(i) * pass_.probe.row_words;
    }

    __device__ void load_build_rows(Unit& next) {
        const uint32_t words = unit_.build_count * pass_.build.row_words;
        if constexpr (kBulkCopies) {
            // Rounded up into the padding behind the partition.
            if (threadIdx.x == 0) shared_.load.start(table_.rows, unit_.build, (words * 4 + 15) & ~15U);
            load_probe_keys(0);
            if (fetches_) fetch_unit(next);
            shared_.load.wait(phase_);
        } else {
            for (uint32_t w = threadIdx.x; w < words; w += kJoinThreads) table_.rows[w] = unit_.build[w];
            load_probe_keys(0);
            if (fetches_) fetch_unit(next);
            __syncthreads();
        }
    }

    __device__ void build(Unit& next) {
        load_build_rows(next);
        for (uint32_t i = threadIdx.x; i < unit_.build_count; i += kJoinThreads) {
            table_.next[i] = static_cast<uint16_t>(atomicExch(&table_.heads[bucket(key_of(build_row(i)))], i));
        }
        __syncthreads();
        // Most build sides have each key once. Knowing it saves every probe row the rest of its chain, for as many
        // steps as there are build rows.
        bool equal = false;
        for (uint32_t i = threadIdx.x; i < unit_.build_count; i += kJoinThreads) {
            equal |= find(key_of(build_row(i)), table_.next[i]) != kNoRow;
        }
        unique_ = __syncthreads_or(equal) == 0;
    }

    // Warps take turns, 32 rows each, so that all but the last batch of a unit are full.
    __device__ uint32_t row_of(uint32_t round, int u) const {
        return (round * kProbeUnroll + u) * kJoinThreads + threadIdx.x;
    }
    __device__ void load_probe_keys(uint32_t round) {
#pragma unroll
        for (int u = 0; u < kProbeUnroll; ++u) {
            const uint32_t row = row_of(round, u);
            if (row < unit_.probe_count) keys_[u] = key_of(probe_row(row));
        }
    }

    __device__ void probe() {
        const uint32_t rounds = (unit_.probe_count + kJoinThreads * kProbeUnroll - 1) / (kJoinThreads * kProbeUnroll);
        for (uint32_t round = 0; round < rounds; ++round) {
            uint32_t first[kProbeUnroll];
#pragma unroll
            for (int u = 0; u < kProbeUnroll; ++u) {
                first[u] = row_of(round, u) < unit_.probe_count ? table_.heads[bucket(keys_[u])] : kNoRow;
            }
#pragma unroll
            for (int u = 0; u < kProbeUnroll; ++u) {
                if (row_of(round, u) - lane_index() < unit_.probe_count) follow(keys_[u], row_of(round, u), first[u]);
            }
            if (round + 1 < rounds) load_probe_keys(round + 1);
        }
        if (!kCountOnly && queued_ > 0) write_queued(queued_);
        __syncwarp();
    }

    // The next row of the chain with that key, from row i on.
    __device__ uint32_t find(Key key, uint32_t i) const {
        while (i != kNoRow && key_of(build_row(i)) != key) i = table_.next[i];
        return i;
    }

    // Along the chain of one probe row per lane, to each match of all lanes in turn.
    __device__ void follow(Key key, uint32_t row, uint32_t i) {
        for (;;) {
            i = find(key, i);
            __syncwarp();
            const uint32_t found = __ballot_sync(kFullWarp, i != kNoRow);
            if (found == 0) return;
            if (kCountOnly) {
                count_ += __popc(found);
            } else if (found == kFullWarp && queued_ == 0) {
                writer_.write(kWarpThreads, build_row(i), probe_row(row));
            } else {
                queue(found, row, i);
            }
            if (unique_) return;
            if (i != kNoRow) i = table_.next[i];
        }
    }

    __device__ void queue(uint32_t found, uint32_t row, uint32_t i) {
        if (i != kNoRow) {
            const uint32_t place = queued_ + __popc(found & lanes_below());
            queue_probe_[place] = row;
            queue_build_[place] = static_cast<uint16_t>(i);
        }
        queued_ += __popc(found);
        __syncwarp();
        if (queued_ >= kWarpThreads) write_queued(kWarpThreads);
    }

    __device__ void write_queued(uint32_t count) {
        const bool mine = lane_index() < count;
        const uint32_t row = mine ? queue_probe_[lane_index()] : 0;
        const uint32_t i = mine ? queue_build_[lane_index()] : 0;
        writer_.write(count, build_row(i), probe_row(row));
        queued_ -= count;
        const bool stays = lane_index() < queued_;
        const uint32_t later_row = stays ? queue_probe_[count + lane_index()] : 0;
        const uint16_t later_i = stays ? queue_build_[count + lane_index()] : 0;
        __syncwarp();
        if (stays) {
            queue_probe_[lane_index()] = later_row;
            queue_build_[lane_index()] = later_i;
        }
        __syncwarp();
    }

    const JoinPass& pass_;
    Shared& shared_;
    const JoinTable table_;
    uint32_t* const queue_probe_;
    uint16_t* const queue_build_;
    MatchWriter<kKeyWords> writer_;
    const bool fetches_;  // this warp looks for the next unit
    Unit unit_;
    uint32_t phase_ = 0;
    uint32_t queued_ = 0;
    bool unique_ = false;  // no two build rows of the unit have the same key
    uint64_t count_ = 0;
    Key keys_[kProbeUnroll];
};

template <int kKeyWords, bool kCountOnly>
__global__ void __launch_bounds__(kJoinThreads, 1) co_partition_join_kernel(const __grid_constant__ JoinPass pass) {
    extern __shared__ __align__(128) uint32_t memory[];
    using Join = CoPartitionJoin<kKeyWords, kCountOnly>;
    __shared__ typename Join::Shared shared;
    Join(pass, memory, shared).run();
}

}  // namespace spillway::cuda
