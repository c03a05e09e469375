// SPDX-License-Identifier: Apache-2.0
#include "transfer/file_batches.hpp"

#include <algorithm>

namespace spillway {

void BatchPlaces::reserve(MemoryBudget& budget, int64_t batches) {
    // Asked for at once, so that an error tells how much all of it is.
    const auto bytes = static_cast<uint64_t>(batches) * (sizeof(BatchPlace) + sizeof(int64_t));
    if (bytes > CountedArray<BatchPlace>::kUncountedBytes) budget.reserve(bytes, places_.purpose()).release();
    places_.reserve(budget, static_cast<size_t>(batches));
    first_rows_.reserve(budget, static_cast<size_t>(batches));
}

void BatchPlaces::begin_file(int32_t file) {
    files_.push_back({count(), file});
}

bool BatchPlaces::add(MemoryBudget& budget, const BatchPlace& place, int64_t rows) {
    int64_t total;
    if (__builtin_add_overflow(rows_, rows, &total)) return false;
    first_rows_.push_back(budget, rows_);
    places_.push_back(budget, place);
    rows_ = total;
    return true;
}

void BatchPlaces::fit(MemoryBudget& budget) {
    places_.fit(budget);
    first_rows_.fit(budget);
}

BatchPlaces::Number BatchPlaces::number(int64_t batch) const {
    const auto after = std::upper_bound(files_.begin(), files_.end(), batch,
                                        [](int64_t wanted, const FileBegin& begin) { return wanted < begin.batch; });
    SPILLWAY_CHECK(after != files_.begin());
    const FileBegin& found = *(after - 1);
    return {found.file, batch - found.batch};
}

int64_t BatchPlaces::extent(int64_t batch) const {
    if (batch + 1 >= count() || number(batch).file != number(batch + 1).file) return 0;
    return std::max<int64_t>(0, (*this)[batch + 1].offset - (*this)[batch].offset);
}

uint64_t FileBatches::counted_bytes() const {
    uint64_t bytes = records.counted_bytes() + dictionary_sets.counted_bytes();
    for (const Values& list : values) bytes += list.places.counted_bytes() + list.versions.counted_bytes();
    return bytes;
}

}  // namespace spillway
