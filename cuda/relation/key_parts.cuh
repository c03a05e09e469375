// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "primitive/mix.cuh"
#include "relation/byte_words.cuh"
#include "relation/key_columns.hpp"
#include "relation/relation_grid.cuh"
#include "relation/relation_policy.hpp"

// Normalized key columns on the device, as native/cpu/row/key_normalizer.cpp has them on the host: equal keys have
// equal words or bytes.
namespace spillway::cuda { inline namespace relation {

// A key column as kernels see it.
struct PartView {
    const uint8_t* values = nullptr;
    const uint64_t* offsets = nullptr;  // kBytes
    const uint32_t* valid = nullptr;
    uint32_t from_width = 0;  // of the column's values
    uint32_t width = 0;       // normalized; kBytes: 0
    KeyPartKind kind = KeyPartKind::kSigned;
};

// The key columns of one side.
struct KeyView {
    uint64_t rows = 0;
    int parts = 0;
    bool nulls_equal = false;
    PartView part[kKeyPartsMax];
};

// Keys as numbers of rows, see number_keys.cu.
struct NumberedKeys {
    Allocation numbers;
    Allocation found;  // of the probe side: a bit per row, 1 = the build side has the key
};
struct NumberedSides {
    uint32_t width = 4;  // of the numbers
    NumberedKeys build;
    NumberedKeys probe;
};
// probe: nullptr for a group-by.
NumberedSides number_keys(Device& device, const KeyView& build, const KeyView* probe, const KeyOptions& options);

__device__ inline uint64_t width_mask(uint32_t width) {
    return width >= 8 ? ~0ULL : (1ULL << (width * 8)) - 1;
}

__device__ inline uint64_t canonical(float value) {
    if (isnan(value)) return 0x7fc00000U;
    return value == 0.0F ? 0 : __float_as_uint(value);
}
__device__ inline uint64_t canonical(double value) {
    if (isnan(value)) return 0x7ff8000000000000ULL;
    return value == 0.0 ? 0 : static_cast<uint64_t>(__double_as_longlong(value));
}

template <class T>
__device__ inline T value_at(const uint8_t* values, uint64_t row) {
    return __ldg(&reinterpret_cast<const T*>(values)[row]);
}

__device__ inline uint64_t float_word(const PartView& part, uint64_t row) {
    if (part.from_width == 8) return canonical(value_at<double>(part.values, row));
    const float value = part.from_width == 4
                            ? value_at<float>(part.values, row)
                            : __half2float(__ushort_as_half(value_at<unsigned short>(part.values, row)));
    return part.width == 8 ? canonical(static_cast<double>(value)) : canonical(value);
}

// With the sign or with zeros in front.
__device__ inline uint64_t integer_word(const PartView& part, uint64_t row) {
    const bool is_signed = part.kind == KeyPartKind::kSigned;
    switch (part.from_width) {
        case 1: {
            const uint64_t value = value_at<uint8_t>(part.values, row);
            return is_signed ? static_cast<uint64_t>(static_cast<int64_t>(static_cast<int8_t>(value))) : value;
        }
        case 2: {
            const uint64_t value = value_at<uint16_t>(part.values, row);
            return is_signed ? static_cast<uint64_t>(static_cast<int64_t>(static_cast<int16_t>(value))) : value;
        }
        case 4: {
            const uint64_t value = value_at<uint32_t>(part.values, row);
            return is_signed ? static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(value))) : value;
        }
        default:
            return value_at<unsigned long long>(part.values, row);
    }
}

// A value of a part of at most 8 bytes, which is not NULL.
__device__ inline uint64_t part_word(const PartView& part, uint64_t row) {
    if (part.kind == KeyPartKind::kFloat) return float_word(part, row);
    const uint32_t width = part.from_width;
    if (part.kind != KeyPartKind::kFixed || (width & (width - 1)) == 0) {
        return integer_word(part, row) & width_mask(part.width);
    }
    uint64_t word = 0;
    for (uint32_t byte = 0; byte < width; ++byte) {
        word |= static_cast<uint64_t>(__ldg(&part.values[row * width + byte])) << (byte * 8);
    }
    return word;
}

__device__ inline bool is_word(const PartView& part) {
    return part.width > 0 && part.width <= 8;
}

// A value of any other part.
__device__ inline ByteSpan part_bytes(const PartView& part, uint64_t row) {
    if (part.kind != KeyPartKind::kBytes) return {part.values + row * part.width, part.width};
    const uint64_t begin = __ldg(&part.offsets[row]);
    return {part.values + begin, __ldg(&part.offsets[row + 1]) - begin};
}

__device__ inline bool has_key(const KeyView& keys, uint64_t row) {
    if (keys.nulls_equal) return true;
    for (int p = 0; p < keys.parts; ++p) {
        if (!is_set(keys.part[p].valid, row)) return false;
    }
    return true;
}

// A step of the hash is a product, whose low half takes its high half in, so that later words cannot undo earlier ones.
__device__ inline uint64_t hash_step(uint64_t hash, uint32_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
    return hash ^ (hash >> 32);
}

__device__ inline uint64_t hash_key(const KeyView& keys, uint64_t row) {
    uint64_t hash = 0x5350494c4c574159ULL;  // any
    for (int p = 0; p < keys.parts; ++p) {
        const PartView& part = keys.part[p];
        if (!is_set(part.valid, row)) {
            hash = hash_step(hash, 0x4e554c4cU);
        } else if (is_word(part)) {
            const uint64_t word = part_word(part, row);
            hash = hash_step(hash, static_cast<uint32_t>(word));
            if (part.width > 4) hash = hash_step(hash, static_cast<uint32_t>(word >> 32));
        } else {
            const ByteSpan span = part_bytes(part, row);
            hash = hash_step(hash, static_cast<uint32_t>(span.bytes));
            for (ByteWords words(span); words.more();) hash = hash_step(hash, words.next());
        }
    }
    return mix64(hash);
}

// Both rows have a key. NULL equals NULL: where it does not, a row with one has none.
__device__ inline bool equal_keys(const KeyView& a, uint64_t a_row, const KeyView& b, uint64_t b_row) {
    for (int p = 0; p < a.parts; ++p) {
        const PartView& a_part = a.part[p];
        const PartView& b_part = b.part[p];
        const bool is_valid = is_set(a_part.valid, a_row);
        if (is_valid != is_set(b_part.valid, b_row)) return false;
        if (!is_valid) continue;
        if (is_word(a_part)) {
            if (part_word(a_part, a_row) != part_word(b_part, b_row)) return false;
        } else if (!equal_bytes(part_bytes(a_part, a_row), part_bytes(b_part, b_row))) {
            return false;
        }
    }
    return true;
}

}}  // namespace spillway::cuda::relation
