// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "hash_join/block_table.cuh"
#include "hash_join/join_memory.hpp"
#include "hash_join/join_pass.hpp"
#include "hash_join/join_policy.hpp"
#include "hash_join/join_units.cuh"
#include "hash_join/range_join.cuh"
#include "primitive/bulk_copy.cuh"
#include "primitive/warp.cuh"

// Joins co-partitions in shared memory: a block takes a unit (a partition, or a part of an uneven one), brings the
// build rows and puts them into a hash table, then its warps look probe rows up and write matches. Whole rows are in
// shared memory, probe rows in registers, so that payloads are never gathered from global memory. Bytes: both sides'
// rows read once, matches written once; H200, 2^27 x 2^27 rows of 12 bytes with as many matches of 20 bytes: 5.9 GB,
// 1.48 ms at the copy rate. Units with unique build keys and units with repeated ones have a table and a probe loop
// each: the former need no more than one match per probe row, and every instruction counts there.
namespace spillway::cuda { inline namespace hash_join {

template <int kKeyWords, int kProbeWords, MatchUse kUse>
class CoPartitionJoin : RangeJoin<kKeyWords, kProbeWords, kUse> {
    using Base = RangeJoin<kKeyWords, kProbeWords, kUse>;
    using Base::pass_;
    using Base::rows_;
    using Base::table_;
    using Base::unit_;
    using typename Base::Key;
    using typename Base::Probe;
    using typename Base::Table;
    using typename Base::Workers;
    static constexpr int kRows = Probe::kRows;

  public:
    struct Shared {
        BulkLoad load;
        JoinUnit units[2];  // this one, and the next
        typename Base::RangeShared ranges;
    };

    __device__ CoPartitionJoin(const JoinPass& pass, uint32_t* memory, Shared& shared)
        : Base(pass, memory, shared.ranges), shared_(shared), fetches_(warp_index() == kJoinWarps) {}

    __device__ void run() {
        if (threadIdx.x == 0) shared_.load.init();
        if (fetches_) fetch_unit(pass_, shared_.units[0]);
        for (uint32_t turn = 0;; turn ^= 1) {
            fence_shared_for_bulk();
            __syncthreads();  // the unit before is done, and the next one known
            unit_ = shared_.units[turn];
            if (unit_.probe_count == 0) break;
            if (fetches_) {
                fetch_unit(pass_, shared_.units[turn ^ 1]);
            } else {
                join_unit();
            }
        }
        if (!fetches_) this->finish();
    }

  private:
    // While copies to shared memory are under way, the first probe rows come and the buckets are cleared.
    __device__ void join_unit() {
        start_build_rows();
        rows_ = Probe(pass_.probe, unit_.probe_first, unit_.probe_count);
        rows_.load(warp_index());
        // Small partitions need few buckets, and time to clear no more than those.
        const uint32_t buckets = min(pass_.buckets, unit_.build_count / 8 * 20 + kBucketsMin);
        table_.buckets = min(buckets, pass_.chain_buckets);
        if (!repeated_) {
            clear_buckets();
            wait_for_build_rows();
            if (build()) {
                probe();
                return;
            }
            // Chains have taken the place of the keys. This happens once where all units are alike.
            fence_shared_for_bulk();
            Workers::wait();
            start_build_rows();
        }
        const auto ranges = this->ranges(buckets);
        ranges.clear(&shared_.ranges.taken);
        wait_for_build_rows();
        repeated_ = this->build_ranges(ranges);
        this->probe_ranges(ranges, rounds());
    }

    __device__ void start_build_rows() {
        if constexpr (kBulkCopies) {
            if (threadIdx.x == 0)
                shared_.load.start(table_.rows, build_rows_of(pass_, unit_), build_bytes_of(pass_, unit_));
        } else {
            const uint32_t words = unit_.build_count * pass_.build.row_words;
            const uint32_t* const from = build_rows_of(pass_, unit_);
            for (uint32_t w = threadIdx.x; w < words; w += kJoinThreads) table_.rows[w] = from[w];
        }
    }
    __device__ void wait_for_build_rows() {
        Workers::wait();
        if constexpr (kBulkCopies) shared_.load.wait(phase_);
    }

    __device__ void clear_buckets() {
        for (uint32_t b = threadIdx.x * 4; b < table_.buckets; b += kJoinThreads * 4) {
            constexpr uint32_t kNone = kEmptyBucket;
            *reinterpret_cast<uint4*>(table_.heads + b) = make_uint4(kNone, kNone, kNone, kNone);
        }
    }

