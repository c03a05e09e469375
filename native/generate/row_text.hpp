// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "generate/random.hpp"
#include "generate/vocabularies.hpp"

namespace spillway {

// Texts of single rows after clause 4.2.2 of the TPC-H specification. Each holds its bytes itself.

// "Customer#000000001": nine digits, and more for larger numbers.
class NumberedName {
  public:
    static constexpr uint32_t kDigitsMax = 19;
    static constexpr uint32_t kPrefixBytesMax = 9;
    // Bytes of the longest name up to `number_max`.
    static uint32_t bytes_max(std::string_view prefix, int64_t number_max);

    NumberedName(std::string_view prefix, int64_t number);
    operator std::string_view() const { return {bytes_.data(), size_}; }

  private:
    std::array<char, kPrefixBytesMax + kDigitsMax> bytes_;
    uint32_t size_;
};

// Where a customer or supplier lives: a nation, random characters (a "v-string"), and a telephone number there.
struct Contact {
    static constexpr uint32_t kAddressBytesMin = 10;
    static constexpr uint32_t kAddressBytesMax = 40;
    static constexpr uint32_t kPhoneBytes = 15;  // "27-918-335-1736": 10 + nation, then random

    Contact(RandomSequence& random, uint32_t address_bytes_max);

    int32_t nation;
    std::string_view address() const { return {address_bytes.data(), address_size}; }
    std::string_view phone() const { return {phone_bytes.data(), kPhoneBytes}; }

    uint32_t address_size;
    std::array<char, kAddressBytesMax> address_bytes;
    std::array<char, kPhoneBytes> phone_bytes;
};

// Readable text of `length_min` to `length_max` bytes (TextPool).
std::string_view draw_text(RandomSequence& random, uint32_t length_min, uint32_t length_max);

// `Count` different words of a list, by their numbers.
template <size_t Count>
std::array<uint32_t, Count> draw_different(RandomSequence& random, const Vocabulary& words) {
    std::array<uint32_t, Count> drawn{};
    for (size_t i = 0; i < Count;) {
        drawn[i] = words.draw(random);
        const auto end = drawn.begin() + static_cast<std::ptrdiff_t>(i);
        if (std::find(drawn.begin(), end, drawn[i]) == end) ++i;
    }
    return drawn;
}

// Words with a blank between each two.
class Phrase {
  public:
    void add(std::string_view word);
    operator std::string_view() const { return {bytes_.data(), size_}; }
    static uint32_t bytes_max(const Vocabulary& words, uint32_t count) { return count * (words.longest() + 1) - 1; }

  private:
    std::array<char, 64> bytes_;
    uint32_t size_ = 0;
};

}  // namespace spillway
