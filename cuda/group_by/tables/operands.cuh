// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/tables/slot_words.cuh"

// What rows of a tile add to accumulators.
namespace spillway::cuda { inline namespace grouping {

// Integers that compare as floats do: NaN above all and equal, -0 equal to +0.
__device__ inline uint32_t order_bits(uint32_t bits) {
    if (bits << 1 == 0) bits = 0;
    if (bits << 1 > 0xff000000U) bits = 0x7fc00000U;
    return bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
}
__device__ inline uint64_t order_bits(uint64_t bits) {
    if (bits << 1 == 0) bits = 0;
    if (bits << 1 > 0xffe0000000000000ULL) bits = 0x7ff8000000000000ULL;
    return bits >> 63 != 0 ? ~bits : bits | 1ULL << 63;
}
__device__ inline uint32_t bits_of_order(uint32_t order) {
    return order >> 31 != 0 ? order ^ 0x80000000U : ~order;
}
__device__ inline uint64_t bits_of_order(uint64_t order) {
    return order >> 63 != 0 ? order ^ 1ULL << 63 : ~order;
}

__device__ inline uint64_t load_bits(const unsigned char* at, uint32_t width) {
    switch (width) {
        case 1:
            return *at;
        case 2:
            return *reinterpret_cast<const uint16_t*>(at);
        case 4:
            return *reinterpret_cast<const uint32_t*>(at);
        default: {
            // Fields of packed rows lie at multiples of 4 bytes.
            const auto* const words = reinterpret_cast<const uint32_t*>(at);
            return words[0] | static_cast<uint64_t>(words[1]) << 32;
        }
    }
}

__device__ inline uint64_t sign_extended(uint64_t bits, uint32_t width) {
    const uint32_t unused = 64 - 8 * width;
    return static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused);
}

__device__ inline uint32_t order_word(const Accumulator& a, uint32_t bits) {
    return (a.is_float ? order_bits(bits) : bits) ^ static_cast<uint32_t>(a.flip);
}

__device__ inline unsigned long long order_word(const Accumulator& a, unsigned long long bits) {
    return (a.is_float ? order_bits(static_cast<uint64_t>(bits)) : bits) ^ a.flip;
}

// bits: of the value, with zeros above.
__device__ inline Operand operand_of(const Accumulator& a, uint64_t bits) {
    if (a.counts) return Operand::of(1);
    const uint64_t number = a.is_signed ? sign_extended(bits, a.value.width) : bits;
    switch (a.op) {
        case AccumulatorOp::kMax32:
            return Operand::of(order_word(a, static_cast<uint32_t>(number)));
        case AccumulatorOp::kMax64:
            return Operand::of(order_word(a, static_cast<unsigned long long>(number)));
        case AccumulatorOp::kAddDouble: {
            if (a.value.width == 8) return Operand::of(number);
            const double value = __uint_as_float(static_cast<uint32_t>(number));
            return Operand::of(static_cast<unsigned long long>(__double_as_longlong(value)));
        }
        default:
            return Operand::of(number, a.is_signed && number >> 63 != 0 ? ~0U : 0);
    }
}

// A tile of rows in shared memory.
struct StagedRows {
    const unsigned char* staged;
    uint64_t first_row;
    uint32_t rows;

    __device__ uint64_t bits(const TileField& field, const TileField& row_number, uint32_t i) const {
        if (field.place == FieldPlace::kStaged) {
            return load_bits(staged + field.base_bytes + i * field.stride_bytes, field.width);
        }
        const uint64_t row =
            row_number.place == FieldPlace::kTileRow
                ? first_row + i
                : load_bits(staged + row_number.base_bytes + i * row_number.stride_bytes, row_number.width);
        if (field.place == FieldPlace::kTileRow) return row;
        return load_bits(field.column + row * field.width, field.width);
    }
};

}}  // namespace spillway::cuda::grouping
