// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "model/column_type.hpp"

namespace spillway {

// The encoding shared by nested_codec.cpp (writes) and nested_node.cpp (reads). Equal values have equal bytes, so
// that nested dictionary values can be told apart by them.
//
//   rows(n)        n valid rows of one column, in one piece:
//     fixed, dictionary   n x width bytes          bool        bitmap of n bits
//     binary, view        n lengths, then bytes    list, map   n counts, then child(sum of counts)
//     fixed-size list     child(n x list_size)     struct      child(n) of every field
//     union               n type ids, then per row child(1) of the member in use
//     null                nothing
//   child(n)       n rows that may hold NULLs: nothing when n = 0 and for null columns; rows(n) for unions (they have
//                  no validity); else a NullFlag, for kSome the validity bitmap, then rows(k) of every run of k valid
//                  rows. NULL rows are never stored: what a NULL slot holds in the input is arbitrary.
//
// Lengths and counts are LEB128 numbers. A value is rows(1). Runs keep every piece a contiguous range of the input, so
// that a list of ints is one memcpy and nothing needs an index list.
enum class NullFlag : uint8_t { kNone = 0, kSome = 1, kAll = 2 };

inline int64_t varint_bytes(uint64_t value) {
    int64_t bytes = 1;
    for (; value >= 0x80; value >>= 7) ++bytes;
    return bytes;
}

inline uint8_t* write_varint(uint8_t* out, uint64_t value) {
    for (; value >= 0x80; value >>= 7) *out++ = static_cast<uint8_t>(value | 0x80);
    *out++ = static_cast<uint8_t>(value);
    return out;
}

inline const uint8_t* read_varint(const uint8_t* in, uint64_t* value) {
    uint64_t result = *in & 0x7f;
    for (int shift = 7; (*in++ & 0x80) != 0; shift += 7) result |= static_cast<uint64_t>(*in & 0x7f) << shift;
    *value = result;
    return in;
}

// Child of a union with this type id; -1 = none. Unions have few members, a scan beats a table.
inline int32_t union_child(const ColumnType& type, int8_t id) {
    for (size_t k = 0; k < type.type_ids.size(); ++k) {
        if (type.type_ids[k] == id) return static_cast<int32_t>(k);
    }
    return -1;
}

}  // namespace spillway
