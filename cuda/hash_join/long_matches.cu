// SPDX-License-Identifier: Apache-2.0
#include "device/launch.hpp"
#include "hash_join/join_policy.hpp"
#include "hash_join/long_matches.hpp"
#include "hash_join/packed_match.cuh"
#include "primitive/mix.cuh"
#include "primitive/warp.cuh"

namespace spillway::cuda { inline namespace hash_join {

namespace {

// Writes the pairs of one match after the other, of a warp. kBuildWords, kProbeWords: of rows at most, as what a pair
// takes is instructions, and each word that a row might have is some.
template <int kKeyWords, int kBuildWords, int kProbeWords>
class LongMatchWriter {
  public:
    __device__ explicit LongMatchWriter(const JoinPass& pass)
        : pass_(pass), wanted_(pass.output.wanted), places_(pass.output.out) {}

    __device__ void write(const LongMatch& match) {
        match_ = match;
        load_probe_row();
        uint32_t next[kBuildWords] = {};
        load(0, next);
        for (uint32_t done = 0; done < match_.count;) {
            const uint32_t now = min(match_.count - done, places_.rows_to_line());
            uint32_t build[kBuildWords];
#pragma unroll
            for (int w = kKeyWords; w < kBuildWords; ++w) build[w] = next[w];
            if (pass_.build.marks != nullptr) mark(done, now);
            done += now;
            load(done, next);  // while these are written
            places_.give(now == kWarpThreads ? kFullWarp : (1U << now) - 1,
                         [&](uint64_t place) { write_pair(place, build); });
        }
    }
    __device__ void finish() {
        places_.finish();
    }

  private:
    __device__ void load_probe_row() {
        const JoinSide& side = pass_.probe;
        const uint32_t* const from = side.rows + match_.probe_row * side.row_words;
#pragma unroll
        for (int w = 0; w < kProbeWords; ++w) probe_[w] = w < static_cast<int>(side.row_words) ? __ldg(from + w) : 0;
        key_ = probe_[0];
        if (kKeyWords == 2) key_ |= static_cast<uint64_t>(probe_[1]) << 32;
        key_ = MixedKey<kKeyWords>::unmix(static_cast<typename MixedKey<kKeyWords>::Key>(key_));
        if (side.marks != nullptr && lane_index() == 0) side.marks[match_.probe_row] = 1;
    }

    // One build row per lane, from number `first` of the match on.
    __device__ void load(uint32_t first, uint32_t (&words)[kBuildWords]) const {
        if (first + lane_index() >= match_.count) return;
        const uint32_t* const from = pass_.long_matches.words + match_.words + first + lane_index();
#pragma unroll
        for (int w = kKeyWords; w < kBuildWords; ++w) {
            if (w < static_cast<int>(pass_.build.row_words)) words[w] = __ldg(from + (w - kKeyWords) * match_.stride);
        }
    }

    __device__ void mark(uint32_t first, uint32_t count) const {
        if (lane_index() >= count) return;
        const uint32_t numbers = (pass_.build.row_words - kKeyWords) * match_.stride;
        pass_.build
            .marks[match_.build_first + pass_.long_matches.words[match_.words + numbers + first + lane_index()]] = 1;
    }

    __device__ void write_pair(uint64_t place, const uint32_t (&build)[kBuildWords]) const {
        const PackedOutput& output = pass_.output;
        if ((wanted_ & kKeyWanted) != 0) {
            if constexpr (kKeyWords == 1) {
                __stcs(static_cast<uint32_t*>(output.out.key) + place, static_cast<uint32_t>(key_));
            } else {
                __stcs(static_cast<uint2*>(output.out.key) + place,
                       make_uint2(static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)));
            }
        }
        if ((wanted_ & kPresenceWanted) != 0) {
            output.out.presence[place] = kBuildPresent | kProbePresent | kKeyPresent;
        }
        write_packed_side<0, kKeyWords, kBuildWords>(output, wanted_, place, [&](int w) { return build[w]; });
        write_packed_side<1, kKeyWords, kProbeWords>(output, wanted_, place, [&](int w) { return probe_[w]; });
    }

