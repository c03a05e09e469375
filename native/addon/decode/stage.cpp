// SPDX-License-Identifier: Apache-2.0
#include "addon/decode/decode.hpp"

namespace spillway::addon {

namespace {

constexpr uint64_t kPageBytesMin = 1024;  // limits of PagePool
constexpr uint64_t kPageBytesMax = 2 << 20;
constexpr int32_t kPartitionMax = (1 << kRadixBitsMax) - 1;

KeyKind decode_key_kind(const Field& field, bool of_value) {
    const KeyKind kind = field.one_of<KeyKind>({{"integer", KeyKind::kInteger},
                                                {"float", KeyKind::kFloat},
                                                {"fixedBytes", KeyKind::kFixedBytes},
                                                {"bytes", KeyKind::kBytes},
                                                {"inlineBytes", KeyKind::kInlineBytes},
                                                {"dictionaryIndex", KeyKind::kDictionaryIndex},
                                                {"dictionaryValue", KeyKind::kDictionaryValue}});
    const bool dictionary = kind == KeyKind::kDictionaryIndex || kind == KeyKind::kDictionaryValue;
    if (of_value && dictionary) throw field.error("one of 'integer', 'float', 'fixedBytes', 'bytes', 'inlineBytes'");
    return kind;
}

// Widths that the normalizer knows. Integers and floats are widened, never narrowed.
void check_key_width(const KeySpec& key, KeyKind kind, const ColumnType& type, const Field& field) {
    if (kind == KeyKind::kInteger) {
        const bool known = key.width == 1 || key.width == 2 || key.width == 4 || key.width == 8;
        const int32_t own = type.layout == Layout::kBool ? 1 : type.byte_width;
        if (!known || key.width < own) throw field.error("1, 2, 4 or 8 and no less than the width of the column");
    } else if (kind == KeyKind::kFloat) {
        const bool known = key.width == 4 || key.width == 8;
        if (!known || key.width < type.byte_width) throw field.error("4 or 8 and no less than the width of the column");
    } else if (kind == KeyKind::kFixedBytes) {
        if (key.width != type.byte_width) throw field.error(std::to_string(type.byte_width) + ", the column's width");
    } else if (kind == KeyKind::kInlineBytes) {
        const bool fits = key.width >= 2 && key.width <= kInlineWidthMax;
        if (!fits) throw field.error("from 2 to " + std::to_string(kInlineWidthMax));
    }
}

// Which layouts a kind of key can read.
void check_key_layout(KeyKind kind, const ColumnType& type, const Field& field) {
    bool fits = false;
    switch (kind) {
        case KeyKind::kInteger:
            fits = type.layout == Layout::kFixed || type.layout == Layout::kBool;
            break;
        case KeyKind::kFloat:
            fits = type.layout == Layout::kFixed && type.order == Order::kFloat;
            break;
        case KeyKind::kFixedBytes:
            fits = type.layout == Layout::kFixed;
            break;
        case KeyKind::kBytes:
        case KeyKind::kInlineBytes:
            fits = type.is_bytes();
            break;
        case KeyKind::kDictionaryIndex:
        case KeyKind::kDictionaryValue:
            fits = type.layout == Layout::kDictionary;
            break;
    }
    if (!fits) throw field.error("a kind that fits the layout of column '" + type.name + "'");
}

uint64_t decode_page_bytes(const Field& field) {
    const auto bytes = field.count();
    const bool power_of_two = (bytes & (bytes - 1)) == 0;
    if (!power_of_two || bytes < kPageBytesMin || bytes > kPageBytesMax) {
        throw field.error("a power of two from 1024 to 2097152");
    }
    return bytes;
}

JoinOutput decode_output(const Field& field) {
    Fields fields(field);
    JoinOutput output;
    output.side = fields["side"].one_of<OutputSide>(
        {{"build", OutputSide::kBuild}, {"probe", OutputSide::kProbe}, {"either", OutputSide::kEither}});
    output.build_field = fields["buildField"].int32(-1, kInt32Max);
    output.probe_field = fields["probeField"].int32(-1, kInt32Max);
    fields.finish();
    return output;
}

AggregateSpec decode_aggregate(const Field& field) {
    Fields fields(field);
    AggregateSpec aggregate;
    aggregate.kind = fields["kind"].one_of<AggregateKind>({{"countRows", AggregateKind::kCountRows},
                                                           {"count", AggregateKind::kCount},
                                                           {"sum", AggregateKind::kSum},
                                                           {"min", AggregateKind::kMin},
                                                           {"max", AggregateKind::kMax},
                                                           {"mean", AggregateKind::kMean},
                                                           {"first", AggregateKind::kFirst},
                                                           {"any", AggregateKind::kAny},
                                                           {"countDistinct", AggregateKind::kCountDistinct}});
    const int32_t field_min = aggregate.kind == AggregateKind::kCountRows ? -1 : 0;
    aggregate.field = fields["field"].int32(field_min, kInt32Max);
    aggregate.result_type = decode_column(fields["resultType"]);
    aggregate.decimal_scale = fields["decimalScale"].int32(-kDecimalDigitsMax, kDecimalDigitsMax);
    fields.finish();
    return aggregate;
}

}  // namespace

KeySpec decode_key(Fields& fields, const ColumnType& type) {
    KeySpec key;
    const Field kind = fields["kind"];
    const Field kind_of_value = fields["kindOfValue"];
    const Field width = fields["width"];
    key.kind = decode_key_kind(kind, false);
    key.kind_of_value = decode_key_kind(kind_of_value, true);
    key.width = width.int32(0, kInt32Max);
    fields.finish();
    check_key_layout(key.kind, type, kind);
    if (key.kind == KeyKind::kDictionaryValue) {
        check_key_layout(key.kind_of_value, type.children[0], kind_of_value);
        check_key_width(key, key.kind_of_value, type.children[0], width);
    } else {
        check_key_width(key, key.kind, type, width);
    }
    return key;
}

std::vector<KeySpec> decode_keys(const Field& field, const std::vector<TypePtr>& columns) {
    std::vector<KeySpec> keys;
    for (const Field& item : field.array()) {
        Fields fields(item);
        const int32_t column = fields["column"].int32(0, static_cast<int32_t>(columns.size()) - 1);
        keys.push_back(decode_key(fields, *columns[static_cast<size_t>(column)]));
        keys.back().column = column;
    }
    return keys;
}

RowLayout layout_of(const PartitionPlan& plan) {
    return RowLayout::make(plan.columns, plan.spec.keys, plan.spec.carry, plan.spec.null_keys, plan.spec.carry_bytes);
}

PartitionPlan decode_partition(const Napi::Value& value, const std::string& name) {
    Fields fields(value, name);
    PartitionPlan plan;
    plan.columns = decode_columns(fields["columns"]);
    PartitionSpec& spec = plan.spec;
    spec.keys = decode_keys(fields["keys"], plan.columns);
    for (const Field& column : fields["carry"].array()) {
        spec.carry.push_back(column.int32(kRowNumberColumn, static_cast<int32_t>(plan.columns.size()) - 1));
    }
    if (fields.has("carryBytes")) {
        const Field bytes = fields["carryBytes"];
        for (const Field& item : bytes.array()) {
            spec.carry_bytes.push_back(item.int32(0, kInlineWidthMax));
            if (spec.carry_bytes.back() == 1) throw item.error("0, or 2 and more");
        }
        if (spec.carry_bytes.size() != spec.carry.size()) throw bytes.error("as long as 'carry'");
    }
    spec.null_keys = fields["nullKeys"].one_of<NullKeys>(
        {{"drop", NullKeys::kDrop}, {"keep", NullKeys::kKeep}, {"equal", NullKeys::kEqual}});
    spec.radix_bits = fields["radixBits"].int32(0, kRadixBitsMax);
    spec.page_bytes = decode_page_bytes(fields["pageBytes"]);
    spec.pool_bytes = fields["poolBytes"].count();
    spec.spill_run_bytes = static_cast<uint64_t>(fields["spillRunBytes"].integer(0, kPageBytesMax));
    spec.spill_write_bytes = static_cast<uint64_t>(fields["spillWriteBytes"].integer(0, kPageBytesMax));
    spec.spill = fields["spill"].boolean();
    spec.pack_spilled = fields["packSpilled"].boolean();
    spec.force_spill = fields["forceSpill"].boolean();
    spec.morsel_rows = fields["morselRows"].integer(1, kSafeInteger);
    spec.workers = fields["workers"].int32(1, kWorkersMax);
    spec.hash_mask = fields["hashMask"].bigint();
    fields.finish();
    return plan;
}

JoinSpec decode_join(const Napi::Value& value) {
    return decode_join(Fields(value, "spec"));
}

JoinSpec decode_join(Fields fields) {
    JoinSpec spec;
    spec.emit = fields["emit"].one_of<JoinEmit>(
        {{"pairs", JoinEmit::kPairs}, {"buildOnce", JoinEmit::kBuildOnce}, {"probeOnce", JoinEmit::kProbeOnce}});
    spec.anti = fields["anti"].boolean();
    spec.keep_unmatched_build = fields["keepUnmatchedBuild"].boolean();
    spec.keep_unmatched_probe = fields["keepUnmatchedProbe"].boolean();
    spec.scheme = fields["scheme"].one_of<HashingScheme>({{"linearProbing", HashingScheme::kLinearProbing},
                                                          {"bucketChaining", HashingScheme::kBucketChaining},
                                                          {"perfect", HashingScheme::kPerfect}});
    for (const Field& output : fields["outputs"].array()) spec.outputs.push_back(decode_output(output));
    spec.schedule = fields["schedule"].int32_array(0, kPartitionMax);
    spec.second_radix_bits = fields["secondRadixBits"].int32(0, kRadixBitsMax);
    spec.table_bytes = fields["tableBytes"].count();
    spec.build_chunk_bytes = fields["buildChunkBytes"].count();
    spec.perfect_range_max = fields["perfectRangeMax"].count();
    spec.probe_split_rows = fields["probeSplitRows"].integer(0, kSafeInteger);
    spec.workers = fields["workers"].int32(1, kWorkersMax);
    spec.hash_mask = fields["hashMask"].bigint();
    fields.finish();
    return spec;
}

ArrayJoinSpec decode_array_join(const Napi::Value& value) {
    Fields fields(value, "spec");
    ArrayJoinSpec spec;
    spec.emit = fields["emit"].one_of<JoinEmit>({{"pairs", JoinEmit::kPairs}, {"probeOnce", JoinEmit::kProbeOnce}});
    spec.anti = fields["anti"].boolean();
    spec.keep_unmatched_probe = fields["keepUnmatchedProbe"].boolean();
    for (const Field& output : fields["outputs"].array()) spec.outputs.push_back(output.int32(0, kInt32Max));
    spec.first_key = fields["firstKey"].bigint();
    spec.key_values = fields["keyValues"].count(1);
    spec.build_workers = fields["buildWorkers"].int32(1, kWorkersMax);
    spec.workers = fields["workers"].int32(1, kWorkersMax);
    fields.finish();
    return spec;
}

GroupBySpec decode_group_by(const Napi::Value& value) {
    Fields fields(value, "spec");
    GroupBySpec spec;
    for (const Field& key : fields["keyFields"].array()) spec.key_fields.push_back(key.int32(0, kInt32Max));
    for (const Field& aggregate : fields["aggregates"].array()) spec.aggregates.push_back(decode_aggregate(aggregate));
    spec.row_number_field = fields["rowNumberField"].int32(-1, kInt32Max);
    spec.schedule = fields["schedule"].int32_array(0, kPartitionMax);
    spec.table_bytes = fields["tableBytes"].count();
    spec.workers = fields["workers"].int32(1, kWorkersMax);
    spec.hash_mask = fields["hashMask"].bigint();
    fields.finish();
    return spec;
}

}  // namespace spillway::addon
