// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/error.hpp"
#include "base/load.hpp"
#include "cpu/row/key_normalizer.hpp"
#include "executor/streaming/text_codes.hpp"

namespace spillway {

// A text as a key of 8 or 16 bytes, so that workers look up no number for it: its bytes with zeros behind them, and in
// the last byte how many they are. A text that has more bytes than there are before the last one has its number in the
// first four (TextCodes), and kNumberedText in the last. Equal texts are equal keys, others are others. (Umbra and
// DuckDB lay short strings out in the same spirit, with the length first.)
constexpr uint8_t kNumberedText = 0xff;

constexpr uint64_t short_text_bytes_max(uint32_t key_bytes) {
    return key_bytes - 1;
}

// Where such keys of rows are: word w of row r at words[w * stride + r].
struct ShortTextKeys {
    uint64_t* words = nullptr;
    int64_t stride = 0;
    uint32_t key_bytes = 8;

    uint64_t* last_words() const { return key_bytes == sizeof(uint64_t) ? words : words + stride; }
};

// The text of such a key, whose bytes stay where they are.
inline ByteString short_text(const uint8_t* key, uint32_t key_bytes, const TextCodes& texts) {
    const uint8_t length = key[key_bytes - 1];
    if (length == kNumberedText) return texts.text(load<uint32_t>(key));
    SPILLWAY_CHECK(length <= short_text_bytes_max(key_bytes));
    return {key, length};
}

}  // namespace spillway
