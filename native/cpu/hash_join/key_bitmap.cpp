// SPDX-License-Identifier: Apache-2.0
#include "cpu/hash_join/key_bitmap.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace spillway {

namespace {

uint64_t word_at(const uint8_t* words, uint32_t i) {
    uint64_t word;
    std::memcpy(&word, words + static_cast<uint64_t>(i) * sizeof word, sizeof word);
    return word;
}

}  // namespace

KeyBitmap::KeyBitmap(const DenseKeys& keys, MemoryBudget& budget)
    : keys_(keys),
      mask_(keys.width >= 8 ? ~0ULL : (1ULL << (keys.width * 8)) - 1),
      memory_(Buffer::allocate(budget, bytes_for(keys.values), "bitmap of join keys", true)),
      bits_(reinterpret_cast<uint64_t*>(memory_.data())) {
    SPILLWAY_CHECK(keys.values > 0 && keys.values - 1 <= mask_);
}

void KeyBitmap::insert(const uint8_t* keys, uint32_t count) {
    uint64_t outside = 0;
    uint64_t equal = 0;
    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t index = (word_at(keys, i) - keys_.first) & mask_;
        if (index >= keys_.values) [[unlikely]] {
            outside = 1;
            continue;
        }
        uint64_t& word = bits_[index / 64];
        const uint64_t bit = 1ULL << (index % 64);
        equal |= word & bit;
        word |= bit;
    }
    outside_ |= outside;
    equal_ |= equal;
}

bool KeyBitmap::merge(const std::vector<KeyBitmap*>& others, uint64_t begin, uint64_t end) {
    constexpr uint64_t kBlockWords = 1024;  // stays in the L1 cache while all others pass
    uint64_t equal = 0;
    for (uint64_t from = begin; from < end; from += kBlockWords) {
        const uint64_t to = std::min(from + kBlockWords, end);
        for (const KeyBitmap* other : others) {
            for (uint64_t i = from; i < to; ++i) {
                equal |= bits_[i] & other->bits_[i];
                bits_[i] |= other->bits_[i];
            }
        }
    }
    return equal != 0;
}

uint64_t KeyBitmap::count(const uint8_t* keys, uint32_t count) const {
    uint64_t there = 0;
    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t index = index_of(word_at(keys, i));
        there += (bits_[index / 64] >> (index % 64)) & 1;
    }
    return there;
}

void KeyBitmap::find(const uint8_t* keys, uint32_t count, uint8_t* found) const {
    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t index = index_of(word_at(keys, i));
        found[i] = static_cast<uint8_t>((bits_[index / 64] >> (index % 64)) & 1);
    }
}

}  // namespace spillway
