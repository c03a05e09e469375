// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "hash_join/block_ranges.cuh"
#include "hash_join/join_warp.cuh"
#include "primitive/warp.cuh"

// Joins a unit whose build keys repeat. A warp looks up 32 probe rows, sums up how many build rows each can match, and
// then goes over these pairs 32 at a time, a lane each, whichever probe rows they belong to: lanes are idle only where
// a bucket has rows of other keys, and behind the last pair. Lanes that each went through the matches of their own row
// took as many turns as the longest walk of 32.
//
// Instructions, counted in the source: per 32 pairs 15 to find the probe row of each, 8 to bring it from its lane (rows
// of 12 bytes), 22 to look at the build row; per write 60; per 32 probe rows 60 more, per 32 build rows 45. Of 2^26 x
// 2^26 rows of 12 bytes with 2^25 keys, two partners and half a stranger per probe row, 32 probe rows take 3.0 turns
// and 2.6 writes: 400 instructions, in all 2.1 ms at the pace of unique keys (210 in 2.27 ms for twice the rows); with
// 2^23 keys 9 turns and 8.6 writes, 1,030 instructions, 5.5 ms. H200: 2.51 and 5.97 ms; walks along chains took 3.95
// and 8.94.
namespace spillway::cuda { inline namespace hash_join {

template <int kKeyWords, int kProbeWords, MatchUse kUse>
class RangeJoin : protected JoinWarp<kKeyWords, kProbeWords, kUse> {
    using Base = JoinWarp<kKeyWords, kProbeWords, kUse>;
    using Ranges = BlockRanges<kKeyWords>;
    static constexpr int kRows = Base::Probe::kRows;
    static constexpr uint32_t kLaneStep = Base::Probe::kWhole ? kRows : 1;  // from a lane's row to the next lane's

    static constexpr unsigned long long kNotListed = ~0ULL;

  public:
    struct RangeShared {
        uint32_t taken;               // places of build rows in ranges
        uint32_t many;                // are there ranges of many rows?
        unsigned long long words_at;  // of the unit in the list of long matches, or kNotListed
    };

  protected:
    using typename Base::Key;
    using typename Base::Probe;
    using Workers = BlockPart<kJoinThreads>;  // all warps but the one that fetches units
    using Base::pass_;
    using Base::rows_;
    using Base::table_;
    using Base::unit_;

    __device__ RangeJoin(const JoinPass& pass, uint32_t* memory, RangeShared& shared)
        : Base(pass, memory), range_shared_(shared) {}

    __device__ Ranges ranges(uint32_t words) const { return Ranges(table_, words, unit_.build_count); }

    // Fills ranges that were cleared, and for who only counts or marks matches marks those of several keys. Returns
    // whether keys repeat, by a look at one row of each thread only: where they repeat and this does not see it, the
    // next units will soon tell.
    __device__ bool build_ranges(const Ranges& ranges) {
        if (Base::kLists && threadIdx.x == 0) {
            range_shared_.many = 0;
            range_shared_.words_at = kNotListed;
        }
        ranges.count(unit_.build_count);
        Workers::wait();
        const bool many = ranges.take_places(&range_shared_.taken, Base::kLists ? pass_.long_matches.rows_min : ~0U);
        if (Base::kLists && many) range_shared_.many = 1;
        Workers::wait();
        ranges.place(unit_.build_count);
        Workers::wait();
        const bool wants_mixed = this->counts_alone() || kUse == MatchUse::kMark;
        const uint32_t others = wants_mixed ? ranges.rows_of_others(unit_.build_count) : 0;
        const bool repeats = Workers::any(threadIdx.x < unit_.build_count && ranges.repeats(threadIdx.x));
        if (wants_mixed) {
            ranges.mark_mixed(others);
            Workers::wait();
        }
        if (Base::kLists && range_shared_.many != 0) list_rows(ranges);
        return repeats;
    }

    // `rounds` rounds of batches of all warps, whose first is in rows_, then a row per lane. Rows that are too few for
    // all lanes are shared out among all warps: each may have thousands of matches.
    __device__ void probe_ranges(const Ranges& ranges, uint32_t rounds) {
        const uint32_t done = rounds * kJoinWarps * Probe::kBatchRows;
        const uint32_t left = unit_.probe_count > done ? unit_.probe_count - done : 0;
        const uint32_t turns = (left + kJoinThreads - 1) / kJoinThreads;
        const uint32_t lanes = turns == 0 ? 0 : (left + turns * kJoinWarps - 1) / (turns * kJoinWarps);
        const auto first_of = [&](uint32_t turn) { return done + (turn * kJoinWarps + warp_index()) * lanes; };
        if (rounds == 0 && lane_index() < lanes) rows_.load_one(first_of(0) + lane_index());
        for (uint32_t round = 0; round < rounds + turns; ++round) {
            const bool batch = round < rounds;
            Probe rows = rows_;
            if (round + 1 < rounds) {
                rows_.load((round + 1) * kJoinWarps + warp_index());
            } else if (lane_index() < lanes) {
                rows_.load_one(first_of(round + 1 - rounds) + lane_index());
            }
            const uint32_t first =
                batch ? (round * kJoinWarps + warp_index()) * Probe::kBatchRows : first_of(round - rounds);
            probe_rows(ranges, rows, first, batch ? kWarpThreads : lanes, batch);
        }
        this->write_rest_of_queue();
    }

