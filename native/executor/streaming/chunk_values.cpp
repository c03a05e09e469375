// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/chunk_values.hpp"

#include <cstring>
#include <limits>

#include "base/bitmap.hpp"
#include "base/error.hpp"
#include "device/gpu_error.hpp"

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
uint64_t extreme_of(const ColumnType& type, ChunkPart part, uint32_t width, bool largest) {
    using Double = std::numeric_limits<double>;
    if (type.layout == Layout::kFixed && type.order == Order::kFloat) {
        return bits_of(largest ? Double::quiet_NaN() : -Double::infinity(), width);
    }
    const uint64_t ones = ~uint64_t{0} >> (64 - 8 * width);
    // A lower half has no sign.
    const bool is_unsigned = type.order == Order::kUnsigned || part == ChunkPart::kHalf0;
    if (type.layout == Layout::kBool || is_unsigned) return largest ? ones : 0;
    return largest ? ones >> 1 : (ones >> 1) + 1;
}

// Little-endian: the low bytes of a decimal come first. Its other half repeats the sign of the lower one, or it does
// not fit: no type says that it does, only its digits. Without a branch, as nearly always all fit.
bool all_narrow(const uint8_t* values, uint64_t rows) {
    uint64_t differing = 0;
    for (uint64_t i = 0; i < rows; ++i) {
        int64_t halves[2];
        std::memcpy(halves, values + i * sizeof halves, sizeof halves);
        differing |= static_cast<uint64_t>(halves[1] ^ (halves[0] >> 63));
    }
    return differing == 0;
}

// What lies in the place of NULL may be anything.
void check_narrow(const ColumnView& view, uint64_t rows) {
    constexpr uint64_t kBytes = 16;
    for (uint64_t i = 0; i < rows; ++i) {
        int64_t halves[2];
        std::memcpy(halves, view.data + i * kBytes, sizeof halves);
        if (halves[1] == halves[0] >> 63 || !view.is_valid(static_cast<int64_t>(i))) continue;
        throw Error(ErrorCode::kUnsupportedType,
                    "column '" + view.type->name +
                        "' has a decimal of more digits than its type says, and the GPU was to take 64 bits of each; "
                        "use device \"cpu\", or a type with as many digits as there are",
                    {{"column", view.type->name}, refused_by_device()});
    }
}

// Some bytes of each value, so many from so many.
template <uint64_t kWidth, uint64_t kStride>
void write_bytes_of(const uint8_t* values, uint64_t rows, uint8_t* out) {
    for (uint64_t i = 0; i < rows; ++i) std::memcpy(out + i * kWidth, values + i * kStride, kWidth);
}

void write_part(const ColumnView& view, ChunkPart part, uint64_t rows, uint8_t* out) {
    const PartPlace place = place_of(part);
    const uint8_t* const values = view.data + place.offset;
    if (is_of_128(part)) {
        return place.width == 4 ? write_bytes_of<4, 16>(values, rows, out) : write_bytes_of<8, 16>(values, rows, out);
    }
    if (view.type->byte_width == sizeof(uint64_t)) return write_bytes_of<4, 8>(values, rows, out);
    // Low and high halves come in pairs, so that one of them is enough to look at.
    if (part != ChunkPart::kHigh && !all_narrow(view.data, rows)) check_narrow(view, rows);
    if (part == ChunkPart::kNarrow) return write_bytes_of<8, 16>(values, rows, out);
    write_bytes_of<4, 16>(values, rows, out);
}

void fill_nulls(const ColumnView& view, const ChunkColumn& column, uint32_t width, uint64_t rows, uint8_t* out) {
    if (column.fill == ChunkFill::kNone || view.validity == nullptr) return;
    SPILLWAY_CHECK(width <= sizeof(uint64_t));
    const uint64_t bits = fill_bits(*view.type, column.part, width, column.fill);
    for (uint64_t i = 0; i < rows; ++i) {
        if (!view.is_valid(static_cast<int64_t>(i))) std::memcpy(out + i * width, &bits, width);
    }
}

}  // namespace

uint32_t chunk_width(const ColumnType& type) {
    if (type.layout == Layout::kBool) return 1;
    if (type.layout == Layout::kDictionary) return sizeof(int32_t);
    if (type.layout != Layout::kFixed) return 0;
    const auto width = static_cast<uint32_t>(type.byte_width);
    return width > 0 && width <= 16 && (width & (width - 1)) == 0 ? width : 0;
}

uint32_t chunk_width(const ChunkColumn& column, const ColumnType& type) {
    if (column.validity || column.distinct) return 1;
    if (is_text_extreme(column.part)) return is_text(type) ? sizeof(uint64_t) : 0;
    if (column.part == ChunkPart::kWhole && is_text(type)) return kTextCodeBytes;
    const uint32_t width = chunk_width(type);
    if (column.part == ChunkPart::kWhole) return width;
    const bool is_wide = type.layout == Layout::kFixed && width == 2 * sizeof(uint64_t);
    if (is_of_128(column.part)) return is_wide ? place_of(column.part).width : 0;
    const bool decimal = is_wide && type.order == Order::kDecimal;
    if (column.part == ChunkPart::kNarrow) return decimal ? sizeof(uint64_t) : 0;
    return width == sizeof(uint64_t) || decimal ? sizeof(uint32_t) : 0;
}

PartPlace place_of(ChunkPart part) {
    switch (part) {
        case ChunkPart::kLow:
        case ChunkPart::kQuarter0:
            return {0, 4};
        case ChunkPart::kHigh:
        case ChunkPart::kQuarter1:
            return {4, 4};
        case ChunkPart::kQuarter2:
            return {8, 4};
        case ChunkPart::kQuarter3:
            return {12, 4};
        case ChunkPart::kHalf1:
            return {8, 8};
        default:
            return {0, 8};
    }
}

uint64_t fill_bits(const ColumnType& type, ChunkPart part, uint32_t width, ChunkFill fill) {
    if (fill == ChunkFill::kNone || fill == ChunkFill::kZero) return 0;
    return extreme_of(type, part, width, fill == ChunkFill::kLargest);
}

void write_chunk_values(const ColumnView& view, const ChunkColumn& column, uint64_t rows, uint8_t* out) {
    const uint32_t width = chunk_width(column, *view.type);
    if (column.part != ChunkPart::kWhole) {
        write_part(view, column.part, rows, out);
    } else if (view.type->layout == Layout::kBool) {
        for (uint64_t i = 0; i < rows; ++i) {
            out[i] = get_bit(view.data, view.data_bit + static_cast<int64_t>(i)) ? 1 : 0;
        }
    } else {
        std::memcpy(out, view.data, rows * width);
    }
    fill_nulls(view, column, width, rows, out);
}

}  // namespace spillway
