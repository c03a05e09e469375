// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "base/checked_size.hpp"
#include "base/load.hpp"
#include "transfer/slice_reader.hpp"

namespace spillway {

namespace {

constexpr int64_t kViewBytes = 16;
constexpr int32_t kInlineMax = 12;
// Every data buffer is read in one piece, from the first to the last byte used, as long as that brings at most as many
// bytes again as the values have, and a little for short slices. Beyond, values are picked one by one, so that a
// shuffled view column does not pull its whole data buffer into memory for every slice.
constexpr int64_t kSpareBytes = 64 << 10;
// What readers hold without counting it in the budget.
constexpr uint64_t kUncountedBytesMax = 4096;
// Values closer than a page share a read.
constexpr int64_t kGapBytes = 4096;

struct View {
    int32_t length;
    int32_t prefix;
    int32_t buffer;
    int32_t offset;
};
static_assert(sizeof(View) == kViewBytes);

View load_view(const uint8_t* views, int64_t row) {
    View view;
    std::memcpy(&view, views + row * kViewBytes, sizeof view);
    return view;
}

struct Segment {
    int64_t begin;
    int64_t end;
    int64_t at;  // where it lies in the slice's memory, from the beginning of its buffer's part
    int64_t buffer;
};

bool before(const Segment& a, const Segment& b) {
    return a.buffer != b.buffer ? a.buffer < b.buffer : a.begin < b.begin;
}

bool are_compact(const std::vector<NodeScratch::Range>& ranges) {
    int64_t spanned = 0;
    int64_t used = 0;
    for (const NodeScratch::Range& range : ranges) {
        spanned = add_or_max(spanned, range.end - range.begin);
        used = add_or_max(used, range.used);
    }
    return spanned <= add_or_max(multiply_or_max(used, int64_t{2}), kSpareBytes);
}

// The address of byte 0 of a data buffer of which only bytes from `begin` on are in memory. As a number: the address
// itself lies outside any block.
const uint8_t* base_of(const uint8_t* bytes, int64_t begin) {
    return reinterpret_cast<const uint8_t*>(reinterpret_cast<uintptr_t>(bytes) - static_cast<uintptr_t>(begin));
}

// Sorts, then joins overlapping and near segments; returns how many are left.
int64_t merge_segments(Segment* segments, int64_t count) {
    std::sort(segments, segments + count, before);
    int64_t kept = 0;
    for (int64_t i = 0; i < count; ++i) {
        Segment& last = segments[kept > 0 ? kept - 1 : 0];
        if (kept > 0 && last.buffer == segments[i].buffer && segments[i].begin <= last.end + kGapBytes) {
            last.end = std::max(last.end, segments[i].end);
        } else {
            segments[kept++] = segments[i];
        }
    }
    return kept;
}

}  // namespace

void SliceReader::find_view_ranges(const Slice& slice, NodeScratch& scratch, const ColumnView& view) {
    const auto buffers = slice.batch.layout->variadic_counts[static_cast<size_t>(slice.plan.variadic)];
    // Both lists are as long as the file says.
    const uint64_t listed = static_cast<uint64_t>(buffers) * (sizeof(NodeScratch::Range) + sizeof(const uint8_t*));
    if (listed > kUncountedBytesMax && listed > scratch.lists.bytes()) {
        scratch.lists.release();
        scratch.lists = budget_.reserve(listed, "lists of view buffers");
    }
    scratch.ranges.assign(static_cast<size_t>(buffers), {});
    for (int64_t i = 0; i < slice.rows; ++i) {
        if (!view.is_valid(i)) continue;
        const View value = load_view(view.data, i);
        if (value.length >= 0 && value.length <= kInlineMax) continue;
        const int64_t end = int64_t{value.offset} + value.length;
        const bool known = value.length >= 0 && value.buffer >= 0 && value.buffer < buffers;
        if (!known || value.offset < 0 || end > slice.buffer(2 + value.buffer).length) {
            throw slice.corrupt("has a view of " + std::to_string(value.length) + " bytes at byte " +
                                std::to_string(value.offset) + " of data buffer " + std::to_string(value.buffer) +
                                " that is not there, in row " + std::to_string(slice.row + i));
        }
        NodeScratch::Range& range = scratch.ranges[static_cast<size_t>(value.buffer)];
        if (range.end == 0) range.begin = value.offset;
        range.begin = std::min<int64_t>(range.begin, value.offset);
        range.end = std::max(range.end, end);
        range.used = add_or_max<int64_t>(range.used, value.length);
    }
}

void SliceReader::fetch_view_ranges(const Slice& slice, NodeScratch& scratch, ColumnView& view) {
    int64_t total = 0;
    for (const NodeScratch::Range& range : scratch.ranges) total = add_or_max(total, range.end - range.begin);
    const uint8_t* bytes = reserve(scratch.bytes, static_cast<uint64_t>(total));
    int64_t at = 0;
    for (size_t b = 0; b < scratch.ranges.size(); ++b) {
        const NodeScratch::Range& range = scratch.ranges[b];
        const int64_t count = range.end - range.begin;
        copy(slice, slice.buffer(2 + static_cast<int64_t>(b)), range.begin, count, scratch.bytes.data() + at);
        view.view_buffers[b] = base_of(bytes + at, range.begin);
        at += count;
    }
}

// Reads the values of a widely scattered slice close together, and points its views (our copy) there.
void SliceReader::gather_view_values(const Slice& slice, NodeScratch& scratch, ColumnView& view) {
    auto* segments = reinterpret_cast<Segment*>(
        reserve(scratch.codes, multiply_or_max(static_cast<uint64_t>(slice.rows), uint64_t{sizeof(Segment)})));
    int64_t count = 0;
    for (int64_t i = 0; i < slice.rows; ++i) {
        const View value = load_view(view.data, i);
        if (!view.is_valid(i) || value.length <= kInlineMax) continue;
        segments[count++] = {value.offset, int64_t{value.offset} + value.length, 0, value.buffer};
    }
    count = merge_segments(segments, count);
    int64_t total = 0;
    for (int64_t s = 0; s < count; ++s) total = add_or_max(total, segments[s].end - segments[s].begin);
    uint8_t* bytes = reserve(scratch.bytes, static_cast<uint64_t>(total));
    int64_t at = 0;
    int64_t part = 0;
    for (int64_t s = 0; s < count; ++s) {
        Segment& segment = segments[s];
        if (s == 0 || segments[s - 1].buffer != segment.buffer) part = at;
        segment.at = at - part;
        view.view_buffers[static_cast<size_t>(segment.buffer)] = bytes + part;
        copy(slice, slice.buffer(2 + segment.buffer), segment.begin, segment.end - segment.begin, bytes + at);
        at += segment.end - segment.begin;
    }
    for (int64_t i = 0; i < slice.rows; ++i) {
        View value = load_view(view.data, i);
        if (!view.is_valid(i) || value.length <= kInlineMax) continue;
        const Segment wanted{value.offset, 0, 0, value.buffer};
        const Segment& segment = *(std::upper_bound(segments, segments + count, wanted, before) - 1);
        // Never above the old offset: the parts before it only got shorter.
        value.offset = static_cast<int32_t>(segment.at + value.offset - segment.begin);
        std::memcpy(scratch.data.data() + i * kViewBytes, &value, sizeof value);
    }
}

void SliceReader::read_views(const Slice& slice, NodeScratch& scratch, ColumnView& view) {
    view.data = fetch_structure(slice, slice.buffer(1), slice.row * kViewBytes, slice.rows * kViewBytes, scratch.data);
    find_view_ranges(slice, scratch, view);
    view.view_buffers.assign(scratch.ranges.size(), nullptr);
    if (!slice.batch.in_file()) {
        for (size_t b = 0; b < scratch.ranges.size(); ++b) {
            view.view_buffers[b] = slice.buffer(2 + static_cast<int64_t>(b)).pointer;
            bytes_read_ += static_cast<uint64_t>(scratch.ranges[b].used);
        }
    } else if (are_compact(scratch.ranges)) {
        fetch_view_ranges(slice, scratch, view);
    } else {
        gather_view_values(slice, scratch, view);
    }
}

uint64_t SliceReader::view_value_bytes(const Slice& slice, NodeScratch& scratch) {
    ColumnView view;
    read_validity(slice, scratch, view);
    view.data = fetch_structure(slice, slice.buffer(1), slice.row * kViewBytes, slice.rows * kViewBytes, scratch.data);
    uint64_t bytes = 0;
    for (int64_t i = 0; i < slice.rows; ++i) {
        const View value = load_view(view.data, i);
        if (value.length > kInlineMax && view.is_valid(i)) {
            bytes = add_or_max(bytes, static_cast<uint64_t>(value.length));
        }
    }
    return bytes;
}

uint64_t SliceReader::value_bytes(const Slice& slice, NodeScratch& scratch) {
    if (slice.plan.type->layout == Layout::kBinary) {
        const OffsetRange range = peek_offsets(slice, scratch);
        check_bytes_end(slice, range.last);
        return static_cast<uint64_t>(range.last - range.first);
    }
    SPILLWAY_CHECK(slice.plan.type->layout == Layout::kView);
    ColumnView view;
    read_validity(slice, scratch, view);
    view.data = fetch_structure(slice, slice.buffer(1), slice.row * kViewBytes, slice.rows * kViewBytes, scratch.data);
    uint64_t bytes = 0;
    for (int64_t i = 0; i < slice.rows; ++i) {
        const View value = load_view(view.data, i);
        if (value.length > 0 && view.is_valid(i)) bytes = add_or_max(bytes, static_cast<uint64_t>(value.length));
    }
    return bytes;
}

namespace {

template <class Offset>
uint64_t longest_between(const uint8_t* offsets, int64_t rows) {
    Offset longest = 0;
    for (int64_t i = 0; i < rows; ++i) {
        longest = std::max<Offset>(longest, load<Offset>(offsets, i + 1) - load<Offset>(offsets, i));
    }
    return static_cast<uint64_t>(longest);
}

}  // namespace

uint64_t SliceReader::longest_value(const Slice& slice, NodeScratch& scratch) {
    if (slice.rows == 0) return 0;
    ColumnView view;
    if (slice.plan.type->layout == Layout::kBinary) {
        read_offsets(slice, scratch, view);  // they do not decrease
        return slice.plan.type->byte_width == 4 ? longest_between<int32_t>(view.offsets, slice.rows)
                                                : longest_between<int64_t>(view.offsets, slice.rows);
    }
    SPILLWAY_CHECK(slice.plan.type->layout == Layout::kView);
    read_validity(slice, scratch, view);
    view.data = fetch_structure(slice, slice.buffer(1), slice.row * kViewBytes, slice.rows * kViewBytes, scratch.data);
    int32_t longest = 0;
    for (int64_t i = 0; i < slice.rows; ++i) {
        if (view.is_valid(i)) longest = std::max(longest, load_view(view.data, i).length);
    }
    return static_cast<uint64_t>(longest);
}

}  // namespace spillway
