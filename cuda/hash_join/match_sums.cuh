// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "hash_join/join_pass.hpp"
#include "primitive/mix.cuh"
#include "primitive/warp.cuh"

namespace spillway::cuda { inline namespace hash_join {

// What a thread has added up over its matches (SumTargets), in registers.
template <int kKeyWords>
class MatchSums {
  public:
    // words: of the probe row, the mixed key first.
    template <int kWords>
    __device__ void add(const SumTargets& to, const uint32_t (&words)[kWords], const uint32_t* build_row) {
        if constexpr (kWords == 2 * kKeyWords) {
            totals_[kMatchTotal] += 1;
            if (to.keys) totals_[kKeyTotal] += unmixed(words);
            totals_[kBuildTotal] += number(build_row + kKeyWords);
            totals_[kProbeTotal] += number(words + kKeyWords);
        }
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

}}  // namespace spillway::cuda::hash_join
