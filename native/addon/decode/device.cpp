// SPDX-License-Identifier: Apache-2.0
#include "addon/decode/device.hpp"

namespace spillway::addon {

namespace {

int32_t index_of(const Field& field, size_t choices) {
    const int32_t index = field.int32(0, kInt32Max);
    if (static_cast<size_t>(index) >= choices) throw field.error("one of " + std::to_string(choices) + " columns");
    return index;
}

bool fits(const cuda::KeyPart& part, const cuda::ColumnSpec& column) {
    if (part.kind == cuda::KeyPartKind::kBytes) return column.kind == cuda::ColumnKind::kBytes;
    if (column.kind != cuda::ColumnKind::kFixed) return false;
    const bool word = part.width == 1 || part.width == 2 || part.width == 4 || part.width == 8;
    switch (part.kind) {
        case cuda::KeyPartKind::kFixed:
            return part.width == column.width;
        case cuda::KeyPartKind::kFloat:
            return (part.width == 4 || part.width == 8) && (column.width == 4 || column.width == part.width);
        default:
            return word && column.width <= part.width;
    }
}

std::vector<cuda::KeyPart> decode_keys(const Field& field, const GpuTable& table) {
    std::vector<cuda::KeyPart> keys;
    for (const Field& item : field.array()) {
        Fields fields(item);
        cuda::KeyPart part;
        part.column = static_cast<uint32_t>(index_of(fields["column"], table.columns().size()));
        part.kind = fields["kind"].one_of<cuda::KeyPartKind>({{"signed", cuda::KeyPartKind::kSigned},
                                                              {"unsigned", cuda::KeyPartKind::kUnsigned},
                                                              {"float", cuda::KeyPartKind::kFloat},
                                                              {"fixed", cuda::KeyPartKind::kFixed},
                                                              {"bytes", cuda::KeyPartKind::kBytes}});
        part.width = static_cast<uint32_t>(fields["width"].int32(0, kInt32Max));
        fields.finish();
        if (!fits(part, table.columns()[part.column])) throw item.error("a key that its column can hold");
        keys.push_back(part);
    }
    return keys;
}

cuda::TableJoinColumn decode_join_column(const Field& field, const GpuTable& build, const GpuTable& probe) {
    Fields fields(field);
    cuda::TableJoinColumn column;
    column.side = fields["side"].one_of<cuda::TableSide>(
        {{"build", cuda::TableSide::kBuild}, {"probe", cuda::TableSide::kProbe}, {"either", cuda::TableSide::kEither}});
    const Field of_build = fields["buildColumn"];
    const Field of_probe = fields["probeColumn"];
    if (column.side != cuda::TableSide::kProbe) {
        column.build_column = static_cast<uint32_t>(index_of(of_build, build.columns().size()));
    }
    if (column.side != cuda::TableSide::kBuild) {
        column.probe_column = static_cast<uint32_t>(index_of(of_probe, probe.columns().size()));
    }
    fields.finish();
    if (column.side == cuda::TableSide::kEither) {
        const cuda::ColumnSpec& left = build.columns()[column.build_column];
        const cuda::ColumnSpec& right = probe.columns()[column.probe_column];
        const bool same =
            left.kind == right.kind && (left.kind == cuda::ColumnKind::kBytes || left.width == right.width);
        if (!same) throw field.error("columns of one type");
    }
    return column;
}

cuda::TableAggregate decode_aggregate(const Field& field, const GpuTable& table) {
    Fields fields(field);
    cuda::TableAggregate aggregate;
    aggregate.kind =
        fields["kind"].one_of<cuda::TableAggregateKind>({{"countRows", cuda::TableAggregateKind::kCountRows},
                                                         {"count", cuda::TableAggregateKind::kCount},
                                                         {"sum", cuda::TableAggregateKind::kSum},
                                                         {"min", cuda::TableAggregateKind::kMin},
                                                         {"max", cuda::TableAggregateKind::kMax},
                                                         {"mean", cuda::TableAggregateKind::kMean},
                                                         {"first", cuda::TableAggregateKind::kFirst},
                                                         {"any", cuda::TableAggregateKind::kAny},
                                                         {"countDistinct", cuda::TableAggregateKind::kCountDistinct}});
    const Field column = fields["column"];
    if (aggregate.kind != cuda::TableAggregateKind::kCountRows) {
        aggregate.column = static_cast<uint32_t>(index_of(column, table.columns().size()));
    }
    aggregate.value_kind =
        fields["valueKind"].one_of<cuda::TableValueKind>({{"signed", cuda::TableValueKind::kSigned},
                                                          {"unsigned", cuda::TableValueKind::kUnsigned},
                                                          {"float", cuda::TableValueKind::kFloat},
                                                          {"decimal", cuda::TableValueKind::kDecimal},
                                                          {"bytes", cuda::TableValueKind::kBytes}});
    aggregate.result_width = static_cast<uint32_t>(fields["resultWidth"].int32(0, kInt32Max));
    aggregate.decimal_scale = fields["decimalScale"].int32(-kDecimalDigitsMax, kDecimalDigitsMax);
    fields.finish();
    return aggregate;
}

DeliverSpec deliver_fields(Fields& fields, const std::vector<cuda::ColumnSpec>& table) {
    DeliverSpec spec;
    for (const Field& item : fields["columns"].array()) {
        Fields column(item);
        const Field index = column["column"];
        spec.columns.push_back({decode_column(column["type"]), index_of(index, table.size())});
        column.finish();
        if (!can_deliver(table[static_cast<size_t>(spec.columns.back().column)], *spec.columns.back().type)) {
            throw index.error("a column that holds values of the type");
        }
    }
    spec.staging_bytes = fields["stagingBytes"].count();
    spec.workers = fields["workers"].int32(1, kWorkersMax);
    spec.packed = fields["packed"].boolean();
    return spec;
}

}  // namespace

UploadSpec decode_upload(const Napi::Value& value, const Source& source) {
    Fields fields(value, "spec");
    UploadSpec spec;
    const Field columns = fields["columns"];
    for (const Field& item : columns.array()) {
        Fields column(item);
        const Field index = column["column"];
        spec.columns.push_back(
            {index_of(index, source.columns().size()), column["decode"].boolean(), column["packed"].boolean()});
        column.finish();
        if (!can_upload(*source.columns()[static_cast<size_t>(spec.columns.back().column)])) {
            throw index.error("a column that is not nested");
        }
    }
    if (spec.columns.empty()) throw columns.error("an array of at least one column");
    spec.staging_bytes = fields["stagingBytes"].count();
    spec.workers = fields["workers"].int32(1, kWorkersMax);
    fields.finish();
    return spec;
}

uint32_t decode_key_bytes(const Field& field) {
    const auto bytes = static_cast<uint32_t>(field.int32(1, kInt32Max));
    if (!cuda::is_key_width(bytes)) throw field.error("4 or 8");
    return bytes;
}

cuda::JoinKind decode_join_kind(Fields& fields) {
    cuda::JoinKind kind;
    kind.emit = fields["emit"].one_of<cuda::JoinEmit>({{"pairs", cuda::JoinEmit::kPairs},
                                                       {"buildOnce", cuda::JoinEmit::kBuildOnce},
                                                       {"probeOnce", cuda::JoinEmit::kProbeOnce}});
    kind.anti = fields["anti"].boolean();
    const Field keep_build = fields["keepUnmatchedBuild"];
    const Field keep_probe = fields["keepUnmatchedProbe"];
    kind.keep_unmatched_build = keep_build.boolean();
    kind.keep_unmatched_probe = keep_probe.boolean();
    if (!kind.pairs() && kind.keep_unmatched_build) throw keep_build.error("false, since the join gives no pairs");
    if (!kind.pairs() && kind.keep_unmatched_probe) throw keep_probe.error("false, since the join gives no pairs");
    return kind;
}

cuda::OwnedTableJoin decode_device_join(const Napi::Value& value, const GpuTable& build, const GpuTable& probe) {
    Fields fields(value, "spec");
    cuda::OwnedTableJoin join;
    join.algorithm = fields["algorithm"].one_of<cuda::JoinAlgorithm>(cuda::kJoinAlgorithmNames);
    join.kind = decode_join_kind(fields);
    join.nulls_equal = fields["nullsEqual"].boolean();
    join.expected_rows = fields["expectedRows"].count();
    join.first_key = fields["firstKey"].bigint();
    join.key_range = fields["keyRange"].count();
    join.build_keys = decode_keys(fields["buildKeys"], build);
    const Field probe_keys = fields["probeKeys"];
    join.probe_keys = decode_keys(probe_keys, probe);
    const size_t count = join.build_keys.size();
    if (count == 0 || join.probe_keys.size() != count)
        throw probe_keys.error("as many keys as 'buildKeys', at least one");
    for (size_t i = 0; i < count; ++i) {
        if (join.build_keys[i].width != join.probe_keys[i].width) throw probe_keys.error("as wide as 'buildKeys'");
    }
    for (const Field& column : fields["columns"].array()) {
        join.output.push_back(decode_join_column(column, build, probe));
    }
    fields.finish();
    return join;
}

cuda::OwnedTableGroupBy decode_device_group(const Napi::Value& value, const GpuTable& table) {
    Fields fields(value, "spec");
    cuda::OwnedTableGroupBy group;
    group.algorithm = fields["algorithm"].one_of<cuda::GroupByAlgorithm>(cuda::kGroupByAlgorithmNames);
    group.is_named = fields["named"].boolean();
    group.expected_groups = fields["expectedGroups"].count();
    group.keys = decode_keys(fields["keys"], table);
    for (const Field& aggregate : fields["aggregates"].array()) {
        group.aggregates.push_back(decode_aggregate(aggregate, table));
    }
    fields.finish();
    return group;
}

DeliverSpec decode_deliver(const Napi::Value& value, const std::vector<cuda::ColumnSpec>& table) {
    Fields fields(value, "spec");
    DeliverSpec spec = deliver_fields(fields, table);
    fields.finish();
    return spec;
}

PiecesSpec decode_pieces(const Napi::Value& value, const std::vector<cuda::ColumnSpec>& table) {
    Fields fields(value, "spec");
    PiecesSpec spec;
    spec.deliver = deliver_fields(fields, table);
    spec.rows_max = fields["rowsMax"].count(1);
    fields.finish();
    return spec;
}

}  // namespace spillway::addon
