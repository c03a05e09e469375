// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "base/bitmap.hpp"
#include "generate/generated_batch.hpp"
#include "generate/vocabularies.hpp"

namespace spillway {

// Append values to the columns of a generated batch (generated_batch.hpp has TextWriter), in order of the rows.

class ValueWriter {
  public:
    explicit ValueWriter(OutputColumn& column) : at_(column.data.data()) {}
    template <class Value>
    void put(Value value) {
        std::memcpy(at_, &value, sizeof value);
        at_ += sizeof value;
    }
    void put_decimal(int64_t value) {  // 128 bits
        put(value);
        put(value >> 63);
    }

  private:
    uint8_t* at_;
};

class BitWriter {
  public:
    explicit BitWriter(OutputColumn& column) : bits_(column.data.data()) {
        if (bits_ != nullptr) std::memset(bits_, 0, column.data.size());
    }
    void put(bool value) {
        if (value) set_bit(bits_, row_);
        ++row_;
    }

  private:
    uint8_t* bits_;
    int64_t row_ = 0;
};

// Words of a list: their texts, or in a dictionary column their numbers.
class WordWriter {
  public:
    WordWriter(OutputColumn& column, const Vocabulary& words)
        : words_(words), text_(column), indices_(column), plain_(column.type->layout != Layout::kDictionary) {}
    void put(uint32_t word) {
        if (plain_) {
            text_.append(words_[word]);
        } else {
            indices_.put(static_cast<int32_t>(word));
        }
    }
    void finish() {
        if (plain_) text_.finish();
    }

  private:
    const Vocabulary& words_;
    TextWriter text_;
    ValueWriter indices_;
    const bool plain_;
};

template <class... Writers>
void finish_texts(Writers&... writers) {
    (writers.finish(), ...);
}

}  // namespace spillway
