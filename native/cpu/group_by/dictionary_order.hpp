// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "memory/buffer.hpp"
#include "model/column_view.hpp"

namespace spillway {

// Rank of each dictionary value in the order of its type, so that min and max of a dictionary column compare numbers
// instead of decoding two values per row. Sorting costs once per stage and dictionary.
class DictionaryOrder {
  public:
    DictionaryOrder(const Dictionary& dictionary, MemoryBudget& budget);
    uint64_t rank(int32_t index) const { return ranks()[index]; }
    int32_t index(uint64_t rank) const { return static_cast<int32_t>(indices()[rank]); }

  private:
    const uint32_t* ranks() const { return reinterpret_cast<const uint32_t*>(ranks_.data()); }
    const uint32_t* indices() const { return reinterpret_cast<const uint32_t*>(indices_.data()); }
    Buffer ranks_;
    Buffer indices_;
};

}  // namespace spillway
