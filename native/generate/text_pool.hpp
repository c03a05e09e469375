// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "generate/random.hpp"

namespace spillway {

// One fixed run of English words. A text value is a piece of it, so that a value costs one memcpy; 256 KiB stay in the
// second-level cache, and 2^18 begins times the lengths make enough different values for payload.
class TextPool {
  public:
    static constexpr uint32_t kBytes = 1u << 18;
    static constexpr uint32_t kLengthMax = 1u << 15;

    static const TextPool& instance();
    // Piece of `length` <= kLengthMax bytes; `random` picks where.
    const char* piece(uint64_t random, uint32_t length) const {
        return text_.data() + random_below(random, kBytes - length);
    }

  private:
    TextPool();
    std::string text_;
};

}  // namespace spillway
