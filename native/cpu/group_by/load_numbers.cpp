// SPDX-License-Identifier: Apache-2.0
#include "cpu/group_by/load_numbers.hpp"

#include <bit>

#include "base/load.hpp"

namespace spillway {

namespace {

template <class T, class To>
void widen(const uint8_t* values, int64_t count, uint64_t* out, To to) {
    for (int64_t i = 0; i < count; ++i) out[i] = to(load<T>(values, i));
}

uint64_t extended(int64_t value) {
    return static_cast<uint64_t>(value);
}

}  // namespace

void load_numbers(NumberKind kind, const ColumnView& view, int64_t begin, int64_t count, uint64_t* out) {
    if (view.type->layout == Layout::kBool) {
        for (int64_t i = 0; i < count; ++i) out[i] = get_bit(view.data, view.data_bit + begin + i);
        return;
    }
    const uint8_t* values = view.data + begin * view.type->byte_width;
    switch (kind) {
        case NumberKind::kI8:
            return widen<int8_t>(values, count, out, extended);
        case NumberKind::kI16:
            return widen<int16_t>(values, count, out, extended);
        case NumberKind::kI32:
            return widen<int32_t>(values, count, out, extended);
        case NumberKind::kU8:
            return widen<uint8_t>(values, count, out, extended);
        case NumberKind::kU16:
            return widen<uint16_t>(values, count, out, extended);
        case NumberKind::kU32:
            return widen<uint32_t>(values, count, out, extended);
        case NumberKind::kF16:
            return widen<uint16_t>(values, count, out,
                                   [](uint16_t value) { return std::bit_cast<uint64_t>(half_to_double(value)); });
        case NumberKind::kF32:
            return widen<float>(values, count, out, [](float value) { return std::bit_cast<uint64_t>(double{value}); });
        default:
            return widen<uint64_t>(values, count, out, [](uint64_t value) { return value; });
    }
}

bool any_null(const ColumnView& view, int64_t begin, int64_t count) {
    if (view.validity == nullptr) return false;
    const uint8_t* bits = view.validity;
    int64_t bit = view.validity_bit + begin;
    const int64_t end = bit + count;
    for (; bit < end && bit % 8 != 0; ++bit) {
        if (!get_bit(bits, bit)) return true;
    }
    uint64_t all = ~uint64_t{0};
    for (; bit + 64 <= end; bit += 64) all &= load<uint64_t>(bits + bit / 8);
    for (; bit < end; ++bit) {
        if (!get_bit(bits, bit)) return true;
    }
    return all != ~uint64_t{0};
}

}  // namespace spillway
