// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/materialize/column_gather.hpp"
#include "model/row_layout.hpp"

namespace spillway {

// Are the keys of two rows equal that had the same hash? Of rows of two relations, whose key columns were matched.
class KeyMatch {
  public:
    // Parts with their columns' types, as RowLayout::make gives them.
    KeyMatch(std::vector<KeyPart> left, std::vector<KeyPart> right);
    size_t parts() const { return left_.size(); }
    // Part p of both. NULLs equal each other: where they must not, such rows have no hash.
    bool equal(size_t p, const ValuePlace& left, const ValuePlace& right);

  private:
    const std::vector<KeyPart> left_;
    const std::vector<KeyPart> right_;
    std::vector<uint8_t> values_[2];
};

}  // namespace spillway
