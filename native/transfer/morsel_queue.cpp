// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.hpp"
#include "transfer/source.hpp"

namespace spillway {

namespace {

int64_t share_count(int64_t rows, int64_t morsel_rows) {
    SPILLWAY_CHECK(morsel_rows > 0);
    return rows / morsel_rows + (rows % morsel_rows != 0);
}

}  // namespace

MorselQueue::MorselQueue(const Source& source, int64_t morsel_rows)
    : source_(source), morsel_rows_(morsel_rows), shares_(share_count(source.rows(), morsel_rows)) {}

bool MorselQueue::next(Morsel& morsel) {
    // Within a share, only the first piece of another batch can begin before its end.
    if (morsel.share_end > 0 && take_batch(morsel.batch + 1, morsel)) return true;
    for (;;) {
        // Counting on past the end is harmless: a worker asks once more than there is.
        const int64_t share = next_.fetch_add(1, std::memory_order_relaxed);
        morsel.share_end = 0;
        if (share >= shares_) return false;
        if (first_of_share(share, morsel)) return true;
    }
}

// The first piece of this batch, or of the next one that has rows; false when it belongs to another share.
bool MorselQueue::take_batch(int64_t batch, Morsel& morsel) const {
    while (batch < source_.batch_count() && source_.batch_rows(batch) == 0) ++batch;
    if (batch >= source_.batch_count() || source_.first_row(batch) >= morsel.share_end) return false;
    morsel.batch = batch;
    morsel.row = 0;
    morsel.rows = std::min(morsel_rows_, source_.batch_rows(batch));
    return true;
}

bool MorselQueue::first_of_share(int64_t share, Morsel& morsel) const {
    const int64_t begin = share * morsel_rows_;
    morsel.share_end = begin + std::min(morsel_rows_, source_.rows() - begin);
    const int64_t batch = batch_of(source_, begin);
    const int64_t into = begin - source_.first_row(batch);
    // Pieces begin at multiples of morsel_rows in their batch.
    const int64_t row = into / morsel_rows_ * morsel_rows_ + (into % morsel_rows_ == 0 ? 0 : morsel_rows_);
    const int64_t rows = source_.batch_rows(batch);
    if (row >= rows) return take_batch(batch + 1, morsel);
    if (source_.first_row(batch) + row >= morsel.share_end) return false;
    morsel.batch = batch;
    morsel.row = row;
    morsel.rows = std::min(morsel_rows_, rows - row);
    return true;
}

}  // namespace spillway
