// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "primitive/mix.cuh"

namespace spillway::cuda { inline namespace pair_join {

// The digit of a mixed key that a radix pass looks at, `shift` and `bits` as for radix_digit().
template <class Key>
__device__ uint32_t tuple_digit(Key key, uint32_t shift, uint32_t bits) {
    return radix_digit(static_cast<uint32_t>(key >> (8 * sizeof(Key) - 32)), shift, (1U << bits) - 1);
}

// Where a block of kThreads threads brings a tile of tuples into the order of their digits, in shared memory. All
// threads of the block call all of these; the caller has barriers between the calls, as it has between them and what it
// does with `counts` and `starts`.
template <class Key, class Row, int kThreads, int kItems>
class TupleStage {
  public:
    static constexpr uint32_t kTuples = static_cast<uint32_t>(kThreads) * kItems;

    static constexpr uint64_t bytes() { return kTuples * (sizeof(Key) + sizeof(Row)); }

    __device__ TupleStage(unsigned char* memory, uint32_t shift, uint32_t bits)
        : keys_(reinterpret_cast<Key*>(memory)),
          rows_(reinterpret_cast<Row*>(memory + kTuples * sizeof(Key))),
          shift_(shift),
          bits_(bits) {}

    // Counts the tuples of each digit and gives each its number among those. Bit u of `there`: the thread has keys[u].
    template <class Rank>
    __device__ void count(uint32_t there, const Key (&keys)[kItems], uint32_t* counts, Rank (&ranks)[kItems]) const {
#pragma unroll
        for (int u = 0; u < kItems; ++u) {
            if ((there >> u & 1) != 0) ranks[u] = static_cast<Rank>(atomicAdd(&counts[digit_of(keys[u])], 1U));
        }
    }

    // starts[digit]: where the tuples of the digit begin in the tile.
    template <class Rank>
    __device__ void put(uint32_t there, const Key (&keys)[kItems], const Row (&rows)[kItems], const uint32_t* starts,
                        const Rank (&ranks)[kItems]) const {
#pragma unroll
        for (int u = 0; u < kItems; ++u) {
            if ((there >> u & 1) == 0) continue;
            const uint32_t at = starts[digit_of(keys[u])] + ranks[u];
            keys_[at] = keys[u];
            rows_[at] = rows[u];
        }
    }

    // Writes `total` tuples; place_of(digit, i): where the i-th of the digit's tuples goes.
    template <class PlaceOf>
    __device__ void write(uint32_t total, const uint32_t* starts, const PlaceOf& place_of, void* keys_out,
                          void* rows_out) const {
        for (uint32_t i = threadIdx.x; i < total; i += kThreads) {
            const Key key = keys_[i];
            const uint32_t digit = digit_of(key);
            const uint64_t place = place_of(digit, i - starts[digit]);
            static_cast<Key*>(keys_out)[place] = key;
            static_cast<Row*>(rows_out)[place] = rows_[i];
        }
    }

  private:
    __device__ uint32_t digit_of(Key key) const {
        return tuple_digit(key, shift_, bits_);
    }

    Key* const keys_;
    Row* const rows_;
    const uint32_t shift_;
    const uint32_t bits_;
};

}}  // namespace spillway::cuda::pair_join
