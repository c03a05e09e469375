// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/text_lengths.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/parallel.hpp"
#include "cpu/row/key_normalizer.hpp"
#include "executor/cpu/morsel_reader.hpp"

namespace spillway {

namespace {

constexpr int64_t kTextMorselRows = 65536;

uint64_t longest_of(const Dictionary& dictionary) {
    uint64_t longest = 0;
    for (int64_t i = 0; i < dictionary.values.length; ++i) {
        if (dictionary.values.is_valid(i)) longest = std::max(longest, byte_string(dictionary.values, i).length);
    }
    return longest;
}

}  // namespace

std::vector<uint64_t> longest_texts(Source& source, const std::vector<int32_t>& columns, int workers,
                                    MemoryBudget& budget, JobControl& control) {
    std::vector<uint64_t> longest(columns.size(), 0);
    std::vector<int32_t> dictionaries;
    std::vector<int32_t> plain;
    std::vector<size_t> places;
    for (size_t c = 0; c < columns.size(); ++c) {
        if (source.columns()[static_cast<size_t>(columns[c])]->layout == Layout::kDictionary) {
            dictionaries.push_back(columns[c]);
        } else {
            plain.push_back(columns[c]);
            places.push_back(c);
        }
    }
    source.load_dictionaries(dictionaries, budget, control);
    for (size_t c = 0; c < columns.size(); ++c) {
        const ColumnType& type = *source.columns()[static_cast<size_t>(columns[c])];
        if (type.layout == Layout::kDictionary) longest[c] = longest_of(*type.dictionary);
    }
    if (plain.empty() || source.rows() == 0) return longest;
    MorselQueue queue(source, kTextMorselRows);
    std::mutex mutex;
    // The job's own flag would end what it asks of other sources at the same time, which may have the memory for it.
    std::atomic<bool> failed{false};
    parallel_run(
        workers_for(workers, source, kTextMorselRows),
        [&](int) {
            std::vector<uint64_t> own(plain.size(), 0);
            SourceReader reader(source, plain, budget, control);
            for (Morsel morsel; !failed.load(std::memory_order_relaxed) && queue.next(morsel);) {
                control.check();
                for (size_t c = 0; c < plain.size(); ++c) {
                    own[c] = std::max(own[c], reader.longest_value(c, morsel.batch, morsel.row, morsel.rows));
                }
            }
            const std::lock_guard<std::mutex> lock(mutex);
            for (size_t c = 0; c < plain.size(); ++c) longest[places[c]] = std::max(longest[places[c]], own[c]);
        },
        [&] { failed.store(true, std::memory_order_relaxed); });
    return longest;
}

}  // namespace spillway
