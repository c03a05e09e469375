// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "primitive/mix.cuh"
#include "radix_partition/radix_policy.hpp"
#include "radix_partition/tile_stage.cuh"

// The rows of one tile on their way from where they came (tile_stage.cuh) to where they are sorted, both in shared
// memory: thread t has rows t, t + threads, ... of the tile, so that neighbouring lanes read neighbouring words.
namespace spillway::cuda { inline namespace radix_partitioning {

template <int kWords>
__device__ inline void load_words(const uint32_t* from, uint32_t (&to)[kWords]) {
    if constexpr (kWords % 4 == 0) {
#pragma unroll
        for (int w = 0; w < kWords; w += 4) {
            const uint4 four = *reinterpret_cast<const uint4*>(from + w);
            to[w] = four.x;
            to[w + 1] = four.y;
            to[w + 2] = four.z;
            to[w + 3] = four.w;
        }
    } else if constexpr (kWords % 2 == 0) {
#pragma unroll
        for (int w = 0; w < kWords; w += 2) {
            const uint2 two = *reinterpret_cast<const uint2*>(from + w);
            to[w] = two.x;
            to[w + 1] = two.y;
        }
    } else {
#pragma unroll
        for (int w = 0; w < kWords; ++w) to[w] = from[w];
    }
}
template <int kWords>
__device__ inline void store_words(uint32_t* to, const uint32_t (&from)[kWords]) {
    if constexpr (kWords % 4 == 0) {
#pragma unroll
        for (int w = 0; w < kWords; w += 4) {
            *reinterpret_cast<uint4*>(to + w) = make_uint4(from[w], from[w + 1], from[w + 2], from[w + 3]);
        }
    } else if constexpr (kWords % 2 == 0) {
#pragma unroll
        for (int w = 0; w < kWords; w += 2) *reinterpret_cast<uint2*>(to + w) = make_uint2(from[w], from[w + 1]);
    } else {
#pragma unroll
        for (int w = 0; w < kWords; ++w) to[w] = from[w];
    }
}

template <int kRowWords, int kKeyWords, int kItems, TileSource kSource>
class TileRows {
    using Key = typename MixedKey<kKeyWords>::Key;
    static constexpr uint32_t kAll = (1U << kItems) - 1;

  public:
    // Whole rows are in registers; else only their keys, and the stage is needed until store().
    static constexpr bool kHoldsRows = kSource != TileSource::kColumns;

    // tile: of the first pass; row numbers and the bitmap of keys follow from it.
    __device__ TileRows(const ScatterPass& pass, const unsigned char* stage, uint64_t tile, uint32_t rows)
        : pass_(pass), stage_(stage), base_(tile * pass.tile_rows) {
        set_valid(rows);
        // Rows that are not there too: without conditions, and what is read lies in the block's shared memory.
        if constexpr (kSource == TileSource::kRows) {
#pragma unroll
            for (int i = 0; i < kItems; ++i) load_words(words_of(stage_) + row_of(i) * kRowWords, word_[i]);
        } else {
#pragma unroll
            for (int i = 0; i < kItems; ++i) load_key(i);
            if constexpr (kHoldsRows) load_columns();
        }
    }

    __device__ uint32_t top_word(int i) const {
        return word_[i][kKeyWords - 1];
    }

    __device__ bool is_valid(int i) const {
        return (valid_ >> i & 1) != 0;
    }

    // body(i) for the thread's rows that are there and have a key. Nearly all tiles are full of them: without a branch
    // per row they take half of the instructions.
    template <class Body>
    __device__ void for_valid(const Body& body) const {
        if (valid_ == kAll) {
#pragma unroll
            for (int i = 0; i < kItems; ++i) body(i);
        } else {
#pragma unroll
            for (int i = 0; i < kItems; ++i) {
                if (is_valid(i)) body(i);
            }
        }
    }

