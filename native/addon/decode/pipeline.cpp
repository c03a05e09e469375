// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "addon/decode/decode.hpp"

namespace spillway::addon {

namespace {

PipelineColumn decode_pipeline_column(const Field& field, int32_t joins) {
    Fields fields(field);
    PipelineColumn column;
    column.join = fields["join"].int32(-1, joins - 1);
    column.column = fields["column"].int32(0, kInt32Max);
    fields.finish();
    return column;
}

[[noreturn]] void fail(const std::string& what) {
    throw Error(ErrorCode::kInvalidArgument, "these joins cannot be a pipeline: " + what);
}

PipelinePasses decode_passes(const Field& field, int32_t joins) {
    Fields fields(field);
    PipelinePasses passes;
    passes.join = static_cast<size_t>(fields["join"].int32(0, joins - 1));
    int64_t first = std::numeric_limits<int64_t>::min();
    for (const Field& bound : fields["bounds"].array()) {
        const int64_t next = bound.signed_bigint();
        if (next <= first) fail("the bounds of its passes do not ascend");
        passes.intervals.push_back({first, next - 1});
        first = next;
    }
    passes.intervals.push_back({first, std::numeric_limits<int64_t>::max()});
    fields.finish();
    return passes;
}

// A row without a partner would come out in every pass.
void check_passes(const PipelineSpec& spec, const std::vector<const RowLayout*>& builds) {
    if (!spec.passes) return;
    const JoinSpec& join = spec.joins[spec.passes->join].spec;
    if (join.anti || join.keep_unmatched_probe) fail("rows without a partner come out, in each of its passes");
    const RowLayout& build = *builds[spec.passes->join];
    const bool has_interval = is_one_integer(build) && build.null_keys == NullKeys::kDrop;
    if (!has_interval) fail("the key that its passes are made of is not one integer");
}

// Only what is decided row by row: the rows of a build side stay as they are until the last probe row.
void check_emit(const JoinSpec& spec) {
    const bool by_row = spec.emit != JoinEmit::kBuildOnce && !spec.keep_unmatched_build;
    if (!by_row) fail("rows of a build side are to come out");
    if (!spec.outputs.empty()) fail("a join has outputs of its own");
}

TypePtr type_of(const PipelineColumn& column, const PipelinePlan& plan, const std::vector<const RowLayout*>& builds) {
    const auto at = static_cast<size_t>(column.column);
    if (column.join < 0) {
        if (at >= plan.columns.size()) fail("the source has no column " + std::to_string(at));
        return plan.columns[at];
    }
    const RowLayout& build = *builds[static_cast<size_t>(column.join)];
    if (at >= build.fields.size()) fail("a build side carries no column " + std::to_string(at));
    return build.fields[at].type;
}

// Views as what they are read like: rows of a pipeline hold them, results of joins are planned without.
std::vector<TypePtr> without_views(const std::vector<TypePtr>& types) {
    std::vector<TypePtr> plain;
    for (const TypePtr& type : types) {
        plain.push_back(type);
        if (type->layout != Layout::kView) continue;
        auto binary = std::make_shared<ColumnType>(*type);
        binary->layout = Layout::kBinary;
        binary->byte_width = 4;
        plain.back() = binary;
    }
    return plain;
}

}  // namespace

void check_pipeline_columns(const std::vector<TypePtr>& planned, const std::vector<TypePtr>& actual) {
    check_columns(without_views(planned), without_views(actual));
}

PipelinePlan decode_pipeline(const Napi::Value& value) {
    Fields fields(value, "spec");
    PipelinePlan plan;
    plan.columns = decode_columns(fields["columns"]);
    int32_t before = 0;  // a join can look at what those before it found
    for (const Field& item : fields["joins"].array()) {
        Fields join_fields(item);
        PipelineJoin join;
        for (const Field& column : join_fields["keyColumns"].array()) {
            join.key_columns.push_back(decode_pipeline_column(column, before));
        }
        plan.key_columns.push_back(decode_columns(join_fields["columns"]));
        join.keys = decode_keys(join_fields["keys"], plan.key_columns.back());
        join.null_keys =
            join_fields["nullKeys"].one_of<NullKeys>({{"keep", NullKeys::kKeep}, {"equal", NullKeys::kEqual}});
        join.spec = decode_join(Fields(join_fields["spec"]));
        join_fields.finish();
        check_emit(join.spec);
        plan.spec.joins.push_back(std::move(join));
        ++before;
    }
    for (const Field& output : fields["outputs"].array()) {
        plan.spec.outputs.push_back(decode_pipeline_column(output, before));
    }
    if (fields.has("passes")) plan.spec.passes = decode_passes(fields["passes"], before);
    plan.spec.morsel_rows = fields["morselRows"].integer(1, kSafeInteger);
    plan.spec.workers = fields["workers"].int32(1, kWorkersMax);
    fields.finish();
    return plan;
}

std::vector<TypePtr> check_pipeline(const PipelinePlan& plan, const std::vector<const RowLayout*>& builds) {
    const auto& joins = plan.spec.joins;
    if (builds.size() != joins.size()) fail("it has not one build side for each join");
    for (size_t j = 0; j < joins.size(); ++j) {
        const std::vector<TypePtr>& planned = plan.key_columns[j];
        if (planned.size() != joins[j].key_columns.size()) fail("a key column has no type");
        std::vector<TypePtr> actual;
        for (const PipelineColumn& column : joins[j].key_columns) actual.push_back(type_of(column, plan, builds));
        check_pipeline_columns(planned, actual);
        const RowLayout probe = RowLayout::make(planned, joins[j].keys, {}, joins[j].null_keys);
        if (!same_key_area(*builds[j], probe)) fail("keys of a join are normalized differently");
        const bool equal = joins[j].null_keys == NullKeys::kEqual;
        if (equal != (builds[j]->null_keys == NullKeys::kEqual)) fail("NULL keys of a join are treated differently");
    }
    check_passes(plan.spec, builds);
    std::vector<TypePtr> outputs;
    for (const PipelineColumn& column : plan.spec.outputs) {
        outputs.push_back(type_of(column, plan, builds));
        if (outputs.back()->is_nested()) fail("column '" + outputs.back()->name + "' is nested");
    }
    return outputs;
}

}  // namespace spillway::addon