  private:
    // Brings the columns of the unit's build rows to the list of long matches, if there is room, and marks ranges of
    // several keys. Rows lie in the order of the ranges, so that lanes read neighbouring words.
    __device__ void list_rows(const Ranges& ranges) {
        const LongMatchList& list = pass_.long_matches;
        const uint32_t rows = unit_.build_count;
        const uint32_t columns = pass_.build.row_words - kKeyWords;
        const uint32_t words = (columns + (pass_.build.marks == nullptr ? 0 : 1)) * list_stride();
        const uint32_t others = ranges.rows_of_others(rows);
        if (threadIdx.x == 0) {
            const unsigned long long at = atomicAdd(list.words_taken, static_cast<unsigned long long>(words));
            if (at + words <= list.words_capacity) range_shared_.words_at = at;
        }
        Workers::wait();
        if (range_shared_.words_at == kNotListed) return;
        ranges.mark_mixed(others);
        uint32_t* const to = list.words + range_shared_.words_at;
        for (uint32_t place = threadIdx.x; place < rows; place += kJoinThreads) {
            const uint32_t number = ranges.number(place);
            const uint32_t* const row = table_.row(number) + kKeyWords;
            for (uint32_t w = 0; w < columns; ++w) to[w * list_stride() + place] = row[w];
            if (pass_.build.marks != nullptr) to[columns * list_stride() + place] = number;
        }
        Workers::wait();
    }
    // Words from one word of a listed row to its next, of whole lines.
    __device__ uint32_t list_stride() const {
        return (unit_.build_count + kWarpThreads - 1) / kWarpThreads * kWarpThreads;
    }

    // Are there ranges of many rows among these, or marked ones? Only units with listed rows have marks.
    __device__ bool sees_many(const uint32_t (&found)[kRows]) const {
        if constexpr (!Base::kLists) return false;
        uint32_t most = 0;
#pragma unroll
        for (int u = 0; u < kRows; ++u) most = max(most, found[u] & kRangeCount);
        return __any_sync(kFullWarp, most >= pass_.long_matches.rows_min) != 0;
    }

    // One probe row per lane with its range, of a unit whose rows are listed. Returns the ranges of rows whose pairs
    // are left to be written here.
    __device__ uint32_t list_long(const Ranges& ranges, Key key, uint32_t number, uint32_t range) {
        if (range_shared_.words_at == kNotListed) return range;
        const bool mixed = (range & kMixedRange) != 0;
        range &= ~kMixedRange;
        const uint32_t count = range & kRangeCount;
        const uint32_t place = range >> kRangeCountBits;
        const bool many = !mixed && count >= pass_.long_matches.rows_min && ranges.key_of(ranges.number(place)) == key;
        if (__ballot_sync(kFullWarp, many) == 0) return range;
        return list_pieces(number, place, many ? count : 0) ? 0 : range;
    }
    // Lists `count` build rows from `place` on for the probe row in pieces. Returns whether there was room for a
    // lane's, if it has any.
    __device__ bool list_pieces(uint32_t number, uint32_t place, uint32_t count) {
        const LongMatchList& list = pass_.long_matches;
        const uint32_t pieces = (count + kLongPieceRows - 1) / kLongPieceRows;
        const uint32_t end = warp_inclusive_sum(pieces);
        unsigned long long at = 0;
        if (lane_index() == kWarpThreads - 1) at = atomicAdd(list.matches_taken, static_cast<unsigned long long>(end));
        at = __shfl_sync(kFullWarp, at, kWarpThreads - 1) + end - pieces;
        const bool fits = at + pieces <= list.matches_capacity;
        const uint32_t each = pieces == 0 ? 0 : (count + pieces - 1) / pieces;
        for (uint32_t piece = 0; piece < pieces && at + piece < list.matches_capacity; ++piece) {
            const uint32_t done = piece * each;
            list.matches[at + piece] = {unit_.probe_first + number, unit_.build_first,
                                        range_shared_.words_at + place + done, list_stride(),
                                        fits ? min(each, count - done) : 0};
        }
        __syncwarp();
        return fits && count > 0;
    }

