// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "device/copy_to_device.hpp"
#include "device/error.hpp"
#include "device/phase_times.hpp"
#include "hash_join/join_columns.hpp"
#include "hash_join/join_pieces.hpp"
#include "hash_join/lone_rows.hpp"
#include "hash_join/pieces_policy.hpp"
#include "materialize/dense_output.hpp"
#include "radix_partition/radix_policy.hpp"

namespace spillway::cuda { inline namespace hash_join {

namespace {

uint64_t parts_of(uint64_t rows, uint64_t part_rows) {
    return (rows + part_rows - 1) / part_rows;
}

// Counting and joining must agree.
void check_rows(uint64_t written, uint64_t counted) {
    if (written == counted) return;
    throw Error(ErrorCode::kInternal, "a piece of a join has " + std::to_string(written) + " rows, and " +
                                          std::to_string(counted) + " were counted");
}

// Lists have ranges with their rows, the next one last. How many of the last ranges make a piece of at most rows_max
// rows; one at least.
template <class Range, class RowsOf>
size_t ranges_that_fit(const std::vector<Range>& left, uint64_t rows_max, const RowsOf& rows_of, uint64_t& rows) {
    size_t count = 0;
    for (rows = 0; count < left.size(); ++count) {
        const uint64_t more = rows_of(left[left.size() - 1 - count]);
        if (count > 0 && rows + more > rows_max) break;
        rows += more;
    }
    return count;
}

// In place of the last range, those that it was cut into; the first of them becomes the last.
template <class Range>
void replace_last(std::vector<Range>& left, const std::vector<Range>& parts) {
    left.reserve(left.size() + parts.size());
    left.pop_back();
    left.insert(left.end(), parts.rbegin(), parts.rend());
}

static_assert(kPieceRowsMin >= kRegionAlignRows * kRegionAlignRows, "what cannot be cut any more fits a piece");

// Ranges in order of a list; ranges that continue one another become one.
void append(std::vector<MatchRange>& ranges, const MatchRange& next) {
    if (!ranges.empty()) {
        MatchRange& last = ranges.back();
        const bool same_build = last.build_first == next.build_first && last.build_rows == next.build_rows;
        const bool same_probe = last.probe_first == next.probe_first && last.probe_rows == next.probe_rows;
        if (same_probe && last.build_first + last.build_rows == next.build_first) {
            last.build_rows += next.build_rows;
            return;
        }
        if (same_build && last.probe_first + last.probe_rows == next.probe_first) {
            last.probe_rows += next.probe_rows;
            return;
        }
    }
    ranges.push_back(next);
}

}  // namespace

HashJoinPieces::HashJoinPieces(Device& device, PartitionedRows build, PartitionedRows probe,
                               std::vector<JoinOutputColumn> output, const JoinExtent& extent)
    : HashJoinPieces(device, std::make_shared<const PartitionedRows>(std::move(build)),
                     std::make_shared<const PartitionedRows>(std::move(probe)), std::move(output), extent) {}

HashJoinPieces::HashJoinPieces(Device& device, std::shared_ptr<const PartitionedRows> build,
                               std::shared_ptr<const PartitionedRows> probe, std::vector<JoinOutputColumn> output,
                               const JoinExtent& extent)
    : device_(device), build_(std::move(build)), probe_(std::move(probe)), output_(std::move(output)), extent_(extent) {
    const JoinKind& kind = extent_.kind;
    allocate_marks();
    const Bounds bounds[] = {download_bounds(*build_), download_bounds(*probe_)};
    count_pairs(bounds[0], bounds[1]);
    if (kind.emit == JoinEmit::kPairs) {
        for (const Counted& one : pairs_) total_rows_ += one.matches;
        if (kind.keep_unmatched_build) add_section(0, false, false, bounds[0]);
        if (kind.keep_unmatched_build) add_section(0, false, true, bounds[0]);
        if (kind.keep_unmatched_probe) add_section(1, false, false, bounds[1]);
        if (kind.keep_unmatched_probe) add_section(1, false, true, bounds[1]);
    } else {
        pairs_.clear();
        const int side = kind.emit == JoinEmit::kBuildOnce ? 0 : 1;
        add_section(side, !kind.anti, false, bounds[side]);
        if (kind.anti) add_section(side, false, true, bounds[side]);
    }
    rows_left_ = total_rows_;
}

JoinSide HashJoinPieces::side_of(int side) const {
    const PartitionedRows& rows = rows_of(side);
    JoinSide told;
    told.rows = rows.data.as<const uint32_t>();
    told.row_words = rows.layout.row_words;
    told.marks = marks_[side].as<uint8_t>();
    return told;
}

void HashJoinPieces::allocate_marks() {
    const JoinKind& kind = extent_.kind;
    const bool wanted[] = {kind.keep_unmatched_build || kind.emit == JoinEmit::kBuildOnce,
                           kind.keep_unmatched_probe || kind.emit == JoinEmit::kProbeOnce};
    for (const int side : {0, 1}) {
        if (!wanted[side]) continue;
        const PartitionedRows& rows = rows_of(side);
        const uint64_t bytes = rows.data.bytes() / rows.layout.row_bytes();
        marks_[side] = device_.memory().allocate(bytes, "marks of rows with a match");
        count_moved(device_, bytes);
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(marks_[side].as(), 0, bytes, device_.stream()));
    }
}

HashJoinPieces::Bounds HashJoinPieces::download_bounds(const PartitionedRows& rows) const {
    Bounds bounds;
    const uint64_t bytes = rows.partitions() * sizeof(uint64_t);
    bounds.begin.resize(rows.partitions());
    bounds.end.resize(rows.partitions());
    const cudaStream_t stream = device_.stream();
    SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(bounds.begin.data(), rows.begin.as(), bytes, cudaMemcpyDeviceToHost, stream));
    SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(bounds.end.data(), rows.end.as(), bytes, cudaMemcpyDeviceToHost, stream));
    device_.synchronize();
    return bounds;
}

