// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "primitive/mix.cuh"
#include "radix_partition/radix_policy.hpp"
#include "radix_partition/regions.hpp"

// The rows of one tile on their way to the buffer in shared memory: each thread has four neighbours, the next four one
// block further on, so that every width from one byte on loads at least 4 and mostly 16 bytes at a time.
namespace spillway::cuda {

// kWords: columns of 4 bytes only, the commonest; their loop takes half the registers of the one for all widths.
enum class TileSource { kColumns, kWords, kRows };

template <int kKeyWords, int kItems>
class TileRows {
  protected:
    static constexpr int kQuads = kItems / 4;
    __device__ static uint32_t row_of(int quad) { return (quad * kScatterThreads + threadIdx.x) * 4; }

    // Values of kWidth bytes of this thread's rows, to `offset` of their places in the buffer.
    template <class Value>
    __device__ void move_column(const Value* column, uint32_t* buffer, uint32_t row_bytes, uint32_t offset,
                                const uint32_t (&position)[kItems]) const {
        constexpr int kQuadWords = sizeof(Value) * 4 / 4;
        // As many loads in flight as registers hold without spilling.
        constexpr int kQuadsAtOnce = sizeof(Value) <= 4 ? kQuads : sizeof(Value) == 8 && kQuads % 2 == 0 ? 2 : 1;
#pragma unroll
        for (int from = 0; from < kQuads; from += kQuadsAtOnce) {
            union Quads {
                uint32_t words[kQuadsAtOnce][kQuadWords];
                Value values[kQuadsAtOnce][4];
            } loaded;
#pragma unroll
            for (int q = 0; q < kQuadsAtOnce; ++q) load_quad(column, row_of(from + q), loaded.words[q]);
            auto* const fields = reinterpret_cast<unsigned char*>(buffer) + offset;
            for_valid<kQuadsAtOnce * 4>(from * 4, [&](int i, int at) {
                store(fields + position[i] * row_bytes, loaded.values[at / 4][at % 4]);
            });
        }
    }

    __device__ bool valid(int i) const {
        return (valid_ >> i) & 1;
    }
    // body(row i of this thread, i - from) for valid rows among [from, from + count). Nearly all tiles are full of
    // valid rows: without a branch per row they take half of the instructions.
    template <int kCount, class Body>
    __device__ void for_valid(int from, const Body& body) const {
        constexpr uint32_t kAll = kItems == 32 ? ~0U : (1U << kItems) - 1;
        if (valid_ == kAll) {
#pragma unroll
            for (int at = 0; at < kCount; ++at) body(from + at, at);
        } else {
#pragma unroll
            for (int at = 0; at < kCount; ++at) {
                if (valid(from + at)) body(from + at, at);
            }
        }
    }

    uint32_t rows_ = 0;  // of the tile
    uint32_t valid_ = 0;

  private:
    template <class Value, int kQuadWords>
    __device__ void load_quad(const Value* column, uint32_t row, uint32_t (&words)[kQuadWords]) const {
        const auto* const from = reinterpret_cast<const uint32_t*>(column + row);
        if (row + 4 <= rows_) {
            if constexpr (kQuadWords >= 4) {
#pragma unroll
                for (int w = 0; w < kQuadWords; w += 4) {
                    const uint4 four = __ldcs(reinterpret_cast<const uint4*>(from + w));
                    words[w] = four.x;
                    words[w + 1] = four.y;
                    words[w + 2] = four.z;
                    words[w + 3] = four.w;
                }
            } else if constexpr (kQuadWords == 2) {
                const uint2 two = __ldcs(reinterpret_cast<const uint2*>(from));
                words[0] = two.x;
                words[1] = two.y;
            } else {
                words[0] = __ldcs(from);
            }
            return;
        }
        Value four[4] = {};
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            if (row + r < rows_) four[r] = column[row + r];
        }
#pragma unroll
        for (int w = 0; w < kQuadWords; ++w) words[w] = reinterpret_cast<const uint32_t*>(four)[w];
    }
    // Fields lie at multiples of 4 bytes, or of their width when that is less.
    template <class Value>
    __device__ static void store(unsigned char* place, const Value& value) {
        if constexpr (sizeof(Value) <= 4) {
            *reinterpret_cast<Value*>(place) = value;
        } else {
            const auto* const words = reinterpret_cast<const uint32_t*>(&value);
#pragma unroll
            for (uint32_t w = 0; w < sizeof(Value) / 4; ++w) reinterpret_cast<uint32_t*>(place)[w] = words[w];
        }
    }
};

