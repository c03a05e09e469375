// SPDX-License-Identifier: Apache-2.0
#include "transfer/node_plan.hpp"

#include <algorithm>

#include "model/type_size.hpp"

namespace spillway {

namespace {

int32_t fixed_buffers(Layout layout) {
    switch (layout) {
        case Layout::kNull:
            return 0;
        case Layout::kFixedList:
        case Layout::kStruct:
        case Layout::kUnionSparse:
            return 1;
        case Layout::kBool:
        case Layout::kFixed:
        case Layout::kView:
        case Layout::kList:
        case Layout::kUnionDense:
        case Layout::kDictionary:
            return 2;
        case Layout::kBinary:
            return 3;
    }
    return 0;
}

bool has_dictionary(const ColumnType& type) {
    return type.layout == Layout::kDictionary ||
           std::any_of(type.children.begin(), type.children.end(), has_dictionary);
}

[[noreturn]] void malformed(const std::string& name, const std::string& what) {
    throw Error(ErrorCode::kInvalidArgument, "the type of column '" + name + "' is malformed: " + what,
                {{"column", name}});
}

void check_type(const ColumnType& type, const std::string& name) {
    const int32_t width = type.byte_width;
    const size_t children = type.children.size();
    switch (type.layout) {
        case Layout::kFixed:
            if (width < 0) malformed(name, "values of " + std::to_string(width) + " bytes");
            break;
        case Layout::kBinary:
            if (width != 4 && width != 8) malformed(name, "offsets of " + std::to_string(width) + " bytes");
            break;
        case Layout::kList:
            if (width != 4 && width != 8) malformed(name, "offsets of " + std::to_string(width) + " bytes");
            if (children != 1) malformed(name, "a list of " + std::to_string(children) + " item types");
            break;
        case Layout::kFixedList:
            if (type.list_size < 0) malformed(name, "lists of " + std::to_string(type.list_size) + " items");
            if (children != 1) malformed(name, "a list of " + std::to_string(children) + " item types");
            break;
        case Layout::kUnionSparse:
        case Layout::kUnionDense:
            if (children != type.type_ids.size()) malformed(name, "a union without a type id per member");
            break;
        case Layout::kDictionary:
            if (width != 1 && width != 2 && width != 4 && width != 8) {
                malformed(name, "dictionary indices of " + std::to_string(width) + " bytes");
            }
            if (children != 1) malformed(name, "a dictionary without a value type");
            break;
        default:
            break;
    }
}

NodePlan plan_node(const ColumnType& type, const ColumnType& shown, const std::string& name, SchemaCounts& counts) {
    check_type(type, name);
    NodePlan plan;
    plan.type = &type;
    plan.shown = &shown;
    plan.name = name;
    plan.node = counts.nodes++;
    plan.buffer = counts.buffers;
    plan.variadic = counts.variadics;
    plan.dictionary = counts.dictionaries;
    counts.buffers += fixed_buffers(type.layout);
    counts.variadics += type.layout == Layout::kView;
    if (type.layout == Layout::kDictionary) {
        if (has_dictionary(type.children[0])) {
            throw Error(ErrorCode::kUnsupportedType,
                        "column '" + name + "' is a dictionary whose values are dictionary-encoded again; decode the " +
                            "inner dictionary when writing the file",
                        {{"column", name}});
        }
        ++counts.dictionaries;
        return plan;
    }
    if (!type.type_ids.empty()) plan.child_of_id.assign(256, -1);
    for (size_t k = 0; k < type.type_ids.size(); ++k) {
        plan.child_of_id[static_cast<uint8_t>(type.type_ids[k])] = static_cast<int32_t>(k);
    }
    plan.children.reserve(type.children.size());
    for (size_t k = 0; k < type.children.size(); ++k) {
        const ColumnType& child = type.children[k];
        const std::string child_name = child.name.empty() ? std::to_string(k) : child.name;
        plan.children.push_back(plan_node(child, shown.children[k], name + "." + child_name, counts));
    }
    return plan;
}

std::string place(const BatchPosition& batch, const std::string& column) {
    const std::string what = column == kAllColumns ? "the columns" : "column '" + column + "'";
    const std::string where = what + " of batch " + std::to_string(batch.number);
    if (!batch.in_file()) return where + " (in memory) ";
    return "'" + batch.files->path(batch.layout->file) + "' is corrupt: " + where + " ";
}

std::vector<std::pair<std::string, std::string>> place_details(const BatchPosition& batch, const std::string& column) {
    std::vector<std::pair<std::string, std::string>> details;
    if (batch.in_file()) details.emplace_back("path", batch.files->path(batch.layout->file));
    details.emplace_back("column", column);
    details.emplace_back("batch", std::to_string(batch.number));
    return details;
}

ErrorCode corrupt_code(const BatchPosition& batch) {
    return batch.in_file() ? ErrorCode::kFileCorrupt : ErrorCode::kInvalidArgument;
}

}  // namespace

NodePlan plan_column(const ColumnType& type, const ColumnType& shown, SchemaCounts& counts) {
    check_row_size(type, type.name);
    return plan_node(type, shown, type.name, counts);
}

Error corrupt_batch(const BatchPosition& batch, const std::string& column, const std::string& what) {
    const char* advice = batch.in_file() ? "; write the file again" : "; make the record batch again";
    return Error(corrupt_code(batch), place(batch, column) + what + advice, place_details(batch, column));
}

Error short_buffer(const BatchPosition& batch, const std::string& column, const char* what, int64_t wanted_bytes,
                   int64_t found_bytes) {
    auto details = place_details(batch, column);
    details.emplace_back("wantedBytes", std::to_string(wanted_bytes));
    details.emplace_back("foundBytes", std::to_string(found_bytes));
    return Error(corrupt_code(batch),
                 place(batch, column) + "has " + std::to_string(found_bytes) + " bytes of " + what + " but needs " +
                     std::to_string(wanted_bytes),
                 std::move(details));
}

}  // namespace spillway