void HashJoinPieces::count_pairs(const Bounds& build, const Bounds& probe) {
    const uint64_t build_part = counted_build_rows(device_, build_->layout.key_words);
    uint64_t probe_part = kCountProbeRows;
    const auto range_count = [&] {
        uint64_t count = 0;
        for (size_t p = 0; p < build.begin.size(); ++p) {
            count += parts_of(build.end[p] - build.begin[p], build_part) *
                     parts_of(probe.end[p] - probe.begin[p], probe_part);
        }
        return count;
    };
    // Parts of the build side alone are few: one per partition, and one per build_part rows more.
    const uint64_t ranges_max = std::max<uint64_t>(kRangesMax, 4 * build_->partitions());
    while (range_count() > ranges_max && probe_part < 1ULL << 40) probe_part *= 2;
    std::vector<MatchRange> ranges;
    for (size_t p = 0; p < build.begin.size(); ++p) {
        for (uint64_t at = probe.begin[p]; at < probe.end[p]; at += probe_part) {
            const uint64_t probe_rows = std::min(probe_part, probe.end[p] - at);
            for (uint64_t from = build.begin[p]; from < build.end[p]; from += build_part) {
                ranges.push_back({from, std::min(build_part, build.end[p] - from), at, probe_rows});
            }
        }
    }
    pairs_ = counted(ranges);
    std::reverse(pairs_.begin(), pairs_.end());
}

// Those without matches are left out.
std::vector<HashJoinPieces::Counted> HashJoinPieces::counted(const std::vector<MatchRange>& ranges) const {
    const std::vector<uint64_t> matches =
        count_range_matches(device_, side_of(0), side_of(1), build_->layout.key_words, build_->radix_bits, ranges);
    std::vector<Counted> kept;
    for (size_t r = 0; r < ranges.size(); ++r) {
        if (matches[r] > 0) kept.push_back({ranges[r], matches[r]});
    }
    return kept;
}

