// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/group_result.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/bitmap.hpp"
#include "base/error.hpp"
#include "base/nearest_mean.hpp"
#include "executor/padded_buffer.hpp"
#include "executor/streaming/join_spec.hpp"

namespace spillway {

namespace {

class GroupValues {
  public:
    GroupValues(const GroupResultColumn& column, const GroupOutputs& outputs, const std::string& name)
        : column_(column), outputs_(outputs), name_(name), width_(chunk_width(*column.type)) {}

    OutputColumn make(uint64_t rows, MemoryBudget& budget) const {
        OutputColumn made;
        made.type = column_.type;
        made.length = static_cast<int64_t>(rows);
        make_validity(made, rows, budget);
        const bool bits = column_.type->layout == Layout::kBool;
        made.data = padded_buffer(budget, bits ? (rows + 7) / 8 : rows * width_);
        if (bits) std::memset(made.data.data(), 0, made.data.size());
        for (uint64_t row = 0; row < rows; ++row) {
            if (is_null(row)) {
                if (!bits) std::memset(made.data.data() + row * width_, 0, width_);
            } else if (bits) {
                if (*at(column_.value, row) != 0) set_bit(made.data.data(), static_cast<int64_t>(row));
            } else {
                write_value(row, made.data.data() + row * width_);
            }
        }
        return made;
    }

  private:
    const uint8_t* at(int32_t output, uint64_t row) const {
        const auto index = static_cast<size_t>(output);
        const uint32_t offset = output == column_.value ? column_.offset : 0;
        return outputs_.data[index] + row * outputs_.widths[index] + offset;
    }
    uint64_t word(int32_t output, uint64_t row) const {
        uint64_t value = 0;
        std::memcpy(&value, at(output, row), sizeof value);
        return value;
    }

    bool may_be_null() const { return column_.present >= 0 || (column_.key >= 0 && outputs_.null_byte >= 0); }
    bool is_null(uint64_t row) const {
        if (column_.key >= 0 && outputs_.null_byte >= 0) {
            const uint64_t key = row * outputs_.widths[0] + static_cast<uint64_t>(outputs_.null_byte);
            if ((outputs_.data[0][key] >> column_.key & 1) != 0) return true;
        }
        if (column_.present < 0) return false;
        const auto index = static_cast<size_t>(column_.present);
        const uint32_t width = outputs_.widths[index];
        const uint8_t* const first = outputs_.data[index] + row * width;
        return std::all_of(first, first + width, [](uint8_t byte) { return byte == 0; });
    }

    void make_validity(OutputColumn& made, uint64_t rows, MemoryBudget& budget) const {
        if (!may_be_null()) return;
        made.validity = padded_buffer(budget, (rows + 7) / 8);
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

    double float_sum(uint64_t row) const {
        double sum = 0;
        std::memcpy(&sum, at(column_.value, row), sizeof sum);
        return sum;
    }
    // Of at most 2^63 rows in two parts; without a second one the GPU has seen to it that the sum fits 64 bits.
    __int128 integer_sum(uint64_t row) const {
        const bool is_signed = column_.number == GpuNumberKind::kSigned;
        const auto extended = [&](uint64_t value) {
            return is_signed ? static_cast<__int128>(static_cast<int64_t>(value)) : static_cast<__int128>(value);
        };
        const uint64_t low = word(column_.value, row);
        if (column_.high < 0) return extended(low);
        return extended(word(column_.high, row)) * (__int128{1} << 32) + static_cast<__int128>(low);
    }

    double mean_of(uint64_t row, uint64_t count) const {
        if (column_.number == GpuNumberKind::kFloat) return float_sum(row) / static_cast<double>(count);
        return nearest_mean(integer_sum(row), count, column_.decimal_scale);
    }

    void write_value(uint64_t row, uint8_t* out) const {
        switch (column_.kind) {
            case GroupResultKind::kCopy:
                std::memcpy(out, at(column_.value, row), width_);
                return;
            case GroupResultKind::kSum:
                if (column_.number != GpuNumberKind::kFloat) return write_sum(integer_sum(row), out);
                std::memcpy(out, at(column_.value, row), sizeof(double));
                return;
            case GroupResultKind::kMean: {
                const double mean = mean_of(row, word(column_.count, row));
                std::memcpy(out, &mean, sizeof mean);
                return;
            }
        }
    }

    void write_sum(__int128 sum, uint8_t* out) const {
        if (width_ == sizeof sum) {
            std::memcpy(out, &sum, sizeof sum);
            return;
        }
        const bool is_unsigned = column_.type->order == Order::kUnsigned;
        const __int128 low = is_unsigned ? 0 : std::numeric_limits<int64_t>::min();
        const __int128 high = is_unsigned ? static_cast<__int128>(std::numeric_limits<uint64_t>::max())
                                          : static_cast<__int128>(std::numeric_limits<int64_t>::max());
        if (sum < low || sum > high) {
            throw Error(ErrorCode::kIntegerOverflow,
                        "the sum of column '" + name_ + "' does not fit " + (is_unsigned ? "uint64" : "int64") +
                            " for one group; cast the column to float64 or to a wider decimal before grouping",
                        {{"column", name_}});
        }
        const auto bits = static_cast<uint64_t>(sum);
        std::memcpy(out, &bits, sizeof bits);
    }

    const GroupResultColumn& column_;
    const GroupOutputs& outputs_;
    const std::string& name_;
    const uint32_t width_;
};

}  // namespace

OutputColumn group_result_column(const GroupResultColumn& column, const GroupOutputs& outputs, uint64_t rows,
                                 const std::string& name, MemoryBudget& budget) {
    return GroupValues(column, outputs, name).make(rows, budget);
}

}  // namespace spillway
