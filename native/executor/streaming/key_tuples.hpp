// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/row/key_normalizer.hpp"
#include "executor/streaming/text_numbers.hpp"
#include "model/column_type.hpp"
#include "model/column_view.hpp"
#include "model/row_layout.hpp"

namespace spillway {

// Keys of several columns at most that are one byte string.
constexpr size_t kTupleKeysMax = 64;

// Where the values of such keys lie: behind bytes with a bit for each key, 1 = NULL, one behind the other without gaps.
// Text has its number there.
struct TuplePlaces {
    explicit TuplePlaces(const std::vector<KeySpec>& keys);

    std::vector<uint32_t> offsets;
    uint32_t flag_bytes = 0;
    uint32_t bytes = 0;
};

// Rows' keys as one byte string each: equal where the keys are, a NULL being equal to another.
class KeyTuples {
  public:
    struct Key {
        KeyPart part;
        size_t view = 0;
    };
    // known_only: text that has no number gets none, and TextCodes::kNone stands for it.
    explicit KeyTuples(std::vector<Key> keys, bool known_only = false);

    uint32_t bytes() const { return places_.bytes; }
    // Rows [begin, begin + rows) of the views, one behind the other. texts: nullptr where no key is text.
    void write(const std::vector<ColumnView>& views, int64_t begin, int64_t rows, TextNumbers* texts,
               uint8_t* out) const;

  private:
    void write_texts(const ColumnView& view, int64_t begin, int64_t rows, TextNumbers& texts, uint8_t* out) const;

    const std::vector<Key> keys_;
    const TuplePlaces places_;
    const bool known_only_;
};

}  // namespace spillway
