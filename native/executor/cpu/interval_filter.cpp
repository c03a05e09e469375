// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/interval_filter.hpp"

#include <algorithm>

#include "cpu/row/key_normalizer.hpp"

namespace spillway {

bool IntervalFilter::any(const Morsel& morsel) {
    for (int64_t done = 0; done < morsel.rows;) {
        const int64_t rows = std::min(kRows, morsel.rows - done);
        const ColumnView& column = reader_.read(morsel.batch, morsel.row + done, rows)[0];
        normalize_words(key_, column, {0, nullptr, rows}, words_.data());
        bool found = false;  // of all at once: without a branch for each
        for (int64_t i = 0; i < rows; ++i) {
            const int64_t value = integer_key(words_[static_cast<size_t>(i)], key_.spec.width);
            found |= (value >= interval_.first) & (value <= interval_.last);
        }
        if (found) return true;
        done += rows;
    }
    return false;
}

}  // namespace spillway
