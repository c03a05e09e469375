// SPDX-License-Identifier: Apache-2.0
#include "generate/row_text.hpp"

#include <cstring>

#include "base/error.hpp"
#include "generate/text_pool.hpp"

namespace spillway {

namespace {

constexpr uint32_t kNameDigitsMin = 9;

// The specification asks for 64 characters at least; those of its own generator.
constexpr std::string_view kAddressCharacters = "0123456789abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ,";
constexpr uint32_t kAddressCharacterBits = 6;
static_assert(kAddressCharacters.size() == 1u << kAddressCharacterBits);

uint32_t digits_of(int64_t number) {
    uint32_t digits = 1;
    for (; number >= 10; number /= 10) ++digits;
    return std::max(digits, kNameDigitsMin);
}

void put_digits(char* out, uint32_t digits, int64_t number) {
    for (char* at = out + digits; at > out; number /= 10) *--at = static_cast<char>('0' + number % 10);
}

}  // namespace

uint32_t NumberedName::bytes_max(std::string_view prefix, int64_t number_max) {
    return static_cast<uint32_t>(prefix.size()) + digits_of(number_max);
}

NumberedName::NumberedName(std::string_view prefix, int64_t number) {
    SPILLWAY_CHECK(prefix.size() <= kPrefixBytesMax);
    const uint32_t digits = digits_of(number);
    const auto begin = static_cast<uint32_t>(prefix.size());
    std::memcpy(bytes_.data(), prefix.data(), begin);
    put_digits(bytes_.data() + begin, digits, number);
    size_ = begin + digits;
}

Contact::Contact(RandomSequence& random, uint32_t address_bytes_max)
    : nation(static_cast<int32_t>(TpchVocabularies::instance().nations.draw(random))),
      address_size(static_cast<uint32_t>(random.between(kAddressBytesMin, address_bytes_max))) {
    constexpr uint32_t kCharactersOfWord = 64 / kAddressCharacterBits;
    uint64_t bits = 0;
    for (uint32_t i = 0; i < address_size; ++i, bits >>= kAddressCharacterBits) {
        if (i % kCharactersOfWord == 0) bits = random.next();
        address_bytes[i] = kAddressCharacters[bits % kAddressCharacters.size()];
    }
    std::memcpy(phone_bytes.data(), "00-000-000-0000", kPhoneBytes);
    put_digits(phone_bytes.data(), 2, 10 + nation);
    put_digits(phone_bytes.data() + 3, 3, random.between(100, 999));
    put_digits(phone_bytes.data() + 7, 3, random.between(100, 999));
    put_digits(phone_bytes.data() + 11, 4, random.between(1000, 9999));
}

std::string_view draw_text(RandomSequence& random, uint32_t length_min, uint32_t length_max) {
    const auto length = static_cast<uint32_t>(random.between(length_min, length_max));
    return {TextPool::instance().piece(random.next(), length), length};
}

void Phrase::add(std::string_view word) {
    SPILLWAY_CHECK(size_ + 1 + word.size() <= bytes_.size());
    if (size_ > 0) bytes_[size_++] = ' ';
    std::memcpy(bytes_.data() + size_, word.data(), word.size());
    size_ += static_cast<uint32_t>(word.size());
}

}  // namespace spillway
