// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/error.hpp"
#include "hash_join/join_columns.hpp"

namespace spillway::cuda { inline namespace hash_join {

namespace {

constexpr uint32_t kWidths[kFieldWidths] = {4, 8, 16, 2, 1};

bool of_side(const JoinOutputColumn& column, int side) {
    return column.side == (side == 0 ? OutputSide::kBuild : OutputSide::kProbe);
}

// A word with one column, of 4 bytes, is told by its bit, and so is a pair of words with one of 8; all other columns of
// a side are listed by word.
void describe_words(PackedOutput& output, int side, int key_words) {
    const MatchOutput& out = output.out;
    int columns[kRowWordsMax] = {};
    for (int c = out.first_column(side); c < out.last_column(side); ++c) ++columns[out.column[c].offset / 4];
    for (int c = out.first_column(side); c < out.last_column(side); ++c) {
        const auto word = static_cast<int>(out.column[c].offset / 4);
        const uint32_t width = out.column[c].width;
        const bool of_pair = width == 8 && (word - key_words) % 2 == 0;
        if (columns[word] == 1 && (width == 4 || of_pair)) {
            output.wanted |= width == 4 ? word_bit(side, word) : pair_bit(side, (word - key_words) / 2);
            output.data[side][word] = static_cast<uint32_t*>(out.column[c].data);
            continue;
        }
        output.wanted |= kOtherWidths << side;
        uint8_t& begin = output.begin[side][word];
        uint8_t& end = output.end[side][word];
        if (begin == end) begin = static_cast<uint8_t>(c);
        end = static_cast<uint8_t>(c + 1);
    }
}

}  // namespace

JoinColumns::JoinColumns(const RowLayout& build, const RowLayout& probe, const std::vector<JoinOutputColumn>& output)
    : build_(build), probe_(probe), output_(output) {
    for (const OutputSide once : {OutputSide::kKey, OutputSide::kPresence}) {
        const auto count = std::count_if(output.begin(), output.end(),
                                         [&](const JoinOutputColumn& column) { return column.side == once; });
        if (count > 1) throw Error(ErrorCode::kInvalid, "the key or the presence twice in the result of a join");
    }
    if (output.size() > static_cast<size_t>(kOutputColumnsMax)) {
        throw Error(ErrorCode::kInvalid, "too many columns for one join");
    }
    for (int side = 0; side < kMatchSides; ++side) {
        for (const uint32_t width : kWidths) {
            std::vector<size_t> alike;
            for (size_t c = 0; c < output.size(); ++c) {
                if (of_side(output[c], side) && width_of(output[c]) == width) alike.push_back(c);
            }
            // Columns of one word are neighbours.
            std::stable_sort(alike.begin(), alike.end(), [&](size_t a, size_t b) {
                const std::vector<uint32_t>& offsets = layout_of(output[a]).offsets;
                return offsets[output[a].column] < offsets[output[b].column];
            });
            order_.insert(order_.end(), alike.begin(), alike.end());
        }
    }
}

uint32_t JoinColumns::width_of(const JoinOutputColumn& column) const {
    if (column.side == OutputSide::kKey) return build_.key_words * 4;
    if (column.side == OutputSide::kPresence) return 1;
    if (column.column >= layout_of(column).widths.size()) {
        throw Error(ErrorCode::kInvalid, "no such column in the rows");
    }
    return layout_of(column).widths[column.column];
}

JoinResult JoinColumns::allocate(Device& device, uint64_t rows) const {
    JoinResult result;
    result.columns.resize(output_.size());
    for (size_t c = 0; c < output_.size(); ++c) {
        result.columns[c] = device.memory().allocate(rows * width_of(output_[c]), "join result");
    }
    return result;
}

void JoinColumns::describe(const JoinResult& result, PackedOutput& output) const {
    MatchOutput& out = output.out;
    out.key = nullptr;
    out.presence = nullptr;
    output.wanted = 0;
    for (size_t c = 0; c < output_.size(); ++c) {
        if (output_[c].side == OutputSide::kKey) {
            out.key = result.columns[c].as();
            output.wanted |= kKeyWanted;
        } else if (output_[c].side == OutputSide::kPresence) {
            out.presence = result.columns[c].as<uint8_t>();
            output.wanted |= kPresenceWanted;
        }
    }
    size_t placed = 0;
    for (int side = 0; side < kMatchSides; ++side) {
        for (int kind = 0; kind < kFieldWidths; ++kind) {
            for (; placed < order_.size(); ++placed) {
                const JoinOutputColumn& column = output_[order_[placed]];
                if (!of_side(column, side) || width_of(column) != kWidths[kind]) break;
                const uint32_t offset = layout_of(column).offsets[column.column];
                out.column[placed] = {result.columns[order_[placed]].as(), kWidths[kind], offset};
            }
            out.end[side][kind] = static_cast<uint8_t>(placed);
        }
        output.words[side] = side == 0 ? build_.row_words : probe_.row_words;
        std::fill_n(output.begin[side], kRowWordsMax, uint8_t{0});
        std::fill_n(output.end[side], kRowWordsMax, uint8_t{0});
        describe_words(output, side, static_cast<int>((side == 0 ? build_ : probe_).key_words));
    }
}

void JoinColumns::find_sources(int side, const DeviceRelation& relation, const void** sources) const {
    for (size_t placed = 0; placed < order_.size(); ++placed) {
        const JoinOutputColumn& column = output_[order_[placed]];
        if (of_side(column, side)) sources[placed] = relation.columns.at(column.column).data;
    }
}

}}  // namespace spillway::cuda::hash_join
