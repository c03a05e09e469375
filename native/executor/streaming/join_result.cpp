// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/join_result.hpp"

#include <cstring>
#include <memory>

#include "base/bitmap.hpp"
#include "base/checked_size.hpp"
#include "base/error.hpp"
#include "cpu/row/column_builder.hpp"

namespace spillway {

namespace {

// The values of one part: row i at data + i * stride.
struct PartView {
    const uint8_t* data = nullptr;
    uint64_t stride = 0;
    const uint8_t* validity = nullptr;
    uint8_t mask = 0;
};

PartView part_view(const JoinedRows& rows, const ResultPart& part, const GpuOutputs& outputs) {
    const auto value = static_cast<size_t>(part.value);
    PartView view;
    view.data = outputs.values(value) + part.offset;
    view.stride = rows.join.output_width(rows.join.output[value]);
    if (part.validity >= 0) view.validity = outputs.values(static_cast<size_t>(part.validity));
    view.mask = part.mask;
    return view;
}

class ResultValues {
  public:
    ResultValues(const JoinedRows& rows, const ResultColumn& column, const GpuOutputs& outputs)
        : type_(column.type), width_(chunk_width(*column.type)), texts_(rows.texts) {
        for (const ResultPart& part : column.parts) parts_.push_back(part_view(rows, part, outputs));
        if (rows.presence >= 0) presence_ = outputs.values(static_cast<size_t>(rows.presence));
    }

    OutputColumn make(uint64_t rows, BatchMemory& memory, MemoryBudget& budget) const {
        if (is_text(*type_)) return make_texts(rows, memory, budget);
        OutputColumn made;
        made.type = type_;
        made.length = static_cast<int64_t>(rows);
        make_validity(made, rows, memory);
        const bool bits = type_->layout == Layout::kBool;
        made.data = memory.take_padded(bits ? (rows + 7) / 8 : rows * width_);
        if (bits) {
            std::memset(made.data.data(), 0, made.data.size());
            for (uint64_t row = 0; row < rows; ++row) {
                if (*value_at(row) != 0) set_bit(made.data.data(), static_cast<int64_t>(row));
            }
        } else {
            copy_values(made.data.data(), rows);
        }
        return made;
    }

  private:
    bool counts(const PartView& part, uint64_t row) const {
        return presence_ == nullptr || (presence_[row] & part.mask) == part.mask;
    }
    // The first part that is there, else any: a NULL has some value, too.
    const PartView* part_at(uint64_t row) const {
        for (const PartView& part : parts_) {
            if (counts(part, row)) return &part;
        }
        return nullptr;
    }
    const uint8_t* value_at(uint64_t row) const {
        const PartView* const part = part_at(row);
        const PartView& from = part == nullptr ? parts_.front() : *part;
        return from.data + row * from.stride;
    }

    bool is_null(uint64_t row) const {
        const PartView* const part = part_at(row);
        return part == nullptr || (part->validity != nullptr && part->validity[row] == 0);
    }

    OutputColumn make_texts(uint64_t rows, BatchMemory& memory, MemoryBudget& budget) const {
        SPILLWAY_CHECK(texts_ != nullptr);
        ColumnBuilder builder(type_, budget, static_cast<int64_t>(rows));
        builder.use(memory);
        for (uint64_t row = 0; row < rows; ++row) {
            if (is_null(row)) {
                builder.append_null();
                continue;
            }
            uint32_t code = 0;
            std::memcpy(&code, value_at(row), sizeof code);
            const ByteString text = texts_->text(code);
            builder.append_bytes(text.bytes, text.length);
        }
        return builder.finish();
    }

    void make_validity(OutputColumn& made, uint64_t rows, BatchMemory& memory) const {
        bool may_be_null = false;
        for (const PartView& part : parts_) {
            may_be_null = may_be_null || part.validity != nullptr || (presence_ != nullptr && part.mask != 0);
        }
        if (!may_be_null) return;
        made.validity = memory.take_padded((rows + 7) / 8);
        std::memset(made.validity.data(), 0, made.validity.size());
        uint64_t valid_count = 0;
        for (uint64_t row = 0; row < rows; ++row) {
            if (is_null(row)) continue;
            set_bit(made.validity.data(), static_cast<int64_t>(row));
            ++valid_count;
        }
        made.null_count = static_cast<int64_t>(rows - valid_count);
        if (made.null_count == 0) made.validity = Buffer();
    }

