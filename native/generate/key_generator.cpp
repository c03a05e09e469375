// SPDX-License-Identifier: Apache-2.0
#include "generate/key_generator.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace spillway {

namespace {

// Streams of one seed.
enum Purpose : uint64_t { kPermutationStream = 1, kDrawStream, kMatchStream };

uint64_t permuted_range(const GenerateSpec& spec) {
    return static_cast<uint64_t>(spec.key.role == KeyRole::kPrimary ? spec.rows : spec.key.domain_rows);
}

}  // namespace

int64_t key_value(const GeneratedKey& key, uint64_t index) {
    // Unsigned: the product alone may pass 2^63 where an offset below 0 brings the sum back.
    const auto dense =
        static_cast<int64_t>(index * static_cast<uint64_t>(key.stride) + static_cast<uint64_t>(key.offset));
    if (!key.sparse) return dense;
    if (key.width == 8) return static_cast<int64_t>(mix64(static_cast<uint64_t>(dense)));
    return static_cast<int32_t>(mix32(static_cast<uint32_t>(dense)));
}

uint64_t unmatched_key_range(const GeneratedKey& key) {
    const __int128 value_max =
        key.width == 8 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int32_t>::max();
    const __int128 indices = (value_max - key.offset) / key.stride + 1;
    const __int128 room = std::max<__int128>(0, indices - key.domain_rows);
    return static_cast<uint64_t>(std::min<__int128>(room, key.domain_rows));
}

KeyGenerator::KeyGenerator(const GenerateSpec& spec)
    : key_(spec.key),
      stream_(random_stream(spec.seed, kDrawStream)),
      match_stream_(random_stream(spec.seed, kMatchStream)),
      matched_rows_(static_cast<uint64_t>(std::llround(static_cast<double>(spec.rows) * spec.key.match_ratio))),
      rows_(static_cast<uint64_t>(spec.rows)),
      unmatched_range_(spec.key.role == KeyRole::kForeign ? unmatched_key_range(spec.key) : 0),
      permutation_(permuted_range(spec), random_stream(spec.seed, kPermutationStream)) {
    if (key_.role == KeyRole::kForeign && key_.zipf > 0 && key_.domain_rows > 0) {
        zipf_.emplace(static_cast<uint64_t>(key_.domain_rows), key_.zipf);
    }
}

template <class IndexOfRow>
void KeyGenerator::fill_with(int64_t first_row, int64_t rows, uint8_t* out, IndexOfRow index_of_row) const {
    const GeneratedKey key = key_;  // a copy: the stores below might alias the member
    const auto first = static_cast<uint64_t>(first_row);
    if (key.width == 8) {
        for (int64_t i = 0; i < rows; ++i) {
            const int64_t value = key_value(key, index_of_row(first + static_cast<uint64_t>(i)));
            std::memcpy(out + i * 8, &value, 8);
        }
    } else {
        for (int64_t i = 0; i < rows; ++i) {
            const auto value = static_cast<int32_t>(key_value(key, index_of_row(first + static_cast<uint64_t>(i))));
            std::memcpy(out + i * 4, &value, 4);
        }
    }
}

void KeyGenerator::fill(int64_t first_row, int64_t rows, uint8_t* out) const {
    const bool sorted = key_.order == KeyOrder::kSorted;
    if (key_.role == KeyRole::kForeign) {
        if (sorted) {
            fill_with(first_row, rows, out, [this](uint64_t row) { return sorted_foreign_index(row); });
        } else {
            fill_with(first_row, rows, out, [this](uint64_t row) { return foreign_index(row); });
        }
        return;
    }
    const auto duplicates = static_cast<uint64_t>(key_.duplicates);
    if (sorted) {
        fill_with(first_row, rows, out, [=](uint64_t row) { return row / duplicates; });
    } else if (duplicates == 1) {
        fill_with(first_row, rows, out, [permutation = permutation_](uint64_t row) { return permutation(row); });
    } else {
        fill_with(first_row, rows, out,
                  [=, permutation = permutation_](uint64_t row) { return permutation(row) / duplicates; });
    }
}

uint64_t KeyGenerator::foreign_index(uint64_t row) const {
    const auto domain = static_cast<uint64_t>(key_.domain_rows);
    if (key_.match_ratio < 1 && random_unit(random64(match_stream_, row)) >= key_.match_ratio) {
        return domain + random_below(random64(stream_, row), unmatched_range_);
    }
    if (!zipf_) return random_below(random64(stream_, row), domain);
    RandomSequence random(stream_, row);
    // Through the permutation hot keys lie anywhere in the key range, as in real data.
    return permutation_(zipf_->sample(random) - 1);
}

// Row r of m takes the quantile (r + random) / m, which rises with r.
uint64_t KeyGenerator::sorted_foreign_index(uint64_t row) const {
    const bool matched = row < matched_rows_;
    const uint64_t range = matched ? static_cast<uint64_t>(key_.domain_rows) : unmatched_range_;
    const auto rank = static_cast<double>(matched ? row : row - matched_rows_);
    const auto rows = static_cast<double>(matched ? matched_rows_ : rows_ - matched_rows_);
    const double quantile = (rank + random_unit(random64(stream_, row))) / rows;
    if (matched && zipf_) return zipf_->quantile(quantile) - 1;
    const auto index = std::min(range - 1, static_cast<uint64_t>(quantile * static_cast<double>(range)));
    return matched ? index : static_cast<uint64_t>(key_.domain_rows) + index;
}

}  // namespace spillway
