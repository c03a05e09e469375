// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.hpp"
#include "transfer/source.hpp"

namespace spillway {

MorselQueue::MorselQueue(const Source& source, int64_t morsel_rows) : source_(source), morsel_rows_(morsel_rows) {
    SPILLWAY_CHECK(morsel_rows > 0);
    first_morsels_.reserve(static_cast<size_t>(source.batch_count()) + 1);
    first_morsels_.push_back(0);
    for (int64_t batch = 0; batch < source.batch_count(); ++batch) {
        const int64_t rows = source.batch_rows(batch);
        first_morsels_.push_back(first_morsels_.back() + rows / morsel_rows + (rows % morsel_rows != 0));
    }
}

bool MorselQueue::next(Morsel& morsel) {
    // Counting on past the end is harmless: a worker asks once more than there is.
    const int64_t number = next_.fetch_add(1, std::memory_order_relaxed);
    if (number >= first_morsels_.back()) return false;
    // The batch is the last whose first morsel is not behind `number`; batches without rows have none.
    const auto after = std::upper_bound(first_morsels_.begin(), first_morsels_.end(), number);
    morsel.batch = after - first_morsels_.begin() - 1;
    morsel.row = (number - first_morsels_[static_cast<size_t>(morsel.batch)]) * morsel_rows_;
    morsel.rows = std::min(morsel_rows_, source_.batch_rows(morsel.batch) - morsel.row);
    return true;
}

}  // namespace spillway
