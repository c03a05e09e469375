// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "hash_join/block_table.cuh"
#include "hash_join/join_memory.hpp"
#include "hash_join/join_pass.hpp"
#include "hash_join/join_policy.hpp"
#include "hash_join/join_units.cuh"
#include "hash_join/probe_rows.cuh"
#include "primitive/block_part.cuh"
#include "primitive/bulk_copy.cuh"
#include "primitive/warp.cuh"

// Joins co-partitions in shared memory: a block takes a unit (a partition, or a part of an uneven one), brings the
// build rows and puts them into a hash table, then its warps look probe rows up and write matches. Whole rows are in
// shared memory, probe rows in registers, so that payloads are never gathered from global memory. Bytes: both sides'
// rows read once, matches written once; H200, 2^27 x 2^27 rows of 12 bytes with as many matches of 20 bytes: 5.9 GB,
// 1.48 ms at the copy rate.
namespace spillway::cuda {

template <int kKeyWords, int kProbeWords, MatchUse kUse>
class CoPartitionJoin {
    using Table = BlockTable<kKeyWords>;
    using Key = typename Table::Key;
    using Probe = ProbeRows<kKeyWords, kProbeWords>;
    using Workers = BlockPart<kJoinThreads>;  // all warps but the one that fetches units
    static constexpr int kRows = Probe::kRows;
    static constexpr bool kWrites = kUse == MatchUse::kWrite;

  public:
    struct Shared {
        BulkLoad load;
        JoinUnit units[2];  // this one, and the next
    };

