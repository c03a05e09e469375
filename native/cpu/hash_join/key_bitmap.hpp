// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "memory/buffer.hpp"

namespace spillway {

// Integer keys of `width` bytes between `first` and `first + values - 1`, modulo 2^(8 width): normalized words of
// signed and of unsigned keys then take the same arithmetic.
struct DenseKeys {
    uint64_t first = 0;
    uint64_t values = 0;  // 1 .. 2^(8 width)
    int32_t width = 8;    // 1, 2, 4 or 8
};

// Which of the keys of a dense range are there: one bit each, the smallest table with which a key can be looked up. The
// array join (NOPA) of Schuh et al., SIGMOD 2016, for build sides of which nothing but the key is wanted: its array of
// payloads is left with a bit per key.
class KeyBitmap {
  public:
    static uint64_t bytes_for(uint64_t values) { return words_for(values) * sizeof(uint64_t); }

    KeyBitmap(const DenseKeys& keys, MemoryBudget& budget);

    // `keys` everywhere: `count` normalized words of 8 bytes, which need not be aligned; none of them NULL.
    // Keys outside of the range are not added but remembered.
    void insert(const uint8_t* keys, uint32_t count);
    // Adds what `others` hold in words [begin, end) of words(); calls for different words may run side by side.
    // True: a key was in two of them.
    bool merge(const std::vector<KeyBitmap*>& others, uint64_t begin, uint64_t end);

    uint64_t words() const { return words_for(keys_.values); }
    bool has_outside() const { return outside_ != 0; }  // an inserted key is outside of the range
    bool has_equal() const { return equal_ != 0; }      // two inserted keys were equal

    uint64_t count(const uint8_t* keys, uint32_t count) const;  // how many of the keys are there
    void find(const uint8_t* keys, uint32_t count, uint8_t* found) const;

  private:
    // One more bit than there are values: it is never set and stands for every key outside.
    static uint64_t words_for(uint64_t values) { return values / 64 + 1; }
    uint64_t index_of(uint64_t key) const {
        const uint64_t index = (key - keys_.first) & mask_;
        return index < keys_.values ? index : keys_.values;
    }

    const DenseKeys keys_;
    const uint64_t mask_;
    Buffer memory_;
    uint64_t* bits_;
    uint64_t outside_ = 0;
    uint64_t equal_ = 0;
};

}  // namespace spillway
