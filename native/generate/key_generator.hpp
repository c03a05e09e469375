// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "generate/generate_spec.hpp"
#include "generate/permutation.hpp"
#include "generate/zipf.hpp"

namespace spillway {

// Key index k of a domain -> key value: k * stride + offset, scattered over the whole width when sparse. A function of
// the key's shape alone, so that relations with different seeds refer to each other.
int64_t key_value(const GeneratedKey& key, uint64_t index);

// Indices that rows without a partner may take: [domain_rows, domain_rows + this); 0 when the width has no room.
uint64_t unmatched_key_range(const GeneratedKey& key);

// Key column of any rows of a relation.
class KeyGenerator {
  public:
    explicit KeyGenerator(const GenerateSpec& spec);
    // Writes `rows` values of key.width bytes from row number `first_row` on.
    void fill(int64_t first_row, int64_t rows, uint8_t* out) const;

  private:
    template <class IndexOfRow>
    void fill_with(int64_t first_row, int64_t rows, uint8_t* out, IndexOfRow index_of_row) const;
    uint64_t foreign_index(uint64_t row) const;
    uint64_t sorted_foreign_index(uint64_t row) const;

    const GeneratedKey key_;
    const uint64_t stream_;
    const uint64_t match_stream_;
    const uint64_t matched_rows_;  // kSorted: the first rows have a partner
    const uint64_t rows_;
    const uint64_t unmatched_range_;
    const Permutation permutation_;  // kPrimary: of the rows; kForeign: of the domain (ranks of Zipf to indices)
    std::optional<ZipfDistribution> zipf_;
};

}  // namespace spillway
