// SPDX-License-Identifier: Apache-2.0
#include "transfer/slice_reader.hpp"

#include <cstring>
#include <type_traits>

#include "base/bit_range.hpp"
#include "base/checked_size.hpp"

namespace spillway {

namespace {

constexpr const char* kSlicesPurpose = "input slices";
// Behind every slice read from a file: consumers may load a whole vector that begins at the last value.
constexpr uint64_t kTailBytes = 64;
// What an absent or empty buffer is shown as; also the only offset of an empty column.
alignas(64) constexpr uint8_t kNoBytes[64] = {};

// Is none of them negative, and none less than the one before?
template <class Offset>
bool offsets_rise(const uint8_t* offsets, int64_t rows) {
    // No early exit, and no comparisons, which vectors of 64-bit values do not have everywhere: the loop has to
    // vectorize, corrupt files are rare. A difference of two that are not negative has the sign that it should have.
    using Bits = std::make_unsigned_t<Offset>;
    Bits signs = 0;
    for (int64_t i = 0; i < rows; ++i) {
        Bits begin;
        Bits end;
        std::memcpy(&begin, offsets + i * static_cast<int64_t>(sizeof(Offset)), sizeof begin);
        std::memcpy(&end, offsets + (i + 1) * static_cast<int64_t>(sizeof(Offset)), sizeof end);
        signs |= begin | end | (end - begin);
    }
    return static_cast<Offset>(signs) >= 0;
}

int64_t load_offset(const uint8_t* offset, int32_t width) {
    if (width == 8) {
        int64_t value;
        std::memcpy(&value, offset, 8);
        return value;
    }
    int32_t value;
    std::memcpy(&value, offset, 4);
    return value;
}

}  // namespace

uint8_t* SliceReader::reserve(Buffer& buffer, uint64_t bytes) {
    buffer.renew(budget_, add_or_max(bytes, kTailBytes), kSlicesPurpose);
    return buffer.data();
}

void SliceReader::copy(const Slice& slice, const Region& region, int64_t begin, int64_t bytes, uint8_t* out) {
    if (bytes == 0) return;
    SPILLWAY_CHECK(begin >= 0 && bytes > 0 && begin <= region.length && bytes <= region.length - begin);
    bytes_read_ += static_cast<uint64_t>(bytes);
    if (slice.batch.in_file()) {
        const int32_t file = slice.batch.layout->file;
        const uint8_t* near = cursor_.in_memory(file, region.offset + begin, bytes);
        if (near != nullptr) {
            std::memcpy(out, near, static_cast<size_t>(bytes));
        } else {
            parts_.files->read_unchecked(file, region.offset + begin, out, bytes);
        }
    } else {
        std::memcpy(out, region.pointer + begin, static_cast<size_t>(bytes));
    }
}

const uint8_t* SliceReader::fetch(const Slice& slice, const Region& region, int64_t begin, int64_t bytes,
                                  Buffer& scratch) {
    if (bytes == 0) return kNoBytes;
    if (slice.batch.in_file()) {
        uint8_t* out = reserve(scratch, static_cast<uint64_t>(bytes));
        copy(slice, region, begin, bytes, out);
        return out;
    }
    SPILLWAY_CHECK(begin >= 0 && bytes > 0 && begin <= region.length && bytes <= region.length - begin);
    bytes_read_ += static_cast<uint64_t>(bytes);
    return region.pointer + begin;
}

const uint8_t* SliceReader::fetch_structure(const Slice& slice, const Region& region, int64_t begin, int64_t bytes,
                                            Buffer& scratch) {
    if (structure_ == MemoryStructure::kBorrowed || bytes == 0) return fetch(slice, region, begin, bytes, scratch);
    uint8_t* out = reserve(scratch, static_cast<uint64_t>(bytes));
    copy(slice, region, begin, bytes, out);
    return out;
}

// nullptr also when the slice turns out to have no NULL: consumers then take their fast path, and the look costs a
// 64th of what they save per row.
void SliceReader::read_validity(const Slice& slice, NodeScratch& scratch, ColumnView& view) {
    view.validity = nullptr;
    view.validity_bit = 0;
    const BatchLayout::Node& node = slice.batch.node(slice.plan);
    const Region& region = slice.buffer(0);
    if (node.null_count == 0 || region.length == 0 || slice.rows == 0) return;
    const int64_t first_bit = node.bit_offset + slice.row;
    const int64_t bit = first_bit % 8;
    const uint8_t* bits =
        fetch_structure(slice, region, first_bit / 8, bitmap_bytes(bit + slice.rows), scratch.validity);
    if (all_bits_set(bits, bit, slice.rows)) return;
    view.validity = bits;
    view.validity_bit = bit;
}

void SliceReader::read_null(const Slice& slice, NodeScratch& scratch, ColumnView& view) {
    const auto bytes = static_cast<uint64_t>(bitmap_bytes(slice.rows));
    if (scratch.validity.empty() || scratch.validity.size() < bytes) {
        reserve(scratch.validity, bytes);
        std::memset(scratch.validity.data(), 0, scratch.validity.capacity());
        scratch.validity.set_size(scratch.validity.capacity());
    }
    view.validity = scratch.validity.data();
    view.validity_bit = 0;
}

void SliceReader::read_bool(const Slice& slice, NodeScratch& scratch, ColumnView& view) {
    const int64_t first_bit = slice.batch.node(slice.plan).bit_offset + slice.row;
    view.data_bit = first_bit % 8;
    const int64_t bytes = slice.rows == 0 ? 0 : bitmap_bytes(view.data_bit + slice.rows);
    view.data = fetch(slice, slice.buffer(1), first_bit / 8, bytes, scratch.data);
}

// Those of the slice's rows and of their end. Short slices take as long as their calls of the system: a piece of 256
// rows with eight columns of text made 32 of them, and 16 without a second look.
const uint8_t* SliceReader::fetch_offsets(const Slice& slice, NodeScratch& scratch) {
    const int32_t width = slice.plan.type->byte_width;
    const Region& region = slice.buffer(1);
    const int64_t begin = slice.row * width;
    const int64_t bytes = (slice.rows + 1) * width;
    if (!slice.batch.in_file()) return fetch_structure(slice, region, begin, bytes, scratch.offsets);
    NodeScratch::KeptOffsets& kept = scratch.kept_offsets;
    const int32_t file = slice.batch.layout->file;
    if (kept.file != file || kept.begin != region.offset + begin || kept.bytes < bytes) {
        kept.file = -1;  // until they are there
        fetch(slice, region, begin, bytes, scratch.offsets);
        kept = {file, region.offset + begin, bytes};
    }
    return scratch.offsets.data();
}

SliceReader::OffsetRange SliceReader::read_offsets(const Slice& slice, NodeScratch& scratch, ColumnView& view) {
    view.offsets = kNoBytes;
    view.offset_base = 0;
    if (slice.rows == 0) return {};
    const int32_t width = slice.plan.type->byte_width;
    view.offsets = fetch_offsets(slice, scratch);
    const bool rise =
        width == 8 ? offsets_rise<int64_t>(view.offsets, slice.rows) : offsets_rise<int32_t>(view.offsets, slice.rows);
    const OffsetRange range{load_offset(view.offsets, width), load_offset(view.offsets + slice.rows * width, width)};
    if (!rise) {
        throw slice.corrupt("has offsets that are negative or decrease in rows " + std::to_string(slice.row) + " to " +
                            std::to_string(slice.row + slice.rows));
    }
    view.offset_base = range.first;
    return range;
}

SliceReader::OffsetRange SliceReader::peek_offsets(const Slice& slice, NodeScratch& scratch) {
    if (slice.rows == 0) return {};
    const int32_t width = slice.plan.type->byte_width;
    OffsetRange range;
    if (slice.batch.in_file()) {
        const uint8_t* offsets = fetch_offsets(slice, scratch);
        range = {load_offset(offsets, width), load_offset(offsets + slice.rows * width, width)};
    } else {
        uint8_t ends[2][8];
        copy(slice, slice.buffer(1), slice.row * width, width, ends[0]);
        copy(slice, slice.buffer(1), (slice.row + slice.rows) * width, width, ends[1]);
        range = {load_offset(ends[0], width), load_offset(ends[1], width)};
    }
    if (range.first < 0 || range.last < range.first) {
        throw slice.corrupt("has offsets that are negative or decrease in rows " + std::to_string(slice.row) + " to " +
                            std::to_string(slice.row + slice.rows));
    }
    return range;
}

void SliceReader::read_binary(const Slice& slice, NodeScratch& scratch, ColumnView& view) {
    const OffsetRange range = read_offsets(slice, scratch, view);
    check_bytes_end(slice, range.last);
    view.data = fetch(slice, slice.buffer(2), range.first, range.last - range.first, scratch.data);
}

void SliceReader::check_bytes_end(const Slice& slice, int64_t last) const {
    const int64_t bytes = slice.buffer(2).length;
    if (last <= bytes) return;
    throw short_buffer(slice.batch, slice.plan.name, "bytes for its offsets", last, bytes);
}

void SliceReader::check_list_end(const Slice& slice, int64_t last) const {
    const int64_t items = slice.batch.node(slice.plan.children[0]).length;
    if (last <= items) return;
    throw slice.corrupt("has offsets up to " + std::to_string(last) + " but only " + std::to_string(items) + " items");
}

void SliceReader::read_children(const Slice& slice, int64_t row, int64_t rows, NodeScratch& scratch, ColumnView& view) {
    for (size_t k = 0; k < slice.plan.children.size(); ++k) {
        read(slice.child(k, row, rows), scratch.children[k], view.children[k]);
    }
}

void SliceReader::read(const Slice& slice, NodeScratch& scratch, ColumnView& view) {
    const ColumnType& type = *slice.plan.type;
    const size_t children = slice.plan.children.size();
    // All readers of the source count the references to one type: small batches would wait for its counter.
    if (view.type != slice.plan.shown) view.type = slice.plan.shown;
    view.length = slice.rows;
    // Sizes settle with the first slice; later calls change nothing here.
    if (view.children.size() != children) view.children.resize(children);
    if (scratch.children.size() != children) scratch.children.resize(children);
    const bool is_union = type.layout == Layout::kUnionSparse || type.layout == Layout::kUnionDense;
    if (type.layout != Layout::kNull && !is_union) read_validity(slice, scratch, view);
    switch (type.layout) {
        case Layout::kNull:
            return read_null(slice, scratch, view);
        case Layout::kBool:
            return read_bool(slice, scratch, view);
        case Layout::kFixed:
            view.data =
                fetch(slice, slice.buffer(1), slice.row * type.byte_width, slice.rows * type.byte_width, scratch.data);
            return;
        case Layout::kDictionary:
            return read_dictionary(slice, scratch, view);
        case Layout::kBinary:
            return read_binary(slice, scratch, view);
        case Layout::kView:
            return read_views(slice, scratch, view);
        case Layout::kList: {
            const OffsetRange range = read_offsets(slice, scratch, view);
            check_list_end(slice, range.last);
            return read_children(slice, range.first, range.last - range.first, scratch, view);
        }
        case Layout::kFixedList:
            return read_children(slice, slice.row * type.list_size, slice.rows * type.list_size, scratch, view);
        case Layout::kStruct:
            return read_children(slice, slice.row, slice.rows, scratch, view);
        case Layout::kUnionSparse:
            read_type_ids(slice, scratch, view);
            return read_children(slice, slice.row, slice.rows, scratch, view);
        case Layout::kUnionDense:
            return read_dense_union(slice, scratch, view);
    }
}

uint64_t SliceReader::slice_bytes(const Slice& slice, NodeScratch& scratch) {
    const ColumnType& type = *slice.plan.type;
    if (scratch.children.size() != slice.plan.children.size()) scratch.children.resize(slice.plan.children.size());
    const int64_t constant = constant_row_bits(slice.plan);
    if (constant >= 0) {
        return multiply_or_max(static_cast<uint64_t>(constant), static_cast<uint64_t>(slice.rows)) / 8;
    }
    const auto rows = static_cast<uint64_t>(slice.rows);
    uint64_t bytes = rows / 8;
    const auto add_children = [&](int64_t row, int64_t count) {
        for (size_t k = 0; k < slice.plan.children.size(); ++k) {
            bytes = add_or_max(bytes, slice_bytes(slice.child(k, row, count), scratch.children[k]));
        }
    };
    if (type.layout == Layout::kBinary || type.layout == Layout::kList) {
        const OffsetRange range = peek_offsets(slice, scratch);
        bytes += (rows + 1) * static_cast<uint64_t>(type.byte_width);
        if (type.layout == Layout::kBinary) {
            bytes = add_or_max(bytes, static_cast<uint64_t>(range.last - range.first));
        } else {
            check_list_end(slice, range.last);
            add_children(range.first, range.last - range.first);
        }
    } else if (type.layout == Layout::kView) {
        bytes = add_or_max(bytes + rows * 16, view_value_bytes(slice, scratch));
    } else if (type.layout == Layout::kFixedList) {
        add_children(slice.row * type.list_size, slice.rows * type.list_size);
    } else if (type.layout == Layout::kUnionDense) {
        ColumnView view;
        read_type_ids(slice, scratch, view);
        find_member_rows(slice, scratch, view);
        bytes += rows * 5;
        for (size_t k = 0; k < slice.plan.children.size(); ++k) {
            const NodeScratch::Range range = scratch.ranges[k];
            bytes = add_or_max(bytes,
                               slice_bytes(slice.child(k, range.begin, range.end - range.begin), scratch.children[k]));
        }
    } else {  // struct, sparse union
        bytes += rows;
        add_children(slice.row, slice.rows);
    }
    return bytes;
}

int64_t constant_row_bits(const NodePlan& plan) {
    const ColumnType& type = *plan.type;
    int64_t bits = 1;  // validity
    switch (type.layout) {
        case Layout::kNull:
            return bits;
        case Layout::kBool:
            return bits + 1;
        case Layout::kFixed:
            return bits + int64_t{8} * type.byte_width;
        case Layout::kDictionary:  // as in the file, and unified
            return bits + 8 * (int64_t{type.byte_width} + 4);
        case Layout::kFixedList: {
            const int64_t item = constant_row_bits(plan.children[0]);
            return item < 0 ? -1 : add_or_max(bits, multiply_or_max(item, type.list_size));
        }
        case Layout::kUnionSparse:
        case Layout::kStruct:
            bits = type.layout == Layout::kStruct ? bits : 8;
            for (const NodePlan& child : plan.children) {
                const int64_t child_bits = constant_row_bits(child);
                if (child_bits < 0) return -1;
                bits = add_or_max(bits, child_bits);
            }
            return bits;
        default:
            return -1;
    }
}

}  // namespace spillway
