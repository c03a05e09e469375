// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "support/test.hpp"

namespace spillway::test::batches {

template <class Value>
Value load(const std::vector<uint8_t>& bytes, size_t position) {
    Value value;
    EXPECT(position + sizeof value <= bytes.size());
    std::memcpy(&value, bytes.data() + position, sizeof value);
    return value;
}

// Just enough of a flatbuffer reader to see what was written.
struct FlatTable {
    const std::vector<uint8_t>& bytes;
    size_t position;

    static FlatTable at(const std::vector<uint8_t>& bytes, size_t reference) {
        return {bytes, reference + load<uint32_t>(bytes, reference)};
    }
    size_t field(int slot) const {
        const size_t vtable = position - static_cast<size_t>(load<int32_t>(bytes, position));
        EXPECT(4 + 2 * slot < load<uint16_t>(bytes, vtable));
        const auto offset = load<uint16_t>(bytes, vtable + 4 + 2 * static_cast<size_t>(slot));
        EXPECT(offset != 0 && offset < load<uint16_t>(bytes, vtable + 2));
        return position + offset;
    }
    template <class Value>
    Value get(int slot) const {
        EXPECT_EQ(field(slot) % sizeof(Value), size_t{0});
        return load<Value>(bytes, field(slot));
    }
    FlatTable child(int slot) const { return at(bytes, field(slot)); }
    // Pairs of int64.
    std::vector<std::pair<int64_t, int64_t>> structs(int slot) const {
        const size_t vector = child(slot).position;
        EXPECT_EQ((vector + 4) % 8, size_t{0});
        std::vector<std::pair<int64_t, int64_t>> all;
        for (uint32_t i = 0; i < load<uint32_t>(bytes, vector); ++i) {
            all.emplace_back(load<int64_t>(bytes, vector + 4 + 16 * i), load<int64_t>(bytes, vector + 12 + 16 * i));
        }
        return all;
    }
};

}  // namespace spillway::test::batches
