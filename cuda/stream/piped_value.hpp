// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "api/pipe_spec.hpp"
#include "primitive/mix.cuh"

// What a pipe makes of one result row: the key and the columns of a chunk's row. On a GPU and on the host, so that both
// give the same; without CUDA where the compiler has none.
namespace spillway::cuda { inline namespace stream {

// Up to 16 bytes, the lowest first. Those behind a value are 0.
struct alignas(16) PipedValue {
    uint64_t low = 0;
    uint64_t high = 0;
};

// A column of result rows, of 1, 2, 4, 8 or 16 bytes a value. Kernels need it aligned to them.
struct PipedColumn {
    const void* data = nullptr;
    uint32_t width = 0;
};

// All columns of the result, by number.
struct PipedColumns {
    PipedColumn column[kResultColumnsMax];
};

// Its words by constant numbers: a kernel keeps them in registers then.
struct PipedKey {
    uint64_t word[kPipeKeyWordsMax] = {};  // a single one in as many low bytes as the key has
    bool exists = true;                    // the row has a key

    SPILLWAY_HOST_DEVICE void add(uint32_t at, uint64_t bits) {
        for (uint32_t w = 0; w < kPipeKeyWordsMax; ++w) word[w] |= w == at ? bits : 0;
    }
    // Rows whose first words are equal, and others are not, go to different partitions.
    SPILLWAY_HOST_DEVICE void mix_first(uint32_t others) {
        uint64_t mixed = 0;
        for (uint32_t w = kPipeKeyWordsMax - 1; w > 0; --w) {
            if (w <= others) mixed = mix64(word[w] ^ mixed);
        }
        if (others > 0) word[0] ^= mixed;
    }
};

SPILLWAY_HOST_DEVICE constexpr uint64_t low_bytes(uint32_t bytes) {
    return bytes >= 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * bytes) - 1;
}

// One load on a GPU; the host has columns that begin anywhere.
template <class T>
SPILLWAY_HOST_DEVICE inline T load_piped(const void* data, uint64_t row) {
#ifdef __CUDA_ARCH__
    return static_cast<const T*>(data)[row];
#else
    T value;
    std::memcpy(&value, static_cast<const uint8_t*>(data) + row * sizeof(T), sizeof(T));
    return value;
#endif
}

template <class T>
SPILLWAY_HOST_DEVICE inline void store_piped(void* data, uint64_t row, T value) {
#ifdef __CUDA_ARCH__
    static_cast<T*>(data)[row] = value;
#else
    std::memcpy(static_cast<uint8_t*>(data) + row * sizeof(T), &value, sizeof(T));
#endif
}

SPILLWAY_HOST_DEVICE inline PipedValue read_piped(const PipedColumn& column, uint64_t row) {
    PipedValue cell;
    switch (column.width) {
        case 1:
            cell.low = load_piped<uint8_t>(column.data, row);
            break;
        case 2:
            cell.low = load_piped<uint16_t>(column.data, row);
            break;
        case 4:
            cell.low = load_piped<uint32_t>(column.data, row);
            break;
        case 8:
            cell.low = load_piped<uint64_t>(column.data, row);
            break;
        default:
            cell = load_piped<PipedValue>(column.data, row);
    }
    return cell;
}

// The low `width` bytes of a value to a row of a column that is so wide.
SPILLWAY_HOST_DEVICE inline void write_piped(void* data, uint32_t width, uint64_t row, const PipedValue& value) {
    switch (width) {
        case 1:
            return store_piped(data, row, static_cast<uint8_t>(value.low));
        case 2:
            return store_piped(data, row, static_cast<uint16_t>(value.low));
        case 4:
            return store_piped(data, row, static_cast<uint32_t>(value.low));
        case 8:
            return store_piped(data, row, value.low);
        default:
            return store_piped(data, row, value);
    }
}

// Values begin at any byte of their column: parts of keys have no gaps between them.
SPILLWAY_HOST_DEVICE inline PipedValue cut_piped(PipedValue cell, uint32_t offset, uint32_t width) {
    if (offset >= 8) {
        cell.low = cell.high >> 8 * (offset - 8);
        cell.high = 0;
    } else if (offset > 0) {
        cell.low = cell.low >> 8 * offset | cell.high << (64 - 8 * offset);
        cell.high >>= 8 * offset;
    }
    cell.low &= low_bytes(width);
    if (width <= 8) cell.high = 0;
    return cell;
}

// By its bits: no NaN goes through arithmetic, which may change it.
SPILLWAY_HOST_DEVICE inline uint64_t piped_float_key(uint64_t bits, uint32_t from_width, uint32_t to_width) {
    constexpr uint64_t kSign32 = 1ULL << 31;
    constexpr uint64_t kSign64 = 1ULL << 63;
    const bool is_narrow = from_width == 4;
    const bool is_nan = is_narrow ? (bits & ~kSign32) > 0x7f800000 : (bits & ~kSign64) > 0x7ff0000000000000;
    if (is_nan) return to_width == 4 ? 0x7fc00000 : 0x7ff8000000000000;
    if (bits == (is_narrow ? kSign32 : kSign64)) return 0;
    if (from_width == to_width) return bits;
    const auto narrow = static_cast<uint32_t>(bits);
    float value = 0;
    std::memcpy(&value, &narrow, sizeof value);
    const auto wide = static_cast<double>(value);
    std::memcpy(&bits, &wide, sizeof bits);
    return bits;
}

// A value's bits in the key, from its lowest byte on.
SPILLWAY_HOST_DEVICE inline uint64_t piped_key_bits(const PipeKey& key, uint64_t bits) {
    const uint32_t width = key.value.width;
    if (key.form == PipeKeyForm::kFloat) return piped_float_key(bits, width, key.width);
    if (key.form == PipeKeyForm::kSigned && width < 8) {
        const uint32_t unused = 64 - 8 * width;
        bits = static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused);
    }
    return bits & low_bytes(key.width);
}

