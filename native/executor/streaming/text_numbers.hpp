// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/load.hpp"
#include "executor/streaming/recent_texts.hpp"
#include "executor/streaming/short_text.hpp"
#include "model/column_view.hpp"

namespace spillway {

// What one worker has of its own to number the texts of a column's rows, while it reads one source.
class TextNumbers {
  public:
    TextNumbers(TextCodes& codes, MemoryBudget& budget) : recent_(codes, budget) {}

    // Calls use(row, number) for each of the rows [begin, begin + rows) that is not NULL; `row` counts from `begin`.
    // view: of text or binary, or of a dictionary of those. known_only: a text that has no number gets none, and
    // TextCodes::kNone stands for it.
    template <class Use>
    void number(const ColumnView& view, int64_t begin, int64_t rows, bool known_only, const Use& use) {
        if (std::vector<uint32_t>* const numbers = of_values(view, known_only)) {
            for (int64_t row = 0; row < rows; ++row) {
                if (!view.is_valid(begin + row)) continue;
                const auto value = load<int32_t>(view.data, begin + row);
                uint32_t& number = (*numbers)[static_cast<size_t>(value)];
                if (number == kNotAsked) number = number_of(view.type->dictionary->values, value, known_only);
                use(row, number);
            }
            return;
        }
        for (int64_t row = 0; row < rows; row += kTogether) {
            const int64_t together = std::min(kTogether, rows - row);
            if (number_tiny(view, begin + row, together, known_only)) {
                for (int64_t i = 0; i < together; ++i) use(row + i, codes_[i]);
                continue;
            }
            const TextBatch batch = gather(view, begin + row, together);
            look_up(batch, known_only, codes_);
            for (uint64_t i = 0; i < batch.count; ++i) use(row + rows_[i], codes_[i]);
        }
    }

    // Writes such keys of the texts of rows [begin, begin + rows); that of a NULL is 0. view: of text or binary with
    // offsets. known_only: in place of the number of a longer text that has none is TextCodes::kNone.
    void write_short(const ColumnView& view, int64_t begin, int64_t rows, bool known_only, ShortTextKeys keys);

  private:
    static constexpr int64_t kTogether = 256;
    static constexpr int64_t kValuesMax = 1 << 16;               // 256 KiB of numbers
    static constexpr uint32_t kNotAsked = TextCodes::kNone - 1;  // no text has it: TextCodes gives smaller ones

    bool number_tiny(const ColumnView& view, int64_t begin, int64_t rows, bool known_only);
    template <class Offset>
    bool number_tiny_rows(const ColumnView& view, int64_t begin, int64_t rows, bool known_only);
    std::vector<uint32_t>* of_values(const ColumnView& view, bool known_only);
    uint32_t number_of(const ColumnView& texts, int64_t row, bool known_only);
    TextBatch gather(const ColumnView& view, int64_t begin, int64_t rows);
    template <class Offset>
    TextBatch gather_offsets(const ColumnView& view, int64_t begin, int64_t rows);
    void look_up(const TextBatch& batch, bool known_only, uint32_t* codes);
    template <class Offset, uint32_t kKeyBytes>
    uint64_t write_short_rows(const ColumnView& view, int64_t begin, int64_t rows, const ShortTextKeys& keys);
    template <class Offset>
    void number_long(const ColumnView& view, int64_t begin, uint64_t count, bool known_only, const ShortTextKeys& keys);
    template <class Offset>
    void write_short_of(const ColumnView& view, int64_t begin, int64_t rows, bool known_only, ShortTextKeys keys);

    RecentTexts recent_;
    // The numbers that values of dictionaries with few of them have, as far as somebody asked.
    std::map<std::pair<const Dictionary*, bool>, std::vector<uint32_t>> of_values_;
    // The numbers of texts of up to two bytes by these, as far as somebody asked: of all texts, and of known ones.
    std::vector<uint32_t> of_tiny_[2];
    ByteString texts_[kTogether];
    int64_t rows_[kTogether];  // of the texts
    uint32_t codes_[kTogether];
};

}  // namespace spillway
