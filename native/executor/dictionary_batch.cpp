// SPDX-License-Identifier: Apache-2.0
#include "executor/dictionary_batch.hpp"

#include <cstring>
#include <memory>

#include "base/bit_range.hpp"
#include "base/error.hpp"
#include "executor/arrow_buffers.hpp"

namespace spillway {

namespace {

class ColumnCopy {
  public:
    explicit ColumnCopy(MemoryBudget& budget) : budget_(budget) {}

    // The view must be of a column that the engine built: offsets from 0, no views of bytes.
    OutputColumn copy(const ColumnView& view) {
        OutputColumn column;
        column.type = std::make_shared<const ColumnType>(*view.type);
        column.length = view.length;
        copy_validity(view, column);
        switch (view.type->layout) {
            case Layout::kNull:
                column.null_count = view.length;
                break;
            case Layout::kBool:
                column.data = bits(view.data, view.data_bit, view.length);
                break;
            case Layout::kFixed:
                column.data = bytes(view.data, view.length * view.type->byte_width);
                break;
            case Layout::kDictionary:
                column.data = bytes(view.data, view.length * static_cast<int64_t>(sizeof(int32_t)));
                break;
            case Layout::kBinary:
                column.data = bytes(view.data, copy_offsets(view, column));
                break;
            case Layout::kList:
                SPILLWAY_CHECK(copy_offsets(view, column) <= view.children[0].length);
                break;
            case Layout::kUnionDense:
                column.offsets = bytes(view.offsets, view.length * static_cast<int64_t>(sizeof(int32_t)));
                column.data = bytes(view.data, view.length);
                break;
            case Layout::kUnionSparse:
                column.data = bytes(view.data, view.length);
                break;
            case Layout::kStruct:
            case Layout::kFixedList:
                break;
            case Layout::kView:
                fail_check("a dictionary holds values in views", __FILE__, __LINE__);
        }
        for (const ColumnView& child : view.children) column.children.push_back(copy(child));
        return column;
    }

  private:
    Buffer padded(int64_t size) {
        return padded_buffer(budget_, static_cast<uint64_t>(size), "dictionary of the result");
    }

    Buffer bytes(const uint8_t* from, int64_t size) {
        Buffer buffer = padded(size);
        if (size > 0) std::memcpy(buffer.data(), from, static_cast<size_t>(size));
        return buffer;
    }

    Buffer bits(const uint8_t* from, int64_t bit, int64_t count) {
        Buffer buffer = padded(bitmap_bytes(count));
        if (count > 0) copy_bits_aligned(from, bit, count, buffer.data());
        return buffer;
    }

    void copy_validity(const ColumnView& view, OutputColumn& column) {
        if (view.validity == nullptr || view.length == 0) return;
        column.null_count = view.length - count_set_bits(view.validity, view.validity_bit, view.length);
        if (column.null_count > 0) column.validity = bits(view.validity, view.validity_bit, view.length);
    }

    // Returns the end of the last value.
    int64_t copy_offsets(const ColumnView& view, OutputColumn& column) {
        const int32_t width = view.type->byte_width;
        if (view.offsets == nullptr) {
            SPILLWAY_CHECK(view.length == 0);
            return 0;
        }
        SPILLWAY_CHECK(view.offset_base == 0 && load_offset(view.offsets, 0, width) == 0);
        column.offsets = bytes(view.offsets, (view.length + 1) * width);
        return load_offset(view.offsets, view.length, width);
    }

    MemoryBudget& budget_;
};

}  // namespace

OutputBatch dictionary_batch(const Dictionary& dictionary, MemoryBudget& budget, const JobControl& control) {
    control.check();
    OutputBatch batch;
    batch.rows = dictionary.values.length;
    batch.columns.push_back(ColumnCopy(budget).copy(dictionary.values));
    return batch;
}

}  // namespace spillway
