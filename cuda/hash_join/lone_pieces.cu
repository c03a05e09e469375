// SPDX-License-Identifier: Apache-2.0
// Pieces of rows that are written once each: the part of HashJoinPieces behind its pairs.
#include <algorithm>
#include <utility>

#include "device/phase_times.hpp"
#include "hash_join/join_columns.hpp"
#include "hash_join/join_pieces.hpp"
#include "hash_join/lone_rows.hpp"
#include "hash_join/piece_ranges.hpp"
#include "hash_join/pieces_policy.hpp"
#include "materialize/dense_output.hpp"

namespace spillway::cuda { inline namespace hash_join {

namespace {

constexpr uint64_t kBitmapAlignRows = 32;
static_assert(kPieceRowsMin >= kBitmapAlignRows && kLoneRangeRows % kBitmapAlignRows == 0,
              "ranges begin at whole words of a bitmap");

}  // namespace

void HashJoinPieces::add_section(int side, bool marked, bool keyless, const Bounds& bounds) {
    LoneSection section;
    section.side = side;
    section.marked = marked;
    section.keyless = keyless;
    std::vector<RowRange> ranges;
    if (keyless) {
        const DeviceRelation* const relation = relation_of(side);
        if (relation == nullptr || relation->key_valid == nullptr) return;
        for (uint64_t at = 0; at < relation->rows; at += kLoneRangeRows) {
            ranges.push_back({at, std::min(relation->rows, at + kLoneRangeRows)});
        }
    } else {
        for (size_t p = 0; p < bounds.begin.size(); ++p) {
            for (uint64_t at = bounds.begin[p]; at < bounds.end[p]; at += kLoneRangeRows) {
                ranges.push_back({at, std::min(bounds.end[p], at + kLoneRangeRows)});
            }
        }
    }
    section.left = counted(section, ranges);
    std::reverse(section.left.begin(), section.left.end());
    for (const CountedRows& one : section.left) total_rows_ += one.rows;
    if (!section.left.empty()) sections_.push_back(std::move(section));
}

std::vector<HashJoinPieces::CountedRows> HashJoinPieces::counted(const LoneSection& section,
                                                                 const std::vector<RowRange>& ranges) const {
    const std::vector<uint64_t> rows =
        section.keyless ? count_keyless_rows(device_, relation_of(section.side)->key_valid, ranges)
                        : count_marked_rows(device_, marks_[section.side].as<const uint8_t>(), section.marked, ranges);
    std::vector<CountedRows> kept;
    for (size_t r = 0; r < ranges.size(); ++r) {
        if (rows[r] > 0) kept.push_back({ranges[r], rows[r]});
    }
    return kept;
}

JoinResult HashJoinPieces::next_lone(LoneSection& section, uint64_t rows_max) {
    if (section.left.back().rows > rows_max) {
        const RowRange range = section.left.back().range;
        const uint64_t part = rows_max / kBitmapAlignRows * kBitmapAlignRows;
        std::vector<RowRange> parts;
        for (uint64_t at = range.first; at < range.end; at += part) {
            parts.push_back({at, std::min(range.end, at + part)});
        }
        replace_last(section.left, counted(section, parts));
    }
    uint64_t rows = 0;
    const size_t count = ranges_that_fit(
        section.left, rows_max, [](const CountedRows& one) { return one.rows; }, rows);
    std::vector<RowRange> ranges;
    for (size_t r = 0; r < count; ++r) ranges.push_back(section.left[section.left.size() - 1 - r].range);
    JoinResult result = write_lone(section, ranges, rows);
    taken_ranges_ = count;
    taken_rows_ = rows;
    taken_from_ = &section.left;
    return result;
}

JoinResult HashJoinPieces::write_lone(const LoneSection& section, const std::vector<RowRange>& ranges,
                                      uint64_t rows) const {
    const cudaStream_t stream = device_.stream();
    // Between ranges of rows without a key there are none: they can be read as one.
    uint64_t read_rows = ranges.back().end - ranges.front().first;
    if (!section.keyless) {
        read_rows = 0;
        for (const RowRange& range : ranges) read_rows += range.end - range.first;
    }
    JoinPass pass;
    PackedOutput& output = pass.output;
    unsigned long long counters[2] = {};  // matches, reserved rows
    const Allocation counted_rows = device_.memory().allocate(sizeof counters, "join counters");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(counted_rows.as(), 0, sizeof counters, stream));
    MatchOutput& out = output.out;
    out.matches = counted_rows.as<unsigned long long>();
    out.reserved_rows = out.matches + 1;
    out.chunk_rows = kWarpThreads;
    const uint64_t chunks = parts_of(rows, out.chunk_rows) + lone_rows_warps(device_, read_rows);
    out.capacity_rows = chunks * out.chunk_rows;
    const Allocation holes = device_.memory().allocate(chunks * sizeof(uint32_t), "holes of the result");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(holes.as(), 0, chunks * sizeof(uint32_t), stream));
    out.holes = holes.as<uint32_t>();
    const JoinColumns columns(build_.layout, probe_.layout, output_);
    JoinResult result = columns.allocate(device_, out.capacity_rows);
    columns.describe(result, output);
    const LoneRows what{section.side, section.marked, false};
    std::vector<uint64_t> bounds;
    Allocation copy;
    if (section.keyless) {
        const DeviceRelation& relation = *relation_of(section.side);
        const void* sources[kOutputColumnsMax] = {};
        columns.find_sources(section.side, relation, sources);
        launch_keyless_rows(device_, out, relation, sources, what, ranges.front().first, ranges.back().end);
    } else {
        for (const RowRange& range : ranges) bounds.push_back(range.first);
        for (const RowRange& range : ranges) bounds.push_back(range.end);
        copy = copy_to_device(device_, bounds, "ranges of a piece");
        JoinSide& side = section.side == 0 ? pass.build : pass.probe;
        side = side_of(section.side);
        side.begin = copy.as<const uint64_t>();
        side.end = side.begin + ranges.size();
        pass.partitions = ranges.size();
        launch_lone_rows(device_, pass, what, build_.layout.key_words, read_rows);
    }
    SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(counters, counted_rows.as(), sizeof counters, cudaMemcpyDeviceToHost, stream));
    device_.synchronize();
    check_rows(counters[0], rows);
    uint64_t result_bytes = 0;
    for (const Allocation& column : result.columns) result_bytes += column.bytes() / out.capacity_rows;
    // A bit per row or a mark, the packed rows that are written, and what they become.
    const uint64_t row_bytes = section.keyless ? 0 : rows_of(section.side).layout.row_bytes();
    count_moved(device_, (section.keyless ? read_rows / 8 : read_rows) + rows * (row_bytes + result_bytes));
    result.rows = rows;
    close_holes(device_, out, build_.layout.key_words * 4, rows, counters[1]);
    return result;
}

}}  // namespace spillway::cuda::hash_join
