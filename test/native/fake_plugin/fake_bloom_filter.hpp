// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace fake {

// Which keys the build side may have: all bits of a key in one word, as the real filter's, so that it lets as many
// others pass. Without words it lets all pass.
class FakeBloomFilter {
  public:
    explicit FakeBloomFilter(uint64_t words) : words_(words) {}

    bool is_used() const { return !words_.empty(); }
    void add(uint64_t key) {
        if (is_used()) words_[word_of(key)] |= bits_of(key);
    }
    bool passes(uint64_t key) const { return !is_used() || (words_[word_of(key)] & bits_of(key)) == bits_of(key); }

  private:
    static constexpr int kBits = 4;

    static uint64_t mixed(uint64_t key) {
        for (int round = 0; round < 2; ++round) key = (key ^ key >> 31) * 0xd6e8feb86659fd93ULL;
        return key ^ key >> 32;
    }
    uint64_t word_of(uint64_t key) const { return (mixed(key) >> 24) % words_.size(); }
    static uint64_t bits_of(uint64_t key) {
        uint64_t bits = 0;
        for (int i = 0; i < kBits; ++i) bits |= uint64_t{1} << (mixed(key) >> (6 * i) & 63);
        return bits;
    }

    std::vector<uint64_t> words_;
};

}  // namespace fake
