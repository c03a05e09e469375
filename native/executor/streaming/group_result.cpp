// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/group_result.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/bitmap.hpp"
#include "base/checked_size.hpp"
#include "base/decimal_fits.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/load.hpp"
#include "base/nearest_mean.hpp"
#include "cpu/row/column_builder.hpp"
#include "device/gpu_error.hpp"
#include "executor/streaming/short_text.hpp"

namespace spillway {

namespace {

// Bytes of a value of fixed width, which keys that are numbered have of any number.
uint32_t value_width(const ColumnType& type) {
    const uint32_t width = chunk_width(type);
    return width == 0 && type.layout == Layout::kFixed ? static_cast<uint32_t>(type.byte_width) : width;
}

// Where the groups of a batch begin in each output column of the GPU.
struct GroupOutputs {
    const std::vector<uint32_t>& widths;
    const std::vector<const uint8_t*>& data;
    const KeyFlags flags;
    const TextCodes& texts;
};

class GroupValues {
  public:
    GroupValues(const GroupResultColumn& column, const GroupOutputs& outputs)
        : column_(column), outputs_(outputs), width_(value_width(*column.type)) {}

    OutputColumn make(uint64_t rows, BatchMemory& memory, MemoryBudget& budget) const {
        if (is_text(*column_.type)) return make_texts(rows, memory, budget);
        OutputColumn made;
        made.type = column_.type;
        made.length = static_cast<int64_t>(rows);
        make_validity(made, rows, memory);
        const bool bits = column_.type->layout == Layout::kBool;
        made.data = memory.take_padded(bits ? (rows + 7) / 8 : rows * width_);
        if (bits) std::memset(made.data.data(), 0, made.data.size());
        if (!bits && made.null_count == 0 && write_all(rows, made.data.data())) return made;
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
    OutputColumn make_texts(uint64_t rows, BatchMemory& memory, MemoryBudget& budget) const {
        ColumnBuilder builder(column_.type, budget, static_cast<int64_t>(rows));
        builder.use(memory);
        for (uint64_t row = 0; row < rows; ++row) {
            if (is_null(row)) {
                builder.append_null();
                continue;
            }
            const uint8_t* const value = at(column_.value, row);
            const ByteString text = column_.bytes == kTextCodeBytes ? outputs_.texts.text(load<uint32_t>(value))
                                                                    : short_text(value, column_.bytes, outputs_.texts);
            builder.append_bytes(text.bytes, text.length);
        }
        return builder.finish();
    }

    // The bytes of the keys, whose words or whose number the row has.
    const uint8_t* tuple(uint64_t row) const {
        if (outputs_.flags.words > 0) {
            words_.read(outputs_.data, outputs_.flags.words, row);
            return reinterpret_cast<const uint8_t*>(words_.word);
        }
        uint32_t code = 0;
        std::memcpy(&code, outputs_.data[0] + row * sizeof code, sizeof code);
        return outputs_.texts.text(code).bytes;
    }
    const uint8_t* at(int32_t output, uint64_t row) const {
        if (is_in_tuple()) return tuple(row) + column_.offset;
        const auto index = static_cast<size_t>(output);
        const uint32_t offset = output == column_.value ? column_.offset : 0;
        return outputs_.data[index] + row * outputs_.widths[index] + offset;
    }
    uint64_t word(int32_t output, uint64_t row) const {
        uint64_t value = 0;
        std::memcpy(&value, at(output, row), sizeof value);
        return value;
    }

    bool is_in_tuple() const {
        const KeyFlags& flags = outputs_.flags;
        return column_.key >= 0 && (flags.numbered || flags.words > 0);
    }
    bool may_be_null() const { return column_.present >= 0 || (column_.key >= 0 && outputs_.flags.byte >= 0); }
    bool is_null(uint64_t row) const {
        if (column_.key >= 0 && outputs_.flags.byte >= 0) {
            const KeyFlags& flags = outputs_.flags;
            const uint8_t* const key = is_in_tuple() ? tuple(row) : outputs_.data[0] + row * outputs_.widths[0];
            const int32_t byte = flags.byte + column_.key / 8;  // words have eight flags at most
            if ((key[byte] >> (column_.key % 8) & 1) != 0) return true;
        }
        if (column_.present < 0) return false;
        const auto index = static_cast<size_t>(column_.present);
        const uint32_t width = outputs_.widths[index];
        const uint8_t* const first = outputs_.data[index] + row * width;
        if (width == sizeof(uint64_t)) return word(column_.present, row) == 0;
        return std::all_of(first, first + width, [](uint8_t byte) { return byte == 0; });
    }

    void make_validity(OutputColumn& made, uint64_t rows, BatchMemory& memory) const {
        if (!may_be_null()) return;
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

    double float_sum(uint64_t row) const {
        double sum = 0;
        std::memcpy(&sum, at(column_.value, row), sizeof sum);
        return sum;
    }
    // A sum in two parts is that of at most 2^63 rows. Without a second part the GPU has seen to it that the sum fits
    // 64 bits.
    __int128 integer_sum(uint64_t row) const {
        const bool is_signed = column_.number == cuda::ValueKind::kSigned;
        const auto extended = [&](uint64_t value) {
            return is_signed ? static_cast<__int128>(static_cast<int64_t>(value)) : static_cast<__int128>(value);
        };
        const uint64_t low = word(column_.value, row);
        if (column_.high < 0) return extended(low);
        return extended(word(column_.high, row)) * (__int128{1} << 32) + static_cast<__int128>(low);
    }

    // A sum in four parts, in two's complement.
    struct DecimalSum {
        uint64_t words[3];
    };
    DecimalSum decimal_sum(uint64_t row) const {
        using Unsigned = unsigned __int128;
        const Unsigned low = Unsigned{word(column_.value, row)} + (Unsigned{word(column_.between[0], row)} << 32);
        const Unsigned middle = Unsigned{word(column_.between[1], row)} + static_cast<uint64_t>(low >> 64);
        const auto top = static_cast<__int128>(static_cast<int64_t>(word(column_.high, row)));
        const __int128 high = static_cast<__int128>(middle) + top * (__int128{1} << 32);
        return {{static_cast<uint64_t>(low), static_cast<uint64_t>(high), static_cast<uint64_t>(high >> 64)}};
    }

    double mean_of(uint64_t row, uint64_t count) const {
        if (column_.number == cuda::ValueKind::kFloat) return float_sum(row) / static_cast<double>(count);
        if (!column_.between.empty()) {
            return nearest_decimal_mean(decimal_sum(row).words, count, column_.decimal_scale);
        }
        return nearest_mean(integer_sum(row), count, column_.decimal_scale);
    }

    void write_value(uint64_t row, uint8_t* out) const {
        switch (column_.kind) {
            case GroupResultKind::kCopy:
                copy_value(at(column_.value, row), out);
                if (column_.high >= 0) std::memcpy(out + sizeof(uint64_t), at(column_.high, row), sizeof(uint64_t));
                return;
            case GroupResultKind::kSum:
                if (!column_.between.empty()) return write_decimal_sum(decimal_sum(row), out);
                if (column_.number != cuda::ValueKind::kFloat) return write_sum(integer_sum(row), out);
                std::memcpy(out, at(column_.value, row), sizeof(double));
                return;
            case GroupResultKind::kMean: {
                const double mean = mean_of(row, word(column_.count, row));
                std::memcpy(out, &mean, sizeof mean);
                return;
            }
        }
    }

    // Writes all values where none is NULL and each takes the same few steps; else returns false.
    bool write_all(uint64_t rows, uint8_t* out) const {
        if (is_in_tuple()) return false;
        const bool is_sum = column_.kind == GroupResultKind::kSum;
        if (is_sum && column_.number != cuda::ValueKind::kFloat) {
            if (!column_.between.empty()) {
                for (uint64_t row = 0; row < rows; ++row) write_decimal_sum(decimal_sum(row), out + row * width_);
            } else if (width_ == sizeof(uint64_t)) {
                write_sums(rows, out);
            } else {
                SPILLWAY_CHECK(width_ == sizeof(__int128));
                write_wide_sums(rows, out);
            }
            return true;
        }
        const bool is_copy = column_.kind == GroupResultKind::kCopy && column_.high < 0 && column_.bytes >= width_;
        return (is_copy || is_sum) && copy_all(rows, out);
    }

    template <uint32_t kWidth>
    static void copy_strided(const uint8_t* from, uint64_t stride, uint64_t rows, uint8_t* out) {
        for (uint64_t row = 0; row < rows; ++row) std::memcpy(out + row * kWidth, from + row * stride, kWidth);
    }
    bool copy_all(uint64_t rows, uint8_t* out) const {
        const uint8_t* const from = at(column_.value, 0);
        const uint64_t stride = outputs_.widths[static_cast<size_t>(column_.value)];
        if (stride == width_) {
            std::memcpy(out, from, rows * width_);
        } else if (width_ == 4) {
            copy_strided<4>(from, stride, rows, out);
        } else if (width_ == 2) {
            copy_strided<2>(from, stride, rows, out);
        } else if (width_ == 1) {
            copy_strided<1>(from, stride, rows, out);
        } else {
            return false;
        }
        return true;
    }

    // Calls use(row, sum) for the integer sums of all rows, in one part or two. What it reads by is in variables of its
    // own: bytes that `use` writes could be those of this object, as far as the compiler knows, which would look them
    // up for each row.
    template <class Use>
    void for_sums(uint64_t rows, const Use& use) const {
        const uint8_t* const low = at(column_.value, 0);
        const uint8_t* const high = column_.high < 0 ? nullptr : at(column_.high, 0);
        const auto stride = [this](int32_t output) { return outputs_.widths[static_cast<size_t>(output)]; };
        SPILLWAY_CHECK(stride(column_.value) == sizeof(uint64_t));
        SPILLWAY_CHECK(high == nullptr || stride(column_.high) == sizeof(uint64_t));
        const auto part = [](const uint8_t* words, uint64_t row) {
            uint64_t word = 0;
            std::memcpy(&word, words + row * sizeof word, sizeof word);
            return word;
        };
        const auto all = [&](const auto& extended) {
            for (uint64_t row = 0; high == nullptr && row < rows; ++row) use(row, extended(part(low, row)));
            for (uint64_t row = 0; high != nullptr && row < rows; ++row) {
                const auto below = static_cast<__int128>(part(low, row));
                use(row, extended(part(high, row)) * (__int128{1} << 32) + below);
            }
        };
        if (column_.number == cuda::ValueKind::kSigned) {
            all([](uint64_t word) { return static_cast<__int128>(static_cast<int64_t>(word)); });
        } else {
            all([](uint64_t word) { return static_cast<__int128>(word); });
        }
    }
    // Sums of 128 bits, which fit.
    void write_wide_sums(uint64_t rows, uint8_t* out) const {
        for_sums(rows, [out](uint64_t row, __int128 sum) { std::memcpy(out + row * sizeof sum, &sum, sizeof sum); });
    }
    // Sums of 64 bits.
    void write_sums(uint64_t rows, uint8_t* out) const {
        const SumRange range = sum_range();
        bool fits = true;
        for_sums(rows, [&fits, out, least = range.least, most = range.most](uint64_t row, __int128 sum) {
            fits = fits & (sum >= least) & (sum <= most);
            const auto bits = static_cast<uint64_t>(sum);
            std::memcpy(out + row * sizeof bits, &bits, sizeof bits);
        });
        if (!fits) overflow(range.name);
    }

    void copy_value(const uint8_t* from, uint8_t* out) const {
        const uint32_t bytes = std::min(column_.bytes, width_);
        std::memcpy(out, from, bytes);
        const bool negative = column_.number == cuda::ValueKind::kSigned && (from[bytes - 1] & 0x80) != 0;
        std::memset(out + bytes, negative ? 0xff : 0, width_ - bytes);
    }

    [[noreturn]] void overflow(const std::string& type) const {
        throw Error(ErrorCode::kIntegerOverflow,
                    "the sum of column '" + column_.name + "' does not fit " + type +
                        " for one group; cast the column to float64 or to a wider decimal before grouping",
                    {{"column", column_.name}});
    }
    void write_decimal_sum(const DecimalSum& sum, uint8_t* out) const {
        if (!decimal_fits(sum.words, 2)) overflow("38 decimal digits");
        std::memcpy(out, sum.words, 2 * sizeof(uint64_t));
    }

    struct SumRange {
        __int128 least;
        __int128 most;
        const char* name;
    };
    SumRange sum_range() const {
        if (column_.type->order == Order::kUnsigned) return {0, std::numeric_limits<uint64_t>::max(), "uint64"};
        return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), "int64"};
    }

