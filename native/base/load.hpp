// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

namespace spillway {

// The value of that index where values of this type lie one behind the other, aligned or not.
template <class T>
T load(const uint8_t* data, int64_t index = 0) {
    T value;
    std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
}

}  // namespace spillway
