// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "hash_join/block_table.cuh"
#include "hash_join/join_memory.hpp"
#include "hash_join/join_pass.hpp"
#include "hash_join/join_policy.hpp"
#include "hash_join/join_units.cuh"
#include "hash_join/probe_rows.cuh"
#include "primitive/mix.cuh"
#include "primitive/warp.cuh"

// What a warp of the join of co-partitions does with matches, however they were found. A write takes as many
// instructions for one match as for 32: few matches wait in a queue in shared memory until there are enough.
namespace spillway::cuda { inline namespace hash_join {

// What a thread has added up over its matches (SumTargets), in registers.
template <int kKeyWords>
class MatchSums {
  public:
    // words: of the probe row, the mixed key first.
    template <int kWords>
    __device__ void add(const SumTargets& to, const uint32_t (&words)[kWords], const uint32_t* build_row) {
        if constexpr (kWords == 2 * kKeyWords) {
            add(to.keys ? unmixed(words) : 0, number(build_row + kKeyWords), number(words + kKeyWords));
        }
    }
    // A match by its key, if that is wanted, and the payloads.
    __device__ void add(uint64_t key, uint64_t build, uint64_t probe) {
        totals_[kMatchTotal] += 1;
        totals_[kKeyTotal] += key;
        totals_[kBuildTotal] += build;
        totals_[kProbeTotal] += probe;
    }

    // By all lanes of a warp, once.
    __device__ void finish(const SumTargets& to) const {
#pragma unroll
        for (uint32_t t = 0; t < kSumTotals; ++t) {
            uint64_t sum = totals_[t];
#pragma unroll
            for (uint32_t distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(kFullWarp, sum, distance);
            if (lane_index() == 0 && sum != 0) atomicAdd(to.totals + t, static_cast<unsigned long long>(sum));
        }
    }

  private:
    __device__ static uint64_t number(const uint32_t* from) {
        return kKeyWords == 1 ? from[0] : from[0] | static_cast<uint64_t>(from[kKeyWords - 1]) << 32;
    }
    template <int kWords>
    __device__ static uint64_t unmixed(const uint32_t (&words)[kWords]) {
        return MixedKey<kKeyWords>::unmix(static_cast<typename MixedKey<kKeyWords>::Key>(number(words)));
    }

    uint64_t totals_[kSumTotals] = {};
};

template <int kKeyWords, int kProbeWords, MatchUse kUse>
class JoinWarp {
  protected:
    using Table = BlockTable<kKeyWords>;
    using Key = typename Table::Key;
    using Probe = ProbeRows<kKeyWords, kProbeWords>;
    static constexpr bool kLists = kUse == MatchUse::kList;
    static constexpr bool kWrites = kUse == MatchUse::kWrite || kLists;

    __device__ JoinWarp(const JoinPass& pass, uint32_t* memory)
        : pass_(pass),
          table_(lay_out(pass, memory)),
          queue_(reinterpret_cast<QueuedPair*>(table_.heads + pass.buckets) +
                 min(warp_index(), kJoinWarps - 1) * kQueueRows),
          places_(pass.output.out),
          wanted_(pass.output.wanted) {}

    // A match of probe row `number` with build row i in each lane that has one.
    __device__ void use(const uint32_t (&words)[Probe::kWords], uint32_t number, uint32_t i) {
        const bool match = i != kNoBuildRow;
        if constexpr (kUse == MatchUse::kSum) {
            if (match) sums_.add(pass_.sums, words, table_.row(i));
            return;
        }
        if ((wanted_ & kMarksWanted) != 0 && match) {
            if (pass_.probe.marks != nullptr) pass_.probe.marks[unit_.probe_first + number] = 1;
            if (pass_.build.marks != nullptr) pass_.build.marks[unit_.build_first + i] = 1;
        }
        if (kUse == MatchUse::kMark) return;
        const uint32_t lanes = __ballot_sync(kFullWarp, match);
        if constexpr (!kWrites) {
            count_ += __popc(lanes);
        } else if (__popc(lanes) >= kDirectLanesMin) {
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

    // Nobody wants to know more of matches than how many there are.
    __device__ bool counts_alone() const { return kUse == MatchUse::kCount && (wanted_ & kMarksWanted) == 0; }
    // Matches of one lane.
    __device__ void count_more(uint32_t matches) { lane_count_ += matches; }

    __device__ void write_full_queue() {
        if constexpr (kWrites) {
            while (queued_ >= kWarpThreads) write_queued(kWarpThreads);
        }
    }
    __device__ void write_rest_of_queue() {
        if (kWrites && queued_ > 0) write_queued(queued_);
        __syncwarp();
    }

    // When there are no more units.
    __device__ void finish() {
        if constexpr (kWrites) {
            places_.finish();
        } else if constexpr (kUse == MatchUse::kSum) {
            sums_.finish(pass_.sums);
        } else if (kUse == MatchUse::kCount) {
            uint64_t all = lane_count_;
            for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
                all += __shfl_xor_sync(kFullWarp, all, distance);
            }
            all += count_;
            if (lane_index() == 0 && all > 0) {
                atomicAdd(pass_.output.out.matches, static_cast<unsigned long long>(all));
            }
        }
    }

    const JoinPass& pass_;
    Table table_;
    QueuedPair* const queue_;
    JoinUnit unit_;
    Probe rows_;  // that come next

  private:
    __device__ static Table lay_out(const JoinPass& pass, uint32_t* memory) {
        const bool holds_keys = chains_hold_keys(kKeyWords, pass.radix_bits);
        uint32_t* const heads = memory + pass.build_capacity * pass.build.row_words;
        uint32_t* const behind = heads + pass.buckets + kJoinWarps * kQueueRows;
        return {memory, pass.build.row_words, pass.radix_bits, holds_keys, heads, pass.buckets, behind};
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

    OutputPlaces places_;
    const uint32_t wanted_;
    uint32_t queued_ = 0;
    uint64_t count_ = 0;         // of the warp
    uint64_t lane_count_ = 0;    // of this lane, beside those
    MatchSums<kKeyWords> sums_;  // of the thread
};

}}  // namespace spillway::cuda::hash_join