    // To their places in the buffer.
    __device__ void store(uint32_t* buffer, const uint32_t (&position)[kItems]) const {
        for_valid([&](int i) {
            if constexpr (kHoldsRows) {
                store_words(buffer + position[i] * kRowWords, word_[i]);
            } else {
#pragma unroll
                for (int w = 0; w < kKeyWords; ++w) buffer[position[i] * kRowWords + w] = word_[i][w];
            }
        });
        if constexpr (!kHoldsRows) move_columns(reinterpret_cast<unsigned char*>(buffer), position);
    }

  private:
    __device__ static const uint32_t* words_of(const unsigned char* bytes) {
        return reinterpret_cast<const uint32_t*>(bytes);
    }
    __device__ static uint32_t row_of(int i) {
        return threadIdx.x + static_cast<uint32_t>(i) * kScatterThreads;
    }

    __device__ void set_valid(uint32_t rows) {
        const uint32_t* const has_key = kSource == TileSource::kRows ? nullptr : pass_.in.key_valid;
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
            bool there = row_of(i) < rows;
            // Tiles begin at multiples of 32 rows.
            if (there && has_key != nullptr) there = has_key[(base_ + row_of(i)) / 32] >> lane_index() & 1;
            valid_ |= there ? 1U << i : 0;
        }
    }

    __device__ void load_key(int i) {
        const Key mixed = MixedKey<kKeyWords>::mix(reinterpret_cast<const Key*>(stage_)[row_of(i)]);
#pragma unroll
        for (int w = 0; w < kKeyWords; ++w) word_[i][w] = static_cast<uint32_t>(mixed >> (32 * w));
    }
    __device__ void load_columns() {
#pragma unroll
        for (int w = kKeyWords; w < kRowWords; ++w) {
            const WordSource from = pass_.in.word[w];
            const uint32_t* const column = words_of(stage_ + from.before * pass_.tile_rows + from.within);
            if (from.stride == 4) {
                load_word<1>(w, column);
            } else if (from.stride == 8) {
                load_word<2>(w, column);
            } else if (from.stride == 16) {
                load_word<4>(w, column);
            } else {
#pragma unroll
                for (int i = 0; i < kItems; ++i) word_[i][w] = number_word(i, from.within);
            }
        }
    }
    template <int kStride>
    __device__ void load_word(int w, const uint32_t* column) {
#pragma unroll
        for (int i = 0; i < kItems; ++i) word_[i][w] = column[row_of(i) * kStride];
    }
    __device__ uint32_t number_word(int i, uint32_t within) const {
        return static_cast<uint32_t>((base_ + row_of(i)) >> (within * 8));
    }

    __device__ void move_columns(unsigned char* buffer, const uint32_t (&position)[kItems]) const {
        const KeyedColumns& in = pass_.in;
        for (int c = 0; c < in.columns; ++c) {
            unsigned char* const fields = buffer + in.offset[c];
            const unsigned char* const column = stage_ + in.before[c] * pass_.tile_rows;
            if (in.data[c] == nullptr) {
                for_valid([&](int i) {
                    auto* const place = reinterpret_cast<uint32_t*>(fields + position[i] * kRowWords * 4);
                    place[0] = number_word(i, 0);
                    if (in.width[c] == 8) place[1] = number_word(i, 4);
                });
            } else if (in.width[c] == 1) {
                move<unsigned char>(fields, column, 1, position);
            } else if (in.width[c] == 2) {
                move<uint16_t>(fields, column, 1, position);
            } else {
                for (int w = 0; w < in.width[c] / 4; ++w) {
                    move<uint32_t>(fields + w * 4, column + w * 4, in.width[c] / 4, position);
                }
            }
        }
    }
    template <class Value>
    __device__ void move(unsigned char* fields, const unsigned char* column, uint32_t stride,
                         const uint32_t (&position)[kItems]) const {
        for_valid([&](int i) {
            *reinterpret_cast<Value*>(fields + position[i] * kRowWords * 4) =
                reinterpret_cast<const Value*>(column)[row_of(i) * stride];
        });
    }

    const ScatterPass& pass_;
    const unsigned char* const stage_;
    const uint64_t base_;
    uint32_t valid_ = 0;
    uint32_t word_[kItems][kRowWords];
};

}}  // namespace spillway::cuda::radix_partitioning
