// SPDX-License-Identifier: Apache-2.0
#include "out_of_core/result_columns.hpp"

namespace spillway::cuda {

ResultWindow ResultWindow::make(const std::vector<JoinOutputColumn>& output, const RowLayout& build,
                                const RowLayout& probe) {
    if (output.size() > static_cast<size_t>(kResultColumnsMax)) {
        throw Error(ErrorCode::kInvalid, "a join gives at most " + std::to_string(kResultColumnsMax) + " columns");
    }
    ResultWindow window;
    window.key_bytes = build.key_words * 4;
    for (const JoinOutputColumn& wanted : output) {
        ResultColumn& column = window.column[window.columns++];
        column.side = static_cast<uint8_t>(wanted.side);
        if (wanted.side == OutputSide::kKey) {
            column.width = static_cast<uint16_t>(window.key_bytes);
        } else if (wanted.side == OutputSide::kPresence) {
            column.width = 1;
        } else {
            const RowLayout& side = wanted.side == OutputSide::kBuild ? build : probe;
            if (wanted.column >= side.widths.size()) {
                throw Error(ErrorCode::kInvalid, "the result asks for a column that its side does not have");
            }
            column.width = static_cast<uint16_t>(side.widths[wanted.column]);
            column.offset = static_cast<uint8_t>(side.offsets[wanted.column]);
        }
    }
    return window;
}

uint64_t ResultWindow::row_bytes() const {
    uint64_t bytes = 0;
    for (int32_t c = 0; c < columns; ++c) bytes += column[c].width;
    return bytes;
}

}  // namespace spillway::cuda
