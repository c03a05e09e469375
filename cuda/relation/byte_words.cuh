// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace spillway::cuda { inline namespace relation {

struct ByteSpan {
    const uint8_t* data;
    uint64_t bytes;
};

// Bytes from any address as 32-bit words, the last filled up with zeros. Loads the aligned words that hold any of the
// bytes and no others: at most 3 bytes beyond the last, which columns of bytes allow (device_table.hpp).
class ByteWords {
  public:
    __device__ explicit ByteWords(ByteSpan span) : left_bytes_(span.bytes) {
        const auto address = reinterpret_cast<uintptr_t>(span.data);
        words_ = reinterpret_cast<const uint32_t*>(address & ~uintptr_t{3});
        shift_ = static_cast<uint32_t>(address & 3) * 8;
        end_ = span.bytes == 0 ? words_ : words_ + ((address & 3) + span.bytes + 3) / 4;
        low_ = load();
    }
    __device__ bool more() const { return left_bytes_ > 0; }
    __device__ uint32_t next() {
        const uint32_t high = load();
        uint32_t word = __funnelshift_r(low_, high, shift_);
        low_ = high;
        if (left_bytes_ >= 4) {
            left_bytes_ -= 4;
        } else {
            word &= (1U << (left_bytes_ * 8)) - 1;
            left_bytes_ = 0;
        }
        return word;
    }

  private:
    __device__ uint32_t load() { return words_ < end_ ? __ldg(words_++) : 0; }

    const uint32_t* words_;
    const uint32_t* end_;
    uint64_t left_bytes_;
    uint32_t shift_;
    uint32_t low_;
};

// The 4 bytes from any address on.
__device__ inline uint32_t load_word(const uint8_t* data) {
    const auto address = reinterpret_cast<uintptr_t>(data);
    const auto* const words = reinterpret_cast<const uint32_t*>(address & ~uintptr_t{3});
    const uint32_t low = __ldg(words);
    if ((address & 3) == 0) return low;
    return __funnelshift_r(low, __ldg(words + 1), static_cast<uint32_t>(address & 3) * 8);
}

__device__ inline bool equal_bytes(ByteSpan a, ByteSpan b) {
    if (a.bytes != b.bytes) return false;
    ByteWords a_words(a);
    ByteWords b_words(b);
    while (a_words.more()) {
        if (a_words.next() != b_words.next()) return false;
    }
    return true;
}

}}  // namespace spillway::cuda::relation