// A result row as the pipe's specification sees it, which must be one that check_pipe() lets pass.
class PipedRow {
  public:
    SPILLWAY_HOST_DEVICE PipedRow(const PipeSpec& spec, const PipedColumns& columns, uint64_t row)
        : spec_(spec), columns_(columns), row_(row), presence_(spec.presence < 0 ? 0xff : byte_of(spec.presence)) {}

    SPILLWAY_HOST_DEVICE PipedKey key() const {
        PipedKey made;
        for (uint32_t k = 0; k < spec_.keys.size(); ++k) {
            const PipeKey& key = spec_.keys[k];
            PipedValue value;
            if (find(key.value, value)) {
                made.add(key.word, piped_key_bits(key, value.low) << 8 * key.offset);
                if (key.width > 8) made.add(key.word + 1u, value.high);
            } else if (spec_.null_byte >= 0) {
                const auto at = static_cast<uint32_t>(spec_.null_byte);
                made.add(at / 8, uint64_t{1} << (at % 8 * 8 + k));
            } else {
                made.exists = false;
            }
        }
        made.mix_first(spec_.key_columns);
        return made;
    }

    // In as many low bytes as the column is wide.
    SPILLWAY_HOST_DEVICE PipedValue column(const PipeColumn& column) const {
        PipedValue value;
        const bool is_null = !find(column.value, value);
        if (column.kind == PipeColumnKind::kPresence) return {is_null ? 0ULL : 1ULL, 0};
        if (is_null) return {column.fill & low_bytes(column.width()), 0};
        if (column.kind == PipeColumnKind::kLow) return {value.low & low_bytes(4), 0};
        if (column.kind == PipeColumnKind::kHigh) return {value.low >> 32, 0};
        return value;
    }

  private:
    SPILLWAY_HOST_DEVICE uint32_t byte_of(int32_t column) const {
        return load_piped<uint8_t>(columns_.column[column].data, row_);
    }

    // false: it is NULL.
    SPILLWAY_HOST_DEVICE bool find(const PipeValue& value, PipedValue& found) const {
        for (const PipePart& part : value.parts) {
            if ((presence_ & part.mask) != part.mask) continue;
            if (part.validity >= 0 && byte_of(part.validity) == 0) return false;
            found = cut_piped(read_piped(columns_.column[part.column], row_), part.offset, value.width);
            return true;
        }
        return false;
    }

    const PipeSpec& spec_;
    const PipedColumns& columns_;
    const uint64_t row_;
    const uint32_t presence_;
};

}}  // namespace spillway::cuda::stream