    // Rows from `first` on: the batch, or one for each of some lanes.
    __device__ void probe_rows(const Ranges& ranges, Probe& rows, uint32_t first, uint32_t lanes, bool batch) {
        const uint32_t lane_step = batch ? kLaneStep : 1;
        uint32_t found[kRows];
#pragma unroll
        for (int u = 0; u < kRows; ++u) {
            const uint32_t number = first + lane_index() * lane_step + u * Probe::kNumberStep;
            const bool there = number < unit_.probe_count && (batch || u == 0) && lane_index() < lanes;
            const Key key = Base::Table::key_of(rows.words[u]);
            if constexpr (kUse == MatchUse::kMark) {
                found[u] = there ? take_range(ranges, key, ranges.open_range_of(key)) : 0;
            } else {
                found[u] = there ? ranges.range_of(key) : 0;
            }
            if (this->counts_alone()) found[u] = count_range(ranges, key, found[u]);
        }
        const int turns = batch ? kRows : 1;
        const bool many = sees_many(found);
        // One copy of the code for all rows of a thread: what is next moves to the first place.
#pragma unroll 1
        for (int turn = 0; turn < turns; ++turn) {
            if (many) {
                const uint32_t number = first + turn * Probe::kNumberStep + lane_index() * lane_step;
                found[0] = list_long(ranges, Base::Table::key_of(rows.words[0]), number, found[0]);
            }
            join_pairs(ranges, rows.words[0], first + turn * Probe::kNumberStep, lane_step, found[0]);
#pragma unroll
            for (int u = 0; u + 1 < kRows; ++u) {
                found[u] = found[u + 1];
#pragma unroll
                for (int w = 0; w < Probe::kWords; ++w) rows.words[u][w] = rows.words[u + 1][w];
            }
        }
    }

    // Counts all rows of a range of one key at once, whose number may be far above that of the rows. Returns the range
    // that is left to be looked at pair by pair.
    __device__ uint32_t count_range(const Ranges& ranges, Key key, uint32_t range) {
        if ((range & kMixedRange) != 0) return range & ~kMixedRange;
        const uint32_t count = range & kRangeCount;
        if (count > 0 && ranges.key_of(ranges.number(range >> kRangeCountBits)) == key) this->count_more(count);
        return 0;
    }

    // Build rows need one mark, whichever probe row with their key comes first: the others have nothing to do.
    __device__ uint32_t take_range(const Ranges& ranges, Key key, uint32_t range) {
        if ((range & kMixedRange) != 0) return range & ~kMixedRange;
        if ((range & (kRangeCount & ~kTakenRange)) == 0 || (range & kTakenRange) != 0) return 0;
        return ranges.key_of(ranges.number(range >> kRangeCountBits)) == key && ranges.take(key) ? range : 0;
    }

    // One probe row per lane with its range: rows first + lane * lane_step.
    __device__ void join_pairs(const Ranges& ranges, const uint32_t (&words)[Probe::kWords], uint32_t first,
                               uint32_t lane_step, uint32_t range) {
        const uint32_t count = range & kRangeCount;
        const uint32_t end = warp_inclusive_sum(count);
        const uint32_t begin = end - count;
        const uint32_t pairs = __shfl_sync(kFullWarp, end, kWarpThreads - 1);
        const uint32_t to_place = (range >> kRangeCountBits) - begin;  // from a pair's number; may wrap
        uint32_t owner = 0;
#pragma unroll 1
        for (uint32_t window = 0; window < pairs; window += kWarpThreads) {
            owner = owner_of(count > 0 ? begin - window : kWarpThreads, owner);
            uint32_t its_words[Probe::kWords];
#pragma unroll
            for (int w = 0; w < Probe::kWords; ++w) its_words[w] = __shfl_sync(kFullWarp, words[w], owner);
            const uint32_t pair = window + lane_index();
            const uint32_t place = pair + __shfl_sync(kFullWarp, to_place, owner);
            uint32_t i = kNoBuildRow;
            if (pair < pairs) {
                const uint32_t number = ranges.number(place);
                if (ranges.key_of(number) == Base::Table::key_of(its_words)) i = number;
            }
            __syncwarp();
            this->use(its_words, first + owner * lane_step, i);
            this->write_full_queue();
        }
    }

    // Whose pair a lane has in a window of 32: each row leaves its lane where its first pair is, if that is in the
    // window, and a pair belongs to the last row that begins at or before it, or to the one that the window before
    // ended with. begin: of the lane's row, in the window; not below 32 for rows without pairs and, wrapped, for rows
    // that began before.
    __device__ uint32_t owner_of(uint32_t begin, uint32_t owner_before) {
        constexpr uint32_t kNone = kWarpThreads;
        // Behind the matches that wait, at most 31 and those of one window.
        static_assert(kWarpThreads + kDirectLanesMin + kWarpThreads <= kQueueRows && sizeof(QueuedPair) == 4);
        auto* const begins = reinterpret_cast<uint32_t*>(this->queue_) + kQueueRows - kWarpThreads;
        const uint32_t before = __shfl_sync(kFullWarp, owner_before, kWarpThreads - 1);
        begins[lane_index()] = kNone;
        __syncwarp();
        if (begin < kWarpThreads) begins[begin] = lane_index();
        __syncwarp();
        const uint32_t own = begins[lane_index()];
        const uint32_t begun = __ballot_sync(kFullWarp, own != kNone) & (2 * lanes_below() + 1);
        const uint32_t owner = __shfl_sync(kFullWarp, own, 31 - __clz(begun));
        return begun != 0 ? owner : before;
    }

    RangeShared& range_shared_;
};

}}  // namespace spillway::cuda::hash_join
