// SPDX-License-Identifier: Apache-2.0
#include "cpu/group_by/dictionary_order.hpp"

#include <algorithm>
#include <numeric>

#include "cpu/group_by/value_order.hpp"
#include "cpu/row/key_normalizer.hpp"

namespace spillway {

namespace {

template <class Less>
void sort_indices(uint32_t* indices, int64_t count, Less less) {
    std::iota(indices, indices + count, 0u);
    std::sort(indices, indices + count, less);
}

void sort_values(const ColumnView& values, uint32_t* indices) {
    const ColumnType& type = *values.type;
    if (type.is_bytes()) {
        return sort_indices(indices, values.length, [&](uint32_t a, uint32_t b) {
            const ByteString x = byte_string(values, a);
            const ByteString y = byte_string(values, b);
            return compare_bytes(x.bytes, x.length, y.bytes, y.length) < 0;
        });
    }
    if (type.layout == Layout::kBool) {
        return sort_indices(indices, values.length, [&](uint32_t a, uint32_t b) {
            return !get_bit(values.data, values.data_bit + a) && get_bit(values.data, values.data_bit + b);
        });
    }
    SPILLWAY_CHECK(type.layout == Layout::kFixed);
    const auto width = static_cast<int64_t>(type.byte_width);
    const NumberKind kind = number_kind(type);
    if (kind == NumberKind::kNone) {
        return sort_indices(indices, values.length, [&](uint32_t a, uint32_t b) {
            return compare_fixed(type, values.data + a * width, values.data + b * width) < 0;
        });
    }
    sort_indices(indices, values.length, [&](uint32_t a, uint32_t b) {
        return order_word_of_number(kind, load_number(kind, values.data + a * width)) <
               order_word_of_number(kind, load_number(kind, values.data + b * width));
    });
}

}  // namespace

DictionaryOrder::DictionaryOrder(const Dictionary& dictionary, MemoryBudget& budget) {
    const int64_t count = dictionary.values.length;
    const uint64_t bytes = std::max<uint64_t>(static_cast<uint64_t>(count) * sizeof(uint32_t), 1);
    ranks_ = Buffer::allocate(budget, bytes, "order of dictionary values");
    indices_ = Buffer::allocate(budget, bytes, "order of dictionary values");
    auto* ranks = reinterpret_cast<uint32_t*>(ranks_.data());
    auto* indices = reinterpret_cast<uint32_t*>(indices_.data());
    sort_values(dictionary.values, indices);
    for (int64_t rank = 0; rank < count; ++rank) ranks[indices[rank]] = static_cast<uint32_t>(rank);
}

}  // namespace spillway