    void write_sum(__int128 sum, uint8_t* out) const {
        if (width_ == sizeof sum) {
            std::memcpy(out, &sum, sizeof sum);
            return;
        }
        const SumRange range = sum_range();
        if (sum < range.least || sum > range.most) overflow(range.name);
        const auto bits = static_cast<uint64_t>(sum);
        std::memcpy(out, &bits, sizeof bits);
    }

    const GroupResultColumn& column_;
    const GroupOutputs& outputs_;
    const uint32_t width_;
    mutable GroupKeyWords words_;  // of the row that was looked at last
};

// A text and its offset are taken for so many bytes where batches are cut into rows.
constexpr uint64_t kTextBytesUsual = 32;

[[noreturn]] void fail_of_shared_hash() {
    throw Error(ErrorCode::kUnsupportedType,
                "two keys of several words have the same hash, by which the GPU groups them; use device \"auto\" or "
                "\"cpu\"",
                {refused_by_device()});
}

std::vector<uint32_t> widths_of(const cuda::StagedGroupBySpec& group) {
    const auto widths = group.output_widths();
    return {widths.begin(), widths.end()};
}

}  // namespace

void GroupKeyWords::read(const std::vector<const uint8_t*>& outputs, uint32_t words, uint64_t row) {
    const auto load = [&](uint32_t output) {
        uint64_t value = 0;
        std::memcpy(&value, outputs[output] + row * sizeof value, sizeof value);
        return value;
    };
    uint64_t mixed = 0;
    for (uint32_t w = words; w > 0; --w) {
        word[w] = load(2 * w - 1);
        if (word[w] != load(2 * w)) fail_of_shared_hash();
        mixed = mix64(word[w] ^ mixed);
    }
    word[0] = load(0) ^ mixed;
}

void GroupKeyWords::check(const std::vector<const uint8_t*>& outputs, uint32_t words, uint64_t rows) {
    for (uint32_t w = 1; w <= words; ++w) {
        if (std::memcmp(outputs[2 * w - 1], outputs[2 * w], rows * sizeof(uint64_t)) != 0) fail_of_shared_hash();
    }
}

GroupResult::GroupResult(const cuda::StagedGroupBySpec& group, const std::vector<GroupResultColumn>& columns,
                         KeyFlags flags, const TextCodes& texts, MemoryBudget& budget)
    : group_(group), columns_(columns), flags_(flags), texts_(texts), budget_(budget), widths_(widths_of(group)) {}

std::unique_ptr<BatchMemory> GroupResult::memory(uint64_t rows) const {
    uint64_t bytes = 0;
    for (const GroupResultColumn& column : columns_) {
        bytes = add_or_max(bytes, expected_column_bytes(*column.type, rows));
    }
    return std::make_unique<BatchMemory>(budget_, bytes);
}

OutputColumn GroupResult::column(size_t at, const std::vector<const uint8_t*>& outputs, uint64_t rows,
                                 BatchMemory& memory) const {
    const GroupOutputs groups{widths_, outputs, flags_, texts_};
    return GroupValues(columns_[at], groups).make(rows, memory, budget_);
}

ResultForm GroupResult::form() const {
    ResultForm form;
    form.block_rows = group_.sizes.result_rows;
    form.slots = group_.sizes.result_slots;
    form.widths = widths_;
    form.row_bytes = 0;
    for (const GroupResultColumn& column : columns_) {
        form.row_bytes += is_text(*column.type) ? kTextBytesUsual : value_width(*column.type);
    }
    form.columns = columns_.size();
    form.memory = [this](uint64_t rows) { return memory(rows); };
    form.column = [this](size_t at, const GpuOutputs& outputs, uint64_t rows, BatchMemory& memory) {
        return column(at, outputs.all_values(), rows, memory);
    };
    return form;
}

ResultForm GroupResult::counted_form() const {
    ResultForm made = form();
    made.column = nullptr;
    made.deliverer = [words = flags_.words](BatchSink&, int) {
        return [words](const GpuOutputs& outputs, uint64_t rows, const std::function<void()>& read) {
            GroupKeyWords::check(outputs.all_values(), words, rows);
            read();
            return rows;
        };
    };
    return made;
}

void GroupResult::give_empty_group(BatchSink& sink) const {
    const uint64_t zero[2] = {};
    const std::vector<const uint8_t*> zeros(widths_.size(), reinterpret_cast<const uint8_t*>(zero));
    OutputBatch batch;
    batch.rows = 1;
    const std::unique_ptr<BatchMemory> slices = memory(1);
    for (size_t at = 0; at < columns_.size(); ++at) batch.columns.push_back(column(at, zeros, 1, *slices));
    batch.memory = slices->take_block();
    sink.push(0, std::move(batch));
}

}  // namespace spillway