// First pass: columns.
template <int kRowWords, int kKeyWords, int kItems, TileSource kSource>
class TileInput : TileRows<kKeyWords, kItems> {
    using Base = TileRows<kKeyWords, kItems>;
    using Key = typename MixedKey<kKeyWords>::Key;
    using Base::kQuads;
    using Base::row_of;
    using Base::rows_;
    using Base::valid_;

  public:
    using Base::for_valid;
    using Base::valid;
    __device__ TileInput(const ScatterPass& pass, uint64_t tile, uint64_t)
        : in_(pass.in), base_(tile * kScatterThreads * kItems) {
        const uint64_t rest = pass.rows - base_;
        rows_ = rest < kScatterThreads * kItems ? static_cast<uint32_t>(rest) : kScatterThreads * kItems;
    }

    __device__ void load_keys() {
        const Key* const keys = static_cast<const Key*>(in_.key) + base_;
#pragma unroll
        for (int quad = 0; quad < kQuads; ++quad) {
            const uint32_t row = row_of(quad);
            if (row + 4 <= rows_) {
                load_four(keys + row, quad);
            } else {
#pragma unroll
                for (int r = 0; r < 4; ++r) key_[quad * 4 + r] = row + r < rows_ ? keys[row + r] : 0;
            }
            const uint32_t count = row < rows_ ? rows_ - row : 0;
            uint32_t there = count >= 4 ? 0xfU : (1U << count) - 1;
            // Tiles begin at multiples of 32 rows, so that four neighbours share a word of the bitmap.
            if (in_.key_valid != nullptr && there != 0) {
                there &= in_.key_valid[(base_ + row) / 32] >> ((base_ + row) % 32);
            }
            valid_ |= there << (quad * 4);
        }
#pragma unroll
        for (int i = 0; i < kItems; ++i) key_[i] = MixedKey<kKeyWords>::mix(key_[i]);
    }
    __device__ uint32_t top_word(int i) const {
        return static_cast<uint32_t>(key_[i] >> (32 * (kKeyWords - 1)));
    }

    __device__ void store_rows(uint32_t* buffer, const uint32_t (&position)[kItems]) const {
        this->template for_valid<kItems>(0, [&](int i, int) {
            uint32_t* const row = buffer + position[i] * kRowWords;
#pragma unroll
            for (int w = 0; w < kKeyWords; ++w) row[w] = static_cast<uint32_t>(key_[i] >> (32 * w));
        });
        for (int c = 0; c < in_.columns; ++c) {
            if constexpr (kSource == TileSource::kWords) {
                move<uint32_t>(c, buffer, position);
            } else if (in_.data[c] == nullptr) {
                number_rows(c, buffer, position);
            } else if (in_.width[c] == 4) {
                move<uint32_t>(c, buffer, position);
            } else if (in_.width[c] == 8) {
                move<uint64_t>(c, buffer, position);
            } else if (in_.width[c] == 1) {
                move<uint8_t>(c, buffer, position);
            } else if (in_.width[c] == 2) {
                move<uint16_t>(c, buffer, position);
            } else {
                move<uint4>(c, buffer, position);
            }
        }
    }