    // Chains of all rows. Are the keys unique, or need no probe row more than one match?
    __device__ bool build() {
        // Rows with others behind them in their chain, the only ones that can repeat a key: a list per warp, where the
        // queue of matches is later.
        auto* const chained = reinterpret_cast<uint16_t*>(this->queue_);
        uint32_t listed = 0;
        for (uint32_t first = threadIdx.x - lane_index(); first < unit_.build_count;
             first += kInsertRows * kJoinThreads) {
#pragma unroll
            for (int r = 0; r < kInsertRows; ++r) {
                const uint32_t number = first + r * kJoinThreads + lane_index();
                const bool behind = number < unit_.build_count && table_.insert(number);
                const uint32_t lanes = __ballot_sync(kFullWarp, behind);
                const uint32_t place = listed + __popc(lanes & lanes_below());
                if (behind && place < kListedRows) chained[place] = static_cast<uint16_t>(number);
                listed += __popc(lanes);
            }
        }
        Workers::wait();
        // Most build sides have each key once: then no match has another behind it. Knowing it saves every probe row
        // the rest of its chain. Lists that are too long are of keys that repeat, or as good as.
        bool equal = listed > kListedRows;
        for (uint32_t l = lane_index(); l < min(listed, kListedRows); l += kWarpThreads) {
            equal |= table_.repeats(chained[l]);
        }
        // Marks of probe rows need but one match.
        return !Workers::any(equal) || (kUse == MatchUse::kMark && pass_.build.marks == nullptr);
    }

    // Rounds of all warps in batches; what is left, less than half of a round, in rows: a round of batches in which
    // most warps have nothing to do would take as long as a full one.
    __device__ uint32_t rounds() const {
        return (unit_.probe_count + kRoundRows / 2) / kRoundRows;
    }

    __device__ void probe() {
        const uint32_t rounds = this->rounds();
        const uint32_t left = rounds * kRoundRows + warp_index() * kWarpThreads;
        if (rounds == 0) rows_.load_one(left + lane_index());
        for (uint32_t round = 0; round < rounds; ++round) {
            const Probe rows = rows_;
            const uint32_t batch = round * kJoinWarps + warp_index();
            if (round + 1 < rounds) {
                rows_.load(batch + kJoinWarps);
            } else {
                rows_.load_one(left + lane_index());
            }
            probe_batch(rows, batch * Probe::kBatchRows);
        }
        for (uint32_t first = left; first < unit_.probe_count; first += kJoinThreads) probe_row(first + lane_index());
        this->write_rest_of_queue();
    }

    // One row per lane, which is in rows_.
    __device__ void probe_row(uint32_t number) {
        uint32_t words[Probe::kWords];
#pragma unroll
        for (int w = 0; w < Probe::kWords; ++w) words[w] = rows_.words[0][w];
        rows_.load_one(number + kJoinThreads);
        const Key key = Table::key_of(words);
        const bool there = number < unit_.probe_count;
        const uint32_t i = there ? table_.find(table_.head_of(key), key) : kNoBuildRow;
        __syncwarp();
        this->use(words, number, i);
        this->write_full_queue();
    }

    // All rows of a thread side by side.
    __device__ void probe_batch(const Probe& rows, uint32_t first) {
        Key keys[kRows];
        bool there[kRows];
        uint32_t found[kRows];
#pragma unroll
        for (int u = 0; u < kRows; ++u) {
            keys[u] = Table::key_of(rows.words[u]);
            there[u] = first + Probe::number(u) < unit_.probe_count;
        }
        table_.find(keys, there, found);
        __syncwarp();
#pragma unroll
        for (int u = 0; u < kRows; ++u) this->use(rows.words[u], first + Probe::number(u), found[u]);
        this->write_full_queue();
    }

    static constexpr uint32_t kRoundRows = kJoinWarps * Probe::kBatchRows;
    Shared& shared_;
    const bool fetches_;     // this warp looks for the next unit, and does nothing else
    bool repeated_ = false;  // keys repeated in the unit before: most likely they do in this one
    uint32_t phase_ = 0;
};

template <int kKeyWords, int kProbeWords, MatchUse kUse>
__global__ void __launch_bounds__(kJoinThreads + kWarpThreads, 1)
    co_partition_join_kernel(const __grid_constant__ JoinPass pass) {
    extern __shared__ __align__(128) uint32_t memory[];
    using Join = CoPartitionJoin<kKeyWords, kProbeWords, kUse>;
    __shared__ typename Join::Shared shared;
    Join(pass, memory, shared).run();
}

}}  // namespace spillway::cuda::hash_join
