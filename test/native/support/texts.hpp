// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "cpu/row/key_normalizer.hpp"

namespace spillway::test {

inline ByteString bytes_of(const std::string& text) {
    return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

inline std::string string_of(ByteString text) {
    return text.length == 0 ? std::string() : std::string(reinterpret_cast<const char*>(text.bytes), text.length);
}

// Another text for each number.
inline std::string nth(int i) {
    return i % 1000 == 0 ? std::string(static_cast<size_t>(i / 1000), 'x') : "value " + std::to_string(i);
}

}  // namespace spillway::test