  private:
    __device__ void load_four(const uint32_t* keys, int quad) {
        const uint4 four = __ldcs(reinterpret_cast<const uint4*>(keys));
        key_[quad * 4] = four.x;
        key_[quad * 4 + 1] = four.y;
        key_[quad * 4 + 2] = four.z;
        key_[quad * 4 + 3] = four.w;
    }
    __device__ void load_four(const uint64_t* keys, int quad) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const ulonglong2 two = __ldcs(reinterpret_cast<const ulonglong2*>(keys) + half);
            key_[quad * 4 + half * 2] = two.x;
            key_[quad * 4 + half * 2 + 1] = two.y;
        }
    }
    template <class Value>
    __device__ void move(int c, uint32_t* buffer, const uint32_t (&position)[kItems]) const {
        this->move_column(static_cast<const Value*>(in_.data[c]) + base_, buffer, kRowWords * 4, in_.offset[c],
                          position);
    }
    __device__ void number_rows(int c, uint32_t* buffer, const uint32_t (&position)[kItems]) const {
        this->template for_valid<kItems>(0, [&](int i, int) {
            const uint64_t number = base_ + row_of(i / 4) + i % 4;
            uint32_t* const place = buffer + position[i] * kRowWords + in_.offset[c] / 4;
            place[0] = static_cast<uint32_t>(number);
            if (in_.width[c] == 8) place[1] = static_cast<uint32_t>(number >> 32);
        });
    }

    const KeyedColumns& in_;
    const uint64_t base_;
    Key key_[kItems];
};

// Later passes: rows, in registers from the load on.
template <int kRowWords, int kKeyWords, int kItems>
class TileInput<kRowWords, kKeyWords, kItems, TileSource::kRows> : TileRows<kKeyWords, kItems> {
    using Base = TileRows<kKeyWords, kItems>;
    using Base::kQuads;
    using Base::row_of;
    using Base::rows_;
    using Base::valid_;

  public:
    using Base::for_valid;
    using Base::valid;
    __device__ TileInput(const ScatterPass& pass, uint64_t tile, uint64_t region) {
        const uint64_t first = pass.begin[region] + (tile - pass.first_tile[region]) * kScatterThreads * kItems;
        const uint64_t rest = pass.end[region] - first;
        rows_ = rest < kScatterThreads * kItems ? static_cast<uint32_t>(rest) : kScatterThreads * kItems;
        from_ = static_cast<const uint32_t*>(pass.rows_in) + first * kRowWords;
    }

    __device__ void load_keys() {
#pragma unroll
        for (int quad = 0; quad < kQuads; ++quad) {
            const uint32_t row = row_of(quad);
            const uint32_t count = row < rows_ ? rows_ - row : 0;
            valid_ |= (count >= 4 ? 0xfU : (1U << count) - 1) << (quad * 4);
            load_four(from_ + row * kRowWords, count, word_[quad]);
        }
    }
    __device__ uint32_t top_word(int i) const {
        return word_[i / 4][(i % 4) * kRowWords + kKeyWords - 1];
    }

    __device__ void store_rows(uint32_t* buffer, const uint32_t (&position)[kItems]) const {
        this->template for_valid<kItems>(0, [&](int i, int) {
#pragma unroll
            for (int w = 0; w < kRowWords; ++w) {
                buffer[position[i] * kRowWords + w] = word_[i / 4][(i % 4) * kRowWords + w];
            }
        });
    }

  private:
    // Regions begin at multiples of four rows. What is between the end of one and the next was never written.
    __device__ static void load_four(const uint32_t* rows, uint32_t count, uint32_t (&words)[kRowWords * 4]) {
        if (count >= 4) {
#pragma unroll
            for (int w = 0; w < kRowWords; ++w) {
                const uint4 four = __ldg(reinterpret_cast<const uint4*>(rows) + w);
                words[w * 4] = four.x;
                words[w * 4 + 1] = four.y;
                words[w * 4 + 2] = four.z;
                words[w * 4 + 3] = four.w;
            }
        } else {
#pragma unroll
            for (int w = 0; w < kRowWords * 4; ++w) words[w] = w < count * kRowWords ? __ldg(rows + w) : 0;
        }
    }

    const uint32_t* from_;
    uint32_t word_[kQuads][kRowWords * 4];
};

}  // namespace spillway::cuda
