// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/error.hpp"
#include "api/join_spec.hpp"
#include "api/pipe_spec.hpp"

// Pipes come across the plugin's border with any bytes in them. Without CUDA, as piped_value.hpp.
namespace spillway::cuda { inline namespace stream {

inline void need_of_pipe(bool holds, const char* what) {
    if (!holds) refuse(std::string("a pipe ") + what);
}

// A column of bytes, or none where the number is -1.
inline void check_piped_flags(int32_t column, const std::vector<uint32_t>& from) {
    if (column == -1) return;
    need_of_pipe(column >= 0 && static_cast<size_t>(column) < from.size(), "takes flags of a column that is not there");
    need_of_pipe(from[static_cast<size_t>(column)] == 1, "takes flags of a column that has not one byte");
}

inline void check_piped_value(const PipeValue& value, const std::vector<uint32_t>& from) {
    need_of_pipe(is_value_width(value.width), "has values of a width that no column has");
    need_of_pipe(value.parts.is_valid() && !value.parts.empty(), "has a value that is nowhere, or in too many places");
    for (const PipePart& part : value.parts) {
        check_piped_flags(part.validity, from);
        need_of_pipe(part.column >= 0 && static_cast<size_t>(part.column) < from.size(),
                     "takes values of a column that is not there");
        const uint32_t width = from[static_cast<size_t>(part.column)];
        need_of_pipe(is_value_width(width) && value.width <= width && part.offset <= width - value.width,
                     "takes values that exceed their column");
    }
}

inline void check_piped_keys(const PipeSpec& spec, const std::vector<uint32_t>& from) {
    need_of_pipe(is_key_width(spec.key_bytes), "has keys of other than 4 or 8 bytes");
    need_of_pipe(spec.key_columns < kPipeKeyWordsMax && (spec.key_columns == 0 || spec.key_bytes == 8),
                 "has keys of too many words, or of words of other than 8 bytes");
    const uint32_t bytes = spec.key_bytes + 8 * spec.key_columns;
    need_of_pipe(spec.null_byte == -1 || (spec.null_byte >= 0 && spec.null_byte < static_cast<int32_t>(bytes)),
                 "marks NULLs in no byte of the key");
    need_of_pipe(spec.keys.is_valid(), "has too many keys");
    for (const PipeKey& key : spec.keys) {
        check_piped_value(key.value, from);
        need_of_pipe(key.form <= PipeKeyForm::kFloat, "has a key of no known form");
        need_of_pipe(key.form != PipeKeyForm::kFloat || key.value.width == 4 || key.value.width == 8,
                     "has floats of other than 4 or 8 bytes for a key");
        if (key.width == 16) {
            need_of_pipe(key.value.width == 16 && key.form == PipeKeyForm::kBits && key.offset == 0 &&
                             key.word < spec.key_columns,
                         "has a value of 16 bytes that is not two words of the key");
            continue;
        }
        need_of_pipe(is_value_width(key.width, spec.key_bytes) && key.value.width <= key.width &&
                         key.offset <= spec.key_bytes - key.width && key.word <= spec.key_columns,
                     "has a value that exceeds the key");
    }
}

// Throws kInvalid unless a pipe of result rows with columns of these widths can do what the specification says.
inline void check_pipe(const PipeSpec& spec, const std::vector<uint32_t>& from) {
    need_of_pipe(from.size() <= kResultColumnsMax, "takes rows of too many columns");
    check_piped_flags(spec.presence, from);
    check_piped_keys(spec, from);
    need_of_pipe(spec.columns.is_valid() && spec.key_columns <= spec.columns.size(), "has too many or too few columns");
    for (uint32_t c = 0; c < spec.columns.size(); ++c) {
        const PipeColumn& column = spec.columns[c];
        need_of_pipe((column.kind == PipeColumnKind::kKeyWord) == (c < spec.key_columns),
                     "has words of its key in other places than the first columns");
        if (c < spec.key_columns) continue;
        check_piped_value(column.value, from);
        need_of_pipe(column.kind <= PipeColumnKind::kPresence, "has a column of no known kind");
        const bool is_half = column.kind == PipeColumnKind::kLow || column.kind == PipeColumnKind::kHigh;
        need_of_pipe(!is_half || column.value.width == 8, "halves a value that has not 8 bytes");
    }
}

}}  // namespace spillway::cuda::stream
