// SPDX-License-Identifier: Apache-2.0
#include "generate/generate_spec.hpp"

#include <cmath>
#include <limits>
#include <set>

#include "base/error.hpp"
#include "generate/key_generator.hpp"
#include "generate/payload.hpp"

namespace spillway {

namespace {

constexpr int64_t kRowsMax = int64_t{1} << 53;  // row numbers pass through JS numbers
constexpr int64_t kBatchRowsMax = 1 << 24;
constexpr int32_t kTextWidthMax = 1 << 14;
constexpr double kScaleMax = 1e6;
constexpr int64_t kPartsMax = 1'000'000;

[[noreturn]] void refuse(const std::string& option, const std::string& got, const std::string& wanted) {
    throw Error(ErrorCode::kInvalidArgument, "generate: '" + option + "' is " + got + "; it must be " + wanted,
                {{"option", option}, {"got", got}});
}

void check_range(const std::string& option, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return;
    refuse(option, std::to_string(value), "between " + std::to_string(low) + " and " + std::to_string(high));
}

void check_batching(int64_t batch_rows, int32_t workers) {
    check_range("batchRows", batch_rows, 1, kBatchRowsMax);
    check_range("workers", workers, 1, 1024);
}

void check_key_values(const GenerateSpec& spec, uint64_t indices) {
    const GeneratedKey& key = spec.key;
    if (indices == 0) return;
    const __int128 last = static_cast<__int128>(indices - 1) * key.stride + key.offset;
    const int64_t high = key.width == 8 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int32_t>::max();
    const int64_t low = key.width == 8 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int32_t>::min();
    if (key.offset >= low && last <= high) return;
    refuse("key.type", "int" + std::to_string(8 * key.width),
           "wider, or 'key.stride', 'key.offset' or the number of keys smaller: the keys leave its range");
}

void check_key(const GenerateSpec& spec) {
    const GeneratedKey& key = spec.key;
    if (key.width != 4 && key.width != 8)
        refuse("key.type", std::to_string(key.width) + " bytes wide", "int32 or int64");
    check_range("key.stride", key.stride, 1, kRowsMax);
    if (key.sparse && key.order == KeyOrder::kSorted) {
        refuse("key.order", "sorted", "shuffled when 'key.sparse' is set: scattering keys destroys their order");
    }
    if (key.role == KeyRole::kPrimary) {
        check_range("key.duplicates", key.duplicates, 1, kRowsMax);
        check_key_values(spec, static_cast<uint64_t>((spec.rows + key.duplicates - 1) / key.duplicates));
        return;
    }
    check_range("key.domainRows", key.domain_rows, spec.rows == 0 ? 0 : 1, kRowsMax);
    if (!(key.zipf >= 0) || key.zipf > 100) refuse("key.zipf", std::to_string(key.zipf), "between 0 and 100");
    if (!(key.match_ratio >= 0 && key.match_ratio <= 1)) {
        refuse("key.matchRatio", std::to_string(key.match_ratio), "between 0 and 1");
    }
    check_key_values(spec, static_cast<uint64_t>(key.domain_rows));
    if (key.domain_rows > 0 && key.match_ratio < 1 && unmatched_key_range(key) == 0) {
        refuse("key.matchRatio", std::to_string(key.match_ratio),
               "1, or 'key.type' int64: the domain leaves no key values for rows without a partner");
    }
}

void check_payload(const GenerateSpec& spec) {
    std::set<std::string> names = {spec.key.name};
    for (const auto& column : spec.payload) {
        const std::string option = "payload '" + column.name + "'.width";
        const int32_t width = column.width;
        switch (column.kind) {
            case GeneratedKind::kInt:
                if (width != 1 && width != 2 && width != 4 && width != 8) {
                    refuse(option, std::to_string(width), "1, 2, 4 or 8");
                }
                break;
            case GeneratedKind::kFloat:
                if (width != 4 && width != 8) refuse(option, std::to_string(width), "4 or 8");
                break;
            case GeneratedKind::kUtf8:
                check_range(option, width, 1, kTextWidthMax);
                check_range("batchRows", spec.batch_rows, 1,
                            std::numeric_limits<int32_t>::max() / payload_text_length_max(width));
                break;
        }
        if (!names.insert(column.name).second) {
            throw Error(ErrorCode::kDuplicateColumn,
                        "generate: two columns are named '" + column.name + "'; rename one", {{"column", column.name}});
        }
    }
}

TypePtr fixed_column(const std::string& name, Order order, int32_t width) {
    auto type = std::make_shared<ColumnType>();
    type->name = name;
    type->layout = Layout::kFixed;
    type->order = order;
    type->byte_width = width;
    type->nullable = false;
    return type;
}

TypePtr text_column(const std::string& name) {
    auto type = std::make_shared<ColumnType>();
    type->name = name;
    type->layout = Layout::kBinary;
    type->order = Order::kBytes;
    type->byte_width = 4;
    type->nullable = false;
    type->utf8 = true;
    return type;
}

}  // namespace

void check_spec(const GenerateSpec& spec) {
    check_range("rows", spec.rows, 0, kRowsMax);
    check_batching(spec.batch_rows, spec.workers);
    check_key(spec);
    check_payload(spec);
}

void check_spec(const TableSpec& spec) {
    check_batching(spec.batch_rows, spec.workers);
    if (!(spec.scale > 0) || spec.scale > kScaleMax) {
        refuse("scale", std::to_string(spec.scale), "above 0 and at most " + std::to_string(kScaleMax));
    }
    check_range("parts", spec.parts, 1, kPartsMax);
    check_range("part", spec.part, 1, spec.parts);
}

std::vector<TypePtr> generated_columns(const GenerateSpec& spec) {
    std::vector<TypePtr> columns = {fixed_column(spec.key.name, Order::kSigned, spec.key.width)};
    for (const auto& column : spec.payload) {
        switch (column.kind) {
            case GeneratedKind::kInt:
                columns.push_back(fixed_column(column.name, Order::kSigned, column.width));
                break;
            case GeneratedKind::kFloat:
                columns.push_back(fixed_column(column.name, Order::kFloat, column.width));
                break;
            case GeneratedKind::kUtf8:
                columns.push_back(text_column(column.name));
                break;
        }
    }
    return columns;
}

}  // namespace spillway