    __device__ CoPartitionJoin(const JoinPass& pass, uint32_t* memory, Shared& shared)
        : pass_(pass),
          shared_(shared),
          table_(lay_out(pass, memory)),
          queue_(reinterpret_cast<QueuedPair*>(table_.heads + pass.buckets) +
                 min(warp_index(), kJoinWarps - 1) * kQueueRows),
          places_(pass.output.out),
          wanted_(pass.output.wanted),
          fetches_(warp_index() == kJoinWarps) {}

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
                load_build_rows();
                build();
                probe();
            }
        }
        if (fetches_) return;
        if constexpr (kWrites) {
            places_.finish();
        } else if (kUse == MatchUse::kCount) {
            if (lane_index() == 0 && count_ > 0) {
                atomicAdd(pass_.output.out.matches, static_cast<unsigned long long>(count_));
            }
        }
    }

  private:
    __device__ static Table lay_out(const JoinPass& pass, uint32_t* memory) {
        const bool holds_keys = chains_hold_keys(kKeyWords, pass.radix_bits);
        uint32_t* const heads = memory + pass.build_capacity * pass.build.row_words;
        uint32_t* const behind = heads + pass.buckets + kJoinWarps * kQueueRows;
        return {memory, pass.build.row_words, pass.radix_bits, holds_keys, heads, pass.buckets, behind};
    }

    // Starts or makes the copy to shared memory; meanwhile the first probe rows come and the buckets are cleared.
    __device__ void load_build_rows() {
        if constexpr (kBulkCopies) {
            if (threadIdx.x == 0)
                shared_.load.start(table_.rows, build_rows_of(pass_, unit_), build_bytes_of(pass_, unit_));
        } else {
            const uint32_t words = unit_.build_count * pass_.build.row_words;
            const uint32_t* const from = build_rows_of(pass_, unit_);
            for (uint32_t w = threadIdx.x; w < words; w += kJoinThreads) table_.rows[w] = from[w];
        }
        rows_ = Probe(pass_.probe, unit_.probe_first, unit_.probe_count);
        rows_.load(warp_index());
        // Small partitions need few buckets, and time to clear no more than those.
        table_.buckets = min(pass_.buckets, unit_.build_count / 8 * 20 + 16);
        for (uint32_t b = threadIdx.x * 4; b < table_.buckets; b += kJoinThreads * 4) {
            constexpr uint32_t kNone = kEmptyBucket;
            *reinterpret_cast<uint4*>(table_.heads + b) = make_uint4(kNone, kNone, kNone, kNone);
        }
        Workers::wait();
        if constexpr (kBulkCopies) shared_.load.wait(phase_);
    }

    __device__ void build() {
        // Rows with others behind them in their chain, the only ones that can repeat a key: a list per warp, where the
        // queue of matches is later.
        auto* const chained = reinterpret_cast<uint16_t*>(queue_);
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
        unique_ = !Workers::any(equal) || (kUse == MatchUse::kMark && pass_.build.marks == nullptr);
    }

    __device__ void probe() {
        // Rounds of all warps in batches; what is left, less than half of a round, in rows: a round of batches in which
        // most warps have nothing to do would take as long as a full one.
        constexpr uint32_t kRoundRows = kJoinWarps * Probe::kBatchRows;
        const uint32_t rounds = (unit_.probe_count + kRoundRows / 2) / kRoundRows;
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
        if (kWrites && queued_ > 0) write_queued(queued_);
        __syncwarp();
    }

    // One row per lane, which is in rows_.
    __device__ void probe_row(uint32_t number) {
        uint32_t words[Probe::kWords];
#pragma unroll
        for (int w = 0; w < Probe::kWords; ++w) words[w] = rows_.words[0][w];
        rows_.load_one(number + kJoinThreads);
        const Key key = Table::key_of(words);
        const uint32_t bits = table_.distinct_bits(key);
        const bool there = number < unit_.probe_count;
        const uint32_t i = there ? table_.find(table_.head_of(bits), key, bits) : kNoBuildRow;
        __syncwarp();
        follow_list(words, number, i);
    }

    // All rows of a thread side by side: first matches, then second ones, and so on.
    __device__ void probe_batch(const Probe& rows, uint32_t first) {
        uint32_t found[kRows];
        look_up(rows, first, found);
        for (;;) {
#pragma unroll
            for (int u = 0; u < kRows; ++u) use(rows.words[u], first + Probe::number(u), found[u]);
            write_full_queue();
            if (unique_) return;
            bool more = false;
#pragma unroll
            for (int u = 0; u < kRows; ++u) {
                const Key key = Table::key_of(rows.words[u]);
                if (found[u] != kNoBuildRow) {
                    found[u] = table_.find_behind(found[u], key, table_.distinct_bits(key));
                }
                more |= found[u] != kNoBuildRow;
            }
            if (!__any_sync(kFullWarp, more)) return;
        }
    }

    __device__ void look_up(const Probe& rows, uint32_t first, uint32_t (&found)[kRows]) const {
        Key keys[kRows];
        bool there[kRows];
#pragma unroll
        for (int u = 0; u < kRows; ++u) {
            keys[u] = Table::key_of(rows.words[u]);
            there[u] = first + Probe::number(u) < unit_.probe_count;
        }
        table_.find(keys, there, found);
        __syncwarp();
    }

    // To each match of all lanes in turn, i the first.
    __device__ void follow_list(const uint32_t (&words)[Probe::kWords], uint32_t number, uint32_t i) {
        const Key key = Table::key_of(words);
        while (__any_sync(kFullWarp, i != kNoBuildRow)) {
            use(words, number, i);
            write_full_queue();
            const bool last = unique_ || i == kNoBuildRow;
            i = last ? kNoBuildRow : table_.find_behind(i, key, table_.distinct_bits(key));
            __syncwarp();
        }
    }

    // A match of probe row `number` with build row i in each lane that has one.
    __device__ void use(const uint32_t (&words)[Probe::kWords], uint32_t number, uint32_t i) {
        const bool match = i != kNoBuildRow;
        if ((wanted_ & kMarksWanted) != 0 && match) {
            if (pass_.probe.marks != nullptr) pass_.probe.marks[unit_.probe_first + number] = 1;
            if (pass_.build.marks != nullptr) pass_.build.marks[unit_.build_first + i] = 1;
        }
        if (kUse == MatchUse::kMark) return;
        const uint32_t lanes = __ballot_sync(kFullWarp, match);
        if constexpr (!kWrites) {
            count_ += __popc(lanes);
        } else if (__popc(lanes) >= (unique_ ? kDirectLanesMin : kDirectLanesMinRepeated)) {
            write(lanes, words, i);
        } else if (lanes != 0) {
            if (match) {
                queue_[queued_ + __popc(lanes & lanes_below())] = {static_cast<uint16_t>(number),
                                                                   static_cast<uint16_t>(i)};
            }
            queued_ += __popc(lanes);
            __syncwarp();
        }
    }

    __device__ void write(uint32_t lanes, const uint32_t (&words)[Probe::kWords], uint32_t i) {
        const uint32_t* const build_row = table_.row(i);
        places_.give(lanes, [&](uint64_t place) {
            const PackedOutput& output = pass_.output;
            if ((wanted_ & kKeyWanted) != 0) {
                write_packed_key<kKeyWords>(output.out, place, words[0], words[kKeyWords - 1]);
            }
            if ((wanted_ & kPresenceWanted) != 0) {
                output.out.presence[place] = kBuildPresent | kProbePresent | kKeyPresent;
            }
            write_packed_side<0, kKeyWords, kRowWordsMax>(output, wanted_, place, [&](int w) { return build_row[w]; });
            write_packed_side<1, kKeyWords, Probe::kWords>(output, wanted_, place, [&](int w) { return words[w]; });
        });
    }

    __device__ void write_full_queue() {
        if constexpr (kWrites) {
            while (queued_ >= kWarpThreads) write_queued(kWarpThreads);
        }
    }

    // The last `count` matches of the queue.
    __device__ void write_queued(uint32_t count) {
        queued_ -= count;
        const bool mine = lane_index() < count;
        const QueuedPair pair = mine ? queue_[queued_ + lane_index()] : QueuedPair{0, 0};
        uint32_t words[Probe::kWords];
        rows_.load_row(pair.probe, words);
        write(count == kWarpThreads ? kFullWarp : (1U << count) - 1, words, pair.build);
        __syncwarp();
    }

    const JoinPass& pass_;
    Shared& shared_;
    Table table_;
    QueuedPair* const queue_;
    OutputPlaces places_;
    const uint32_t wanted_;
    const bool fetches_;  // this warp looks for the next unit, and does nothing else
    JoinUnit unit_;
    Probe rows_;  // that come next
    uint32_t phase_ = 0;
    uint32_t queued_ = 0;
    bool unique_ = false;  // a probe row has one match at most, or needs no more
    uint64_t count_ = 0;
};

template <int kKeyWords, int kProbeWords, MatchUse kUse>
__global__ void __launch_bounds__(kJoinThreads + kWarpThreads, 1)
    co_partition_join_kernel(const __grid_constant__ JoinPass pass) {
    extern __shared__ __align__(128) uint32_t memory[];
    using Join = CoPartitionJoin<kKeyWords, kProbeWords, kUse>;
    __shared__ typename Join::Shared shared;
    Join(pass, memory, shared).run();
}

}  // namespace spillway::cuda
