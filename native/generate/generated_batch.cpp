// SPDX-License-Identifier: Apache-2.0
#include "generate/generated_batch.hpp"

#include <algorithm>
#include <cstring>

#include "base/bitmap.hpp"
#include "memory/mapped_block.hpp"

namespace spillway {

namespace {

constexpr const char* kPurpose = "generated rows";
constexpr uint64_t kPadding = 64;  // Arrow buffers end at multiples of this

struct BufferBytes {
    uint64_t offsets = 0;
    uint64_t data = 0;
};

BufferBytes buffer_bytes(const ColumnType& type, uint32_t text_bytes_max, int64_t rows) {
    const auto count = static_cast<uint64_t>(rows);
    if (type.layout == Layout::kFixed) return {0, count * static_cast<uint64_t>(type.byte_width)};
    if (type.layout == Layout::kBool) return {0, static_cast<uint64_t>(bitmap_bytes(rows))};
    if (type.layout == Layout::kDictionary) return {0, count * sizeof(int32_t)};
    SPILLWAY_CHECK(type.layout == Layout::kBinary && type.byte_width == 4);
    return {(count + 1) * sizeof(int32_t), count * text_bytes_max};
}

uint64_t padded(uint64_t bytes) {
    return (bytes + kPadding - 1) / kPadding * kPadding;
}

void zero_tail(Buffer& buffer) {
    if (buffer.empty()) return;
    const uint64_t end = std::min(padded(buffer.size()), buffer.capacity());
    std::memset(buffer.data() + buffer.size(), 0, end - buffer.size());
}

}  // namespace

uint64_t generated_batch_bytes(const std::vector<TypePtr>& columns, const std::vector<uint32_t>& text_bytes_max,
                               int64_t rows) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < columns.size(); ++i) {
        const BufferBytes need = buffer_bytes(*columns[i], text_bytes_max[i], rows);
        if (need.offsets > 0) bytes += block_capacity(need.offsets);
        if (need.data > 0) bytes += block_capacity(need.data);
    }
    return bytes;
}

OutputBatch allocate_generated_batch(const std::vector<TypePtr>& columns, const std::vector<uint32_t>& text_bytes_max,
                                     int64_t rows, MemoryBudget& budget, Reservation& memory) {
    OutputBatch batch;
    batch.rows = rows;
    batch.columns.reserve(columns.size());
    for (size_t i = 0; i < columns.size(); ++i) {
        const BufferBytes need = buffer_bytes(*columns[i], text_bytes_max[i], rows);
        OutputColumn column;
        column.type = columns[i];
        column.length = rows;
        column.offsets = Buffer::allocate(budget, memory, need.offsets, kPurpose);
        column.data = Buffer::allocate(budget, memory, need.data, kPurpose);
        batch.columns.push_back(std::move(column));
    }
    return batch;
}

void zero_padding(OutputBatch& batch) {
    for (auto& column : batch.columns) {
        zero_tail(column.offsets);
        zero_tail(column.data);
    }
}

}  // namespace spillway
