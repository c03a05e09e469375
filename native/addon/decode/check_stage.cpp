// SPDX-License-Identifier: Apache-2.0
#include "addon/decode/decode.hpp"

namespace spillway::addon {

namespace {

void check_index(int32_t index, size_t count, const std::string& path) {
    if (index < 0 || static_cast<size_t>(index) >= count) {
        throw Error(ErrorCode::kInvalidArgument,
                    "'" + path + "' names carried column " + std::to_string(index) + ", but " + std::to_string(count) +
                        " columns are carried",
                    {{"field", path}});
    }
}

Layout materialized(Layout layout) {
    return layout == Layout::kView ? Layout::kBinary : layout;
}

bool same_layout(const ColumnType& planned, const ColumnType& actual) {
    // What a dictionary holds is described by the dictionary itself once it is loaded; views in it are then plain.
    if (planned.layout == Layout::kDictionary && actual.layout == Layout::kDictionary) {
        return materialized(planned.children[0].layout) == materialized(actual.children[0].layout);
    }
    if (planned.layout != actual.layout || planned.children.size() != actual.children.size()) return false;
    const bool has_width = planned.layout == Layout::kFixed || planned.is_bytes() || planned.layout == Layout::kList;
    if (has_width && planned.layout != Layout::kView && planned.byte_width != actual.byte_width) return false;
    if (planned.layout == Layout::kFixedList && planned.list_size != actual.list_size) return false;
    if (planned.type_ids != actual.type_ids) return false;
    for (size_t i = 0; i < planned.children.size(); ++i) {
        if (!same_layout(planned.children[i], actual.children[i])) return false;
    }
    return true;
}

// Can one result column hold the values of both? Rows keep byte strings alike, and views come out with 4-byte offsets.
bool same_output(const ColumnType& a, const ColumnType& b) {
    if (!a.is_bytes() || !b.is_bytes()) return same_layout(a, b);
    const auto offset_width = [](const ColumnType& type) { return type.layout == Layout::kView ? 4 : type.byte_width; };
    return offset_width(a) == offset_width(b);
}

}  // namespace

bool same_key_area(const RowLayout& build, const RowLayout& probe) {
    if (build.mode != probe.mode || build.key_begin != probe.key_begin || build.key_end != probe.key_end) return false;
    if (build.mask_offset != probe.mask_offset || build.var_keys != probe.var_keys) return false;
    if (build.keys.size() != probe.keys.size()) return false;
    for (size_t i = 0; i < build.keys.size(); ++i) {
        const KeyPart& a = build.keys[i];
        const KeyPart& b = probe.keys[i];
        if (a.offset != b.offset || (a.spec.width != b.spec.width && build.var_keys.empty())) return false;
    }
    return true;
}

void check_columns(const std::vector<TypePtr>& planned, const std::vector<TypePtr>& actual) {
    const auto fail = [](const std::string& what) {
        throw Error(ErrorCode::kInvalidArgument, "'spec.columns' does not describe the source: " + what,
                    {{"field", "spec.columns"}});
    };
    if (planned.size() != actual.size()) {
        fail(std::to_string(planned.size()) + " columns planned, " + std::to_string(actual.size()) + " there");
    }
    for (size_t i = 0; i < planned.size(); ++i) {
        if (!same_layout(*planned[i], *actual[i])) fail("column " + std::to_string(i) + " has another layout");
    }
}

void check_join_sides(const PartitionSpec& build, const RowLayout& build_layout, const PartitionSpec& probe,
                      const RowLayout& probe_layout, const JoinSpec& spec) {
    const auto fail = [](const std::string& what) {
        throw Error(ErrorCode::kInvalidArgument, "the two sides of the join do not fit: " + what);
    };
    if (build.radix_bits != probe.radix_bits) {
        fail(std::to_string(build.radix_bits) + " and " + std::to_string(probe.radix_bits) + " radix bits");
    }
    if (!same_key_area(build_layout, probe_layout)) fail("their keys are normalized differently");
    const auto& build_fields = build_layout.fields;
    const auto& probe_fields = probe_layout.fields;

    for (size_t i = 0; i < spec.outputs.size(); ++i) {
        const JoinOutput& output = spec.outputs[i];
        const std::string path = "spec.outputs[" + std::to_string(i) + "]";
        if (output.side != OutputSide::kProbe)
            check_index(output.build_field, build_fields.size(), path + ".buildField");
        if (output.side != OutputSide::kBuild)
            check_index(output.probe_field, probe_fields.size(), path + ".probeField");
        if (output.side != OutputSide::kEither) continue;
        const RowField& a = build_fields[output.build_field];
        const RowField& b = probe_fields[output.probe_field];
        if (!same_output(*a.type, *b.type)) fail("the types of '" + path + "' differ");
    }
}

void check_array_join(const PartitionSpec& build, const PartitionSpec& probe, const ArrayJoinSpec& spec) {
    const auto fail = [](const std::string& what) {
        throw Error(ErrorCode::kInvalidArgument, "an array join cannot be made of this: " + what);
    };
    const auto one_integer = [](const PartitionSpec& side) {
        return side.keys.size() == 1 && side.keys[0].kind == KeyKind::kInteger && side.null_keys != NullKeys::kEqual;
    };
    if (!one_integer(build) || !one_integer(probe)) fail("its key is not one integer without NULL = NULL");
    const int32_t width = build.keys[0].width;
    if (width != probe.keys[0].width) fail("its keys have different widths");
    if (width < 8 && spec.key_values > 1ULL << (8 * width)) fail("there are fewer values of its key");
    for (size_t i = 0; i < spec.outputs.size(); ++i) {
        check_index(spec.outputs[i], probe.carry.size(), "spec.outputs[" + std::to_string(i) + "]");
    }
}

void check_fields(const GroupBySpec& spec, const PartitionSpec& partition) {
    const size_t fields = partition.carry.size();
    for (size_t i = 0; i < spec.key_fields.size(); ++i) {
        check_index(spec.key_fields[i], fields, "spec.keyFields[" + std::to_string(i) + "]");
    }
    bool first = false;
    for (size_t i = 0; i < spec.aggregates.size(); ++i) {
        if (spec.aggregates[i].kind == AggregateKind::kFirst) first = true;
        if (spec.aggregates[i].field >= 0) {
            check_index(spec.aggregates[i].field, fields, "spec.aggregates[" + std::to_string(i) + "].field");
        }
    }
    if (!first && spec.row_number_field < 0) return;
    check_index(spec.row_number_field, fields, "spec.rowNumberField");
    if (partition.carry[spec.row_number_field] != kRowNumberColumn) {
        throw Error(ErrorCode::kInvalidArgument, "'spec.rowNumberField' must name the carried row number (column -1)",
                    {{"field", "spec.rowNumberField"}});
    }
}

void check_schedule(const std::vector<int32_t>& schedule, int32_t radix_bits) {
    std::vector<bool> seen(size_t{1} << radix_bits);
    for (const int32_t partition : schedule) {
        if (static_cast<size_t>(partition) < seen.size() && !seen[partition]) {
            seen[partition] = true;
            continue;
        }
        throw Error(ErrorCode::kInvalidArgument,
                    "'spec.schedule' names partition " + std::to_string(partition) + ", which " +
                        (static_cast<size_t>(partition) < seen.size() ? "is there already" : "does not exist") + " (" +
                        std::to_string(seen.size()) + " partitions)",
                    {{"field", "spec.schedule"}});
    }
}

}  // namespace spillway::addon