    const JoinPass& pass_;
    const uint32_t wanted_;
    OutputPlaces places_;
    LongMatch match_;
    uint32_t probe_[kProbeWords];
    uint64_t key_ = 0;  // as it was before it was mixed
};

// A warp takes a match after the other. Bytes: those of the result, in whole lines where columns have 4 bytes or more;
// listed words of build rows come from the L2 cache again for every probe row.
template <int kKeyWords, int kBuildWords, int kProbeWords>
__global__ void __launch_bounds__(kLongMatchThreads, kLongMatchBlocks)
    long_matches_kernel(const __grid_constant__ JoinPass pass) {
    const LongMatchList& list = pass.long_matches;
    const uint64_t matches = min(static_cast<uint64_t>(*list.matches_taken), list.matches_capacity);
    LongMatchWriter<kKeyWords, kBuildWords, kProbeWords> writer(pass);
    for (;;) {
        unsigned long long number = 0;
        if (lane_index() == 0) number = atomicAdd(list.next_match, 1ULL);
        number = __shfl_sync(kFullWarp, number, 0);
        if (number >= matches) break;
        writer.write(list.matches[number]);
    }
    writer.finish();
}

template <int kKeyWords>
JoinKernel kernel_for(const JoinPass& pass) {
    constexpr int kFew = kRowWordsMax / 2;
    if (pass.build.row_words <= kFew) {
        return pass.probe.row_words <= kFew ? long_matches_kernel<kKeyWords, kFew, kFew>
                                            : long_matches_kernel<kKeyWords, kFew, kRowWordsMax>;
    }
    return pass.probe.row_words <= kFew ? long_matches_kernel<kKeyWords, kRowWordsMax, kFew>
                                        : long_matches_kernel<kKeyWords, kRowWordsMax, kRowWordsMax>;
}

// Words of a build row that a list has a copy of.
uint32_t listed_words(uint32_t key_words, const JoinPass& pass) {
    return pass.build.row_words - key_words + (pass.build.marks == nullptr ? 0 : 1);
}

uint64_t long_match_blocks(const Device& device) {
    return static_cast<uint64_t>(device.properties().multiprocessors) * kLongMatchBlocks;
}

}  // namespace

bool wants_long_matches(uint64_t build_rows, uint64_t probe_rows, uint64_t pairs, uint32_t key_words,
                        const JoinPass& pass) {
    const bool lists_words = listed_words(key_words, pass) > 0;
    return pairs >= kLongPairsMin && pairs / kLongPairsPerProbeRow >= probe_rows &&
           pairs / (lists_words ? kLongPairsPerBuildRow : kLongPairsPerBareBuildRow) >= build_rows;
}

LongMatchMemory allocate_long_matches(Device& device, uint64_t build_rows, uint64_t pairs, uint32_t key_words,
                                      JoinPass& pass) {
    // A match that is cut in pieces has kLongPieceRows / 2 build rows in each at least.
    static_assert(kLongPieceRows / 2 >= kLongMatchRows);
    const uint64_t capacity = pairs / kLongMatchRows + 1;
    const uint64_t rows = build_rows * kLongListsPerRow + pairs / kLongPairsPerListed;
    const uint64_t words = rows * listed_words(key_words, pass);
    LongMatchMemory memory;
    const uint64_t bytes = capacity * sizeof(LongMatch) + words * sizeof(uint32_t);
    if (bytes > device.memory().free_bytes() / kLongListMemoryPart) return memory;
    try {
        memory.matches = device.memory().allocate(capacity * sizeof(LongMatch), "matches of many rows");
        memory.words = device.memory().allocate(words * sizeof(uint32_t), "build rows of matches of many rows");
    } catch (const Error& error) {
        if (error.code() != ErrorCode::kOutOfMemory) throw;
        return {};
    }
    LongMatchList& list = pass.long_matches;
    list.matches = memory.matches.as<LongMatch>();
    list.matches_capacity = capacity;
    list.words = memory.words.as<uint32_t>();
    list.words_capacity = words;
    list.rows_min = kLongMatchRows;
    return memory;
}

void launch_long_matches(Device& device, uint32_t key_words, const JoinPass& pass) {
    launch(key_words == 1 ? kernel_for<1>(pass) : kernel_for<2>(pass),
           dim3(static_cast<unsigned>(long_match_blocks(device))), dim3(kLongMatchThreads), 0, device.stream(), pass);
}

uint64_t long_match_warps(const Device& device) {
    return long_match_blocks(device) * (kLongMatchThreads / kWarpThreads);
}

}}  // namespace spillway::cuda::hash_join
