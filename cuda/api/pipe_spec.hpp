// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "api/fixed_list.hpp"
#include "api/stream_spec.hpp"

// Operators behind each other: how the result rows of one become the chunks of the next, in memory of the GPU.
namespace spillway::cuda { inline namespace api {

// One place in a result row where a value may be. It counts if all bits of the mask are set in the row's presence byte.
struct PipePart {
    int16_t column = 0;     // of the result
    int16_t validity = -1;  // column of bytes that are 0 for NULL; -1: never NULL
    uint8_t offset = 0;     // byte of the column where the value begins
    uint8_t mask = 0;
};

// A value of a result row: that of the first part that counts; NULL if none does.
struct PipeValue {
    FixedList<PipePart, 2> parts;
    uint32_t width = 8;  // bytes of the value: 1, 2, 4, 8 or 16
};

// How a value becomes a part of the key.
enum class PipeKeyForm : uint8_t {
    kBits,      // as it is
    kSigned,    // widened with its sign
    kUnsigned,  // widened with zeros
    kFloat      // of 4 or 8 bytes, widened; every NaN is the same, and -0 is 0
};

struct PipeKey {
    PipeValue value;
    PipeKeyForm form = PipeKeyForm::kBits;
    uint8_t width = 8;  // bytes in the key, those of the value at least (1, 2, 4 or 8; 16 of values of 16, as they are)
    uint8_t offset = 0;  // in its word, in bytes: the lowest come first; what has 16 begins one and fills the next
    uint8_t word = 0;    // of the key
};

// What a column of the chunks holds of a value.
enum class PipeColumnKind : uint8_t {
    kValue,
    kLow,       // 32 bits of a value of 64
    kHigh,      // the other 32
    kPresence,  // a byte: 1 = not NULL
    kKeyWord    // a word of the key, which its place tells; there is no value
};

struct PipeColumn {
    PipeValue value;
    PipeColumnKind kind = PipeColumnKind::kValue;
    uint64_t fill = 0;  // what stands for NULL, in as many low bits as the column has

    SPILLWAY_HOST_DEVICE uint32_t width() const {
        if (kind == PipeColumnKind::kPresence) return 1;
        if (kind == PipeColumnKind::kKeyWord) return 8;
        return kind == PipeColumnKind::kValue ? value.width : 4;
    }
};

constexpr int kPipeKeysMax = 8;
// Words of a key: as many as rows of a join have, all of which are compared (StagedJoinSpec::key_columns).
constexpr uint32_t kPipeKeyWordsMax = 4;

// Chunks of the next operator: their key, then their columns.
struct PipeSpec {
    int32_t presence = -1;  // column of the result with the presence byte; -1: all bits are always set
    uint32_t key_bytes = 8;
    // Words of the key behind the first one, which has 8 bytes then: the first columns, of kKeyWord. The first word is
    // mixed with the others, as that of a source's keys is (native/executor/streaming/chunk_columns).
    uint32_t key_columns = 0;
    // Byte of all words with a bit per key value, 1 = NULL: then every row has a key. -1: a row with a NULL among its
    // key values has none. Without keys all words are 0.
    int32_t null_byte = -1;
    FixedList<PipeKey, kPipeKeysMax> keys;
    FixedList<PipeColumn, kRowColumnsMax> columns;

    ColumnWidths widths() const {
        ColumnWidths all;
        for (const PipeColumn& column : columns) all.push_back(column.width());
        return all;
    }
    // May rows of a chunk have no key?
    bool may_lack_keys() const {
        if (null_byte >= 0) return false;
        for (const PipeKey& key : keys) {
            for (const PipePart& part : key.value.parts) {
                if (part.validity >= 0 || part.mask != 0) return true;
            }
        }
        return false;
    }
};

}}  // namespace spillway::cuda::api
