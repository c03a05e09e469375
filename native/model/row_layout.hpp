// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "model/column_type.hpp"

namespace spillway {

// How one key column is normalized so that equal keys have equal bytes.
enum class KeyKind : uint8_t {
    kInteger,          // widened to `width` bytes (1, 2, 4, 8) with the sign of its type; bool = 1 byte
    kFloat,            // widened to `width` (4, 8); every NaN equal, -0 equal to +0
    kFixedBytes,       // copied: decimals, fixed-size binary, intervals
    kBytes,            // utf8, binary, their large and view forms, of any length
    kInlineBytes,      // the same of at most `width` - 1 bytes: zeros behind them, then their number in the last byte
    kDictionaryIndex,  // int32 index of the unified dictionary: group-by keys, one relation only
    kDictionaryValue,  // decoded, then as the value type (kind_of_value)
};

struct KeySpec {
    int32_t column = 0;
    KeyKind kind = KeyKind::kInteger;
    KeyKind kind_of_value = KeyKind::kBytes;  // kDictionaryValue
    int32_t width = 8;                        // normalized bytes (not for kBytes)
};

enum class NullKeys : uint8_t {
    kDrop,   // rows with a NULL key vanish: they can neither match nor be kept
    kKeep,   // they go to the partition behind the last, which never matches (outer joins)
    kEqual,  // NULL equals NULL
};

// Longest width of kInlineBytes: beyond, a reference costs less than the bytes that are moved and compared.
constexpr int32_t kInlineWidthMax = 64;

// Word: all key parts together fit 8 bytes; the row starts with mix64(packed key): no hash stored, equality of one
// word is equality of the key. Wide: hash, then the packed parts (padded to 8 bytes). Var: as wide, and the byte-string
// parts as references.
enum class KeyMode : uint8_t { kWord, kWide, kVar };

constexpr int32_t kRowNumberColumn = -1;  // pseudo column: uint64 row number in the source

enum class FieldKind : uint8_t {
    kFixed,        // `width` bytes in the row (bool: one byte 0 / 1; dictionary: int32 index)
    kBytes,        // VarRef in the row, bytes in the heap behind the rows of the page
    kInlineBytes,  // `width` bytes in the row, as KeyKind::kInlineBytes has them; NULL is as empty
    kNested,       // VarRef to an encoded value (cpu/row/nested_codec.hpp)
    kNull,         // nothing stored
};

// Byte string of a row: `distance` bytes from the address of this VarRef to the bytes. Self-relative, so pages can be
// copied and read back without touching rows. length 0: distance 0.
struct VarRef {
    uint32_t distance;
    uint32_t length;
};

struct RowField {
    int32_t column = 0;
    TypePtr type;
    FieldKind kind = FieldKind::kFixed;
    uint32_t offset = 0;       // in the row
    uint32_t width = 0;        // kFixed, kInlineBytes
    int32_t null_bit = -1;     // bit in the row's NULL bytes (1 = NULL); -1 = never NULL
    bool in_key_word = false;  // kWord: value = bytes [key_shift, key_shift + width) of unmix64(first word)
    uint32_t key_shift = 0;    // bits
};

struct KeyPart {
    KeySpec spec;
    TypePtr type;
    uint32_t offset = 0;          // kWord: bit shift inside the packed word; kWide, kVar: byte offset in the row
    int32_t null_bit = -1;        // the column's bit in the NULL bytes
    uint32_t equal_mask_bit = 0;  // kEqual: bit in the NULL mask byte(s) that are compared with the key
};

// Row = [word or hash][key area][fixed fields, widest first][NULL bytes], padded to 8 bytes; heap bytes elsewhere in
// the page. A carried column that is also a key with an invertible normalization is stored once (in the key area).
struct RowLayout {
    KeyMode mode = KeyMode::kWord;
    NullKeys null_keys = NullKeys::kDrop;
    std::vector<KeyPart> keys;
    std::vector<RowField> fields;  // in the order of the carried columns
    uint32_t row_bytes = 8;
    uint32_t key_begin = 8;  // kWide, kVar: bytes [key_begin, key_end) are compared with memcmp
    uint32_t key_end = 8;
    std::vector<uint32_t> var_keys;  // kVar: row offsets of the VarRefs compared byte for byte
    // kEqual: NULL mask bytes are part of the key, one bit for every key column whatever its type promises, so that
    // both sides of a join have the same key area. (A plan without nullable keys says kDrop and saves them.)
    bool has_mask = false;
    uint32_t mask_offset = 0;  // kWord: bit shift inside the packed word; else byte offset in the row
    uint32_t null_offset = 0;  // first NULL byte
    uint32_t null_bytes = 0;
    bool has_var = false;
    std::vector<uint32_t> var_offsets;  // row offsets of all VarRefs, those of keys first

    // columns: types of the source's columns. carry_bytes: for each carried column the bytes that its byte string
    // takes in the row (FieldKind::kInlineBytes), 0 for a reference and for other columns; empty: 0 for all of them.
    // Throws kUnsupportedType, naming the widest columns, when a row would take
    // more than kRowBytesMax (model/type_size.hpp); the plan was validated otherwise.
    static RowLayout make(const std::vector<TypePtr>& columns, const std::vector<KeySpec>& keys,
                          const std::vector<int32_t>& carry, NullKeys null_keys,
                          const std::vector<int32_t>& carry_bytes = {});
};

// Is the key one integer of at most 8 bytes, with nothing beside it?
inline bool is_one_integer(const RowLayout& layout) {
    if (layout.mode != KeyMode::kWord || layout.keys.size() != 1 || layout.has_mask) return false;
    const KeySpec& spec = layout.keys[0].spec;
    return spec.kind == KeyKind::kInteger && spec.width > 0;
}

// Mixed key or hash: the first 8 bytes of every row.
inline uint64_t first_word(const uint8_t* row) {
    uint64_t word;
    __builtin_memcpy(&word, row, 8);
    return word;
}

}  // namespace spillway
