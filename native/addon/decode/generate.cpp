// SPDX-License-Identifier: Apache-2.0
#include "addon/decode/decode.hpp"

namespace spillway::addon {

namespace {

constexpr double kNumberMax = 1e18;  // guards against nonsense; check_spec() has the true limits

GeneratedKey decode_generated_key(const Field& field) {
    Fields fields(field);
    GeneratedKey key;
    key.name = fields["name"].string();
    key.width = fields["width"].int32(4, 8);
    key.role = fields["role"].one_of<KeyRole>({{"primary", KeyRole::kPrimary}, {"foreign", KeyRole::kForeign}});
    key.domain_rows = fields["domainRows"].integer(0, kSafeInteger);
    key.stride = fields["keyStride"].integer(-kSafeInteger, kSafeInteger);
    key.offset = fields["keyOffset"].integer(-kSafeInteger, kSafeInteger);
    key.duplicates = fields["duplicates"].integer(0, kSafeInteger);
    key.zipf = fields["zipf"].number(0, kNumberMax);
    key.match_ratio = fields["matchRatio"].number(0, 1);
    key.order = fields["order"].one_of<KeyOrder>({{"shuffled", KeyOrder::kShuffled}, {"sorted", KeyOrder::kSorted}});
    key.sparse = fields["sparse"].boolean();
    fields.finish();
    return key;
}

GeneratedColumn decode_generated_column(const Field& field) {
    Fields fields(field);
    GeneratedColumn column;
    column.name = fields["name"].string();
    column.kind = fields["kind"].one_of<GeneratedKind>(
        {{"int", GeneratedKind::kInt}, {"float", GeneratedKind::kFloat}, {"utf8", GeneratedKind::kUtf8}});
    column.width = fields["width"].int32(1, kInt32Max);
    fields.finish();
    return column;
}

}  // namespace

GenerateSpec decode_generate(const Napi::Value& value) {
    Fields fields(value, "spec");
    GenerateSpec spec;
    spec.rows = fields["rows"].integer(0, kSafeInteger);
    spec.seed = fields["seed"].bigint();
    spec.key = decode_generated_key(fields["key"]);
    for (const Field& column : fields["payload"].array()) spec.payload.push_back(decode_generated_column(column));
    spec.batch_rows = fields["batchRows"].integer(1, kSafeInteger);
    spec.workers = fields["workers"].int32(1, kWorkersMax);
    fields.finish();
    check_spec(spec);
    return spec;
}

TpchSpec decode_tpch(const Napi::Value& value) {
    Fields fields(value, "spec");
    TpchSpec spec;
    spec.table =
        fields["table"].one_of<TpchTable>({{"orders", TpchTable::kOrders}, {"lineitem", TpchTable::kLineitem}});
    spec.scale = fields["scale"].number(0, kNumberMax);
    spec.seed = fields["seed"].bigint();
    spec.batch_rows = fields["batchRows"].integer(1, kSafeInteger);
    spec.workers = fields["workers"].int32(1, kWorkersMax);
    fields.finish();
    check_spec(spec);
    return spec;
}

}  // namespace spillway::addon
