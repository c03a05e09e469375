// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/chunk_values.hpp"

#include <cstring>
#include <limits>

#include "base/bit_range.hpp"
#include "base/error.hpp"

namespace spillway {

namespace {

uint64_t bits_of(double value, uint32_t width) {
    uint64_t bits = 0;
    if (width == sizeof(float)) {
        const auto narrow = static_cast<float>(value);
        std::memcpy(&bits, &narrow, sizeof narrow);
    } else {
        std::memcpy(&bits, &value, sizeof value);
    }
    return bits;
}

// The value that no other is less than, or greater than. NaN is the largest float (cpu/group_by/value_order.hpp).
uint64_t extreme_of(const ColumnType& type, uint32_t width, bool largest) {
    using Double = std::numeric_limits<double>;
    if (type.layout == Layout::kFixed && type.order == Order::kFloat) {
        return bits_of(largest ? Double::quiet_NaN() : -Double::infinity(), width);
    }
    const uint64_t ones = ~uint64_t{0} >> (64 - 8 * width);
    if (type.layout == Layout::kBool || type.order == Order::kUnsigned) return largest ? ones : 0;
    return largest ? ones >> 1 : (ones >> 1) + 1;
}

void write_halves(const ColumnView& view, bool high, uint64_t rows, uint8_t* out) {
    for (uint64_t i = 0; i < rows; ++i) {
        std::memcpy(out + i * sizeof(uint32_t), view.data + i * sizeof(uint64_t) + (high ? sizeof(uint32_t) : 0),
                    sizeof(uint32_t));
    }
}

void fill_nulls(const ColumnView& view, ChunkFill fill, uint32_t width, uint64_t rows, uint8_t* out) {
    if (fill == ChunkFill::kNone || view.validity == nullptr) return;
    SPILLWAY_CHECK(width <= sizeof(uint64_t));
    const uint64_t bits = fill == ChunkFill::kZero ? 0 : extreme_of(*view.type, width, fill == ChunkFill::kLargest);
    for (uint64_t i = 0; i < rows; ++i) {
        if (!view.is_valid(static_cast<int64_t>(i))) std::memcpy(out + i * width, &bits, width);
    }
}

}  // namespace

void write_chunk_values(const ColumnView& view, const ChunkColumn& column, uint64_t rows, uint8_t* out) {
    const uint32_t width = chunk_width(column, *view.type);
    if (column.part != ChunkPart::kWhole) {
        write_halves(view, column.part == ChunkPart::kHigh, rows, out);
    } else if (view.type->layout == Layout::kBool) {
        for (uint64_t i = 0; i < rows; ++i) {
            out[i] = get_bit(view.data, view.data_bit + static_cast<int64_t>(i)) ? 1 : 0;
        }
    } else {
        std::memcpy(out, view.data, rows * width);
    }
    fill_nulls(view, column.fill, width, rows, out);
}

}  // namespace spillway