    template <uint32_t kWidth>
    void copy_strided(uint8_t* to, uint64_t rows) const {
        for (uint64_t row = 0; row < rows; ++row) std::memcpy(to + row * kWidth, value_at(row), kWidth);
    }
    void copy_values(uint8_t* to, uint64_t rows) const {
        if (parts_.size() == 1 && parts_[0].stride == width_) {
            std::memcpy(to, parts_[0].data, rows * width_);
            return;
        }
        switch (width_) {
            case 1:
                return copy_strided<1>(to, rows);
            case 2:
                return copy_strided<2>(to, rows);
            case 4:
                return copy_strided<4>(to, rows);
            case 8:
                return copy_strided<8>(to, rows);
            default:
                return copy_strided<16>(to, rows);
        }
    }

    const TypePtr type_;
    const uint32_t width_;
    const TextCodes* const texts_;
    std::vector<PartView> parts_;
    const uint8_t* presence_ = nullptr;
};

// Are the values of the column those of one output, none of them NULL?
bool is_as_it_came(const JoinedRows& rows, const ResultColumn& column) {
    const ColumnType& type = *column.type;
    if (column.parts.size() != 1 || is_text(type) || type.layout == Layout::kBool) return false;
    const ResultPart& part = column.parts[0];
    const uint32_t width = rows.join.output_width(rows.join.output[static_cast<size_t>(part.value)]);
    const bool may_be_null = part.validity >= 0 || (rows.presence >= 0 && part.mask != 0);
    return !may_be_null && part.offset == 0 && width == chunk_width(type);
}

// By output: columns have its values as they came, and nobody looks at it otherwise.
std::vector<bool> packed_outputs(const JoinedRows& rows, const std::vector<ResultColumn>& columns) {
    std::vector<bool> packed(rows.join.output.size(), false);
    for (const ResultColumn& column : columns) {
        if (!column.is_gathered() && is_as_it_came(rows, column))
            packed[static_cast<size_t>(column.parts[0].value)] = true;
    }
    for (const ResultColumn& column : columns) {
        if (column.is_gathered() || is_as_it_came(rows, column)) continue;
        for (const ResultPart& part : column.parts) {
            packed[static_cast<size_t>(part.value)] = false;
            if (part.validity >= 0) packed[static_cast<size_t>(part.validity)] = false;
        }
    }
    if (rows.presence >= 0) packed[static_cast<size_t>(rows.presence)] = false;
    return packed;
}

}  // namespace

uint64_t result_width(const ColumnType& type) {
    // Nobody knows how long texts are before they are there; this is what one with its offset usually takes.
    constexpr uint64_t kTextBytesUsual = 32;
    if (is_text(type)) return kTextBytesUsual;
    const uint32_t width = chunk_width(type);
    return width == 0 ? static_cast<uint64_t>(type.byte_width) : width;
}

OutputColumn result_column(const JoinedRows& rows, const ResultColumn& column, const GpuOutputs& outputs,
                           uint64_t count, BatchMemory& memory, MemoryBudget& budget) {
    if (!is_as_it_came(rows, column)) return ResultValues(rows, column, outputs).make(count, memory, budget);
    OutputColumn made;
    made.type = column.type;
    made.length = static_cast<int64_t>(count);
    made.data = memory.take_padded(count * chunk_width(*column.type));
    outputs.copy(static_cast<size_t>(column.parts[0].value), made.data.data());
    return made;
}

ResultForm join_result_form(const JoinedRows& rows, const std::vector<ResultColumn>& columns, MemoryBudget& budget) {
    const cuda::StagedJoinSpec& join = rows.join;
    ResultForm form;
    form.block_rows = join.sizes.result_rows;
    form.slots = join.sizes.result_slots;
    if (rows.packed) form.packed = packed_outputs(rows, columns);
    form.row_bytes = 0;
    for (const cuda::JoinOutputColumn& output : join.output) form.widths.push_back(join.output_width(output));
    for (const ResultColumn& column : columns) form.row_bytes += result_width(*column.type);
    form.columns = columns.size();
    form.memory = [&columns, &budget](uint64_t count) {
        uint64_t bytes = 0;
        for (const ResultColumn& column : columns) {
            bytes = add_or_max(bytes, expected_column_bytes(*column.type, count));
        }
        return std::make_unique<BatchMemory>(budget, bytes);
    };
    form.column = [rows, &columns, &budget](size_t at, const GpuOutputs& outputs, uint64_t count, BatchMemory& memory) {
        return result_column(rows, columns[at], outputs, count, memory, budget);
    };
    return form;
}

}  // namespace spillway