// Parts of a range that is too large for a piece: of its probe rows, and of its build rows where those are few. None:
// it cannot be cut.
std::vector<MatchRange> HashJoinPieces::cut(const Counted& large, uint64_t rows_max) const {
    const MatchRange& range = large.range;
    const bool by_probe = range.probe_rows > kRegionAlignRows;
    const uint64_t rows = by_probe ? range.probe_rows : range.build_rows;
    std::vector<MatchRange> parts;
    if (rows <= kRegionAlignRows) return parts;
    const uint64_t wanted = std::min(kCutsMax, parts_of(large.matches, rows_max) * kRangesPerPiece);
    const uint64_t part = std::max<uint64_t>(rows / wanted / kRegionAlignRows, 1) * kRegionAlignRows;
    for (uint64_t at = 0; at < rows; at += part) {
        const uint64_t count = std::min(part, rows - at);
        parts.push_back(by_probe ? MatchRange{range.build_first, range.build_rows, range.probe_first + at, count}
                                 : MatchRange{range.build_first + at, count, range.probe_first, range.probe_rows});
    }
    return parts;
}

JoinResult HashJoinPieces::next(uint64_t rows_max) {
    rows_max = std::max(rows_max, kPieceRowsMin);
    if (!pairs_.empty()) return next_pairs(rows_max);
    for (LoneSection& section : sections_) {
        if (!section.left.empty()) return next_lone(section, rows_max);
    }
    throw Error(ErrorCode::kInternal, "a join has no piece left");
}

void HashJoinPieces::accept() {
    rows_left_ -= taken_rows_;
    if (taken_from_ == nullptr) {
        pairs_.resize(pairs_.size() - taken_ranges_);
    } else {
        taken_from_->resize(taken_from_->size() - taken_ranges_);
    }
    taken_ranges_ = 0;
    taken_rows_ = 0;
}

JoinResult HashJoinPieces::next_pairs(uint64_t rows_max) {
    while (pairs_.back().matches > rows_max) {
        const std::vector<MatchRange> parts = cut(pairs_.back(), rows_max);
        if (parts.empty()) break;
        replace_last(pairs_, counted(parts));
    }
    uint64_t rows = 0;
    const size_t count = ranges_that_fit(
        pairs_, rows_max, [](const Counted& one) { return one.matches; }, rows);
    std::vector<MatchRange> ranges;
    for (size_t r = 0; r < count; ++r) append(ranges, pairs_[pairs_.size() - 1 - r].range);
    std::vector<uint64_t> bounds(4 * ranges.size());
    for (size_t r = 0; r < ranges.size(); ++r) {
        bounds[r] = ranges[r].build_first;
        bounds[ranges.size() + r] = ranges[r].build_first + ranges[r].build_rows;
        bounds[2 * ranges.size() + r] = ranges[r].probe_first;
        bounds[3 * ranges.size() + r] = ranges[r].probe_first + ranges[r].probe_rows;
    }
    const Allocation copy = copy_to_device(device_, bounds, "ranges of a piece");
    const auto* const at = copy.as<const uint64_t>();
    const uint64_t parts = ranges.size();
    JoinPart part{parts, {at, at + 2 * parts}, {at + parts, at + 3 * parts}};
    for (const MatchRange& range : ranges) {
        part.rows[0] += range.build_rows;
        part.rows[1] += range.probe_rows;
    }
    JoinExtent extent;  // pairs alone, and no marks: those have been set
    extent.part = &part;
    extent.chunk_rows_max = extent_.chunk_rows_max;
    JoinResult result = join_partitions(device_, *build_, *probe_, output_, rows, OutputPlan::kOnePass, extent);
    check_rows(result.rows, rows);
    taken_ranges_ = count;
    taken_rows_ = rows;
    taken_from_ = nullptr;
    return result;
}

// From here on: pieces of rows that are written once each, which follow the pairs.

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
    const JoinColumns columns(build_->layout, probe_->layout, output_);
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
        launch_lone_rows(device_, pass, what, build_->layout.key_words, read_rows);
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
    close_holes(device_, out, build_->layout.key_words * 4, rows, counters[1]);
    return result;
}

}}  // namespace spillway::cuda::hash_join
