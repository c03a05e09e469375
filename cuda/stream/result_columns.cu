// SPDX-License-Identifier: Apache-2.0
#include "stream/result_columns.hpp"

namespace spillway::cuda { inline namespace stream {

namespace {

// Numbers of 4 or 8 bytes, as many as registers hold.
void check_sums(const StagedJoinSpec& spec, const ResultWindow& window) {
    if (spec.output.size() > kSumColumnsMax) {
        throw Error(ErrorCode::kInvalid, "a join gives at most " + std::to_string(kSumColumnsMax) + " sums");
    }
    for (int32_t c = 0; c < window.columns; ++c) {
        if (spec.output[static_cast<size_t>(c)].side == OutputSide::kPresence) {
            throw Error(ErrorCode::kInvalid, "presence bytes cannot be summed");
        }
        const uint16_t width = window.column[c].width;
        if (width != 4 && width != 8) throw Error(ErrorCode::kInvalid, "sums are of columns of 4 or 8 bytes");
    }
}

}  // namespace

ResultWindow ResultWindow::make(const StagedJoinSpec& spec, const RowLayout& build, const RowLayout& probe) {
    ResultWindow window;
    window.key_bytes = build.key_words * 4;
    for (const JoinOutputColumn& wanted : spec.output) {
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
    if (spec.result == JoinResultKind::kSums) check_sums(spec, window);
    return window;
}

uint64_t ResultWindow::row_bytes() const {
    uint64_t bytes = 0;
    for (int32_t c = 0; c < columns; ++c) bytes += column[c].width;
    return bytes;
}

}}  // namespace spillway::cuda::stream
