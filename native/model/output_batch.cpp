// SPDX-License-Identifier: Apache-2.0
#include "model/output_batch.hpp"

#include <algorithm>
#include <cstring>

#include "base/bitmap.hpp"
#include "base/checked_size.hpp"
#include "base/error.hpp"
#include "memory/batch_memory.hpp"

namespace spillway {

namespace {

// Smaller blocks come from malloc, and are too little to matter.
constexpr uint64_t kShrunkBytesMin = kMappedBytesMin;

uint64_t column_bytes(const OutputColumn& column) {
    uint64_t bytes = column.validity.size() + column.offsets.size() + column.data.size();
    for (const auto& child : column.children) bytes += column_bytes(child);
    return bytes;
}

// Shortens a buffer; what lies behind it up to a multiple of 64 bytes is zero, as in those of whole batches: there is
// room for that, in a buffer of its own as in a slice of a batch's memory.
void cut_buffer(Buffer& buffer, uint64_t bytes) {
    if (bytes >= buffer.size()) return;
    std::memset(buffer.data() + bytes, 0, (bytes + 63) / 64 * 64 - bytes);
    buffer.set_size(bytes);
}

void cut_bits(Buffer& buffer, int64_t bits) {
    if (buffer.empty()) return;
    cut_buffer(buffer, static_cast<uint64_t>(bitmap_bytes(bits)));
    if (bits % 8 != 0) buffer.data()[bits / 8] &= static_cast<uint8_t>((1u << (bits % 8)) - 1);
}

int64_t offset_at(const Buffer& offsets, int32_t width, int64_t index) {
    if (offsets.empty()) return 0;
    int64_t value = 0;  // little-endian
    std::memcpy(&value, offsets.data() + index * width, static_cast<size_t>(width));
    return value;
}

void cut_column(OutputColumn& column, int64_t rows);

void cut_values(OutputColumn& column, int64_t rows) {
    const ColumnType& type = *column.type;
    const auto count = static_cast<uint64_t>(rows);
    switch (type.layout) {
        case Layout::kNull:
            return;
        case Layout::kBool:
            return cut_bits(column.data, rows);
        case Layout::kFixed:
            return cut_buffer(column.data, count * static_cast<uint64_t>(type.byte_width));
        case Layout::kDictionary:
            return cut_buffer(column.data, count * sizeof(int32_t));
        case Layout::kBinary:
        case Layout::kView: {  // views come out as kBinary with 4-byte offsets
            const int32_t width = type.layout == Layout::kView ? 4 : type.byte_width;
            cut_buffer(column.data, static_cast<uint64_t>(offset_at(column.offsets, width, rows)));
            return cut_buffer(column.offsets, (count + 1) * static_cast<uint64_t>(width));
        }
        case Layout::kList:
            cut_column(column.children[0], offset_at(column.offsets, type.byte_width, rows));
            return cut_buffer(column.offsets, (count + 1) * static_cast<uint64_t>(type.byte_width));
        case Layout::kFixedList:
            return cut_column(column.children[0], rows * type.list_size);
        case Layout::kUnionSparse:
            cut_buffer(column.data, count);
            [[fallthrough]];
        case Layout::kStruct:
            for (OutputColumn& child : column.children) cut_column(child, rows);
            return;
        case Layout::kUnionDense:  // no row refers to the rest of the children
            cut_buffer(column.data, count);
            return cut_buffer(column.offsets, count * sizeof(int32_t));
    }
}

void cut_column(OutputColumn& column, int64_t rows) {
    if (rows >= column.length) return;
    cut_values(column, rows);
    column.length = rows;
    cut_bits(column.validity, rows);
    if (column.type->layout == Layout::kNull) {
        column.null_count = rows;
    } else if (column.null_count > 0) {
        column.null_count = 0;
        for (int64_t i = 0; i < rows; ++i) column.null_count += get_bit(column.validity.data(), i) ? 0 : 1;
    }
}

template <class Use>
void for_slices(OutputColumn& column, const Use& use) {
    for (Buffer* const buffer : {&column.validity, &column.offsets, &column.data}) {
        if (buffer->is_slice()) use(*buffer);
    }
    for (OutputColumn& child : column.children) for_slices(child, use);
}

}  // namespace

void shrink_batch(OutputBatch& batch) {
    MemoryBudget* const budget = batch.memory.budget();
    if (budget == nullptr || batch.memory.capacity() < kShrunkBytesMin) return;
    uint64_t used = 0;
    for (OutputColumn& column : batch.columns) {
        for_slices(column, [&](const Buffer& slice) { used += BatchMemory::padded(slice.size()); });
    }
    if (used == 0 || used > batch.memory.capacity() / 2) return;
    try {
        BatchMemory memory(*budget, used);
        for (OutputColumn& column : batch.columns) {
            for_slices(column, [&](Buffer& slice) {
                Buffer own = memory.take_padded(slice.size());
                std::memcpy(own.data(), slice.data(), slice.size());
                slice = std::move(own);
            });
        }
        batch.memory = memory.take_block();
    } catch (const Error& error) {
        if (error.code() != ErrorCode::kBudgetTooSmall) throw;
    }
}

void cut_batch(OutputBatch& batch, int64_t rows) {
    if (rows >= batch.rows) return;
    batch.rows = rows;
    for (OutputColumn& column : batch.columns) cut_column(column, rows);
}

uint64_t OutputBatch::bytes() const {
    uint64_t bytes = 0;
    for (const auto& column : columns) bytes += column_bytes(column);
    return bytes;
}

uint64_t expected_column_bytes(const ColumnType& type, uint64_t rows) {
    const uint64_t bits = BatchMemory::padded(rows / 8 + 1);
    const auto values = [&](int32_t width, uint64_t count) {
        return add_or_max(BatchMemory::padded(multiply_or_max(count, static_cast<uint64_t>(width))), bits);
    };
    switch (type.layout) {
        case Layout::kBool:
            return 2 * bits;
        case Layout::kFixed:
            return values(type.byte_width, rows);
        case Layout::kDictionary:
        case Layout::kView:
            return values(sizeof(int32_t), rows + 1);
        case Layout::kBinary:
            return values(type.byte_width, rows + 1);
        default:
            return 0;
    }
}

ColumnView view_of(const OutputColumn& column) {
    ColumnView view;
    view.type = column.type.get();
    view.length = column.length;
    view.validity = column.validity.empty() ? nullptr : column.validity.data();
    view.data = column.data.data();
    view.offsets = column.offsets.data();
    view.children.reserve(column.children.size());
    for (const auto& child : column.children) view.children.push_back(view_of(child));
    return view;
}

bool has_planned_layout(const ColumnType& planned, const ColumnType& actual) {
    const Layout layout = planned.layout == Layout::kView ? Layout::kBinary : planned.layout;
    if (layout != actual.layout || planned.children.size() != actual.children.size()) return false;
    // The index width of a dictionary type is the one of the source; rows always carry int32 indices.
    const bool width_matters = layout == Layout::kFixed || layout == Layout::kBinary || layout == Layout::kList;
    const int32_t width = planned.layout == Layout::kView ? 4 : planned.byte_width;
    if (width_matters && width != actual.byte_width) return false;
    if (layout == Layout::kFixedList && planned.list_size != actual.list_size) return false;
    if (layout == Layout::kDictionary) return true;
    for (size_t i = 0; i < planned.children.size(); ++i) {
        if (!has_planned_layout(planned.children[i], actual.children[i])) return false;
    }
    return true;
}

}  // namespace spillway
