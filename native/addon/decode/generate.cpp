// SPDX-License-Identifier: Apache-2.0
#include "addon/decode/decode.hpp"
#include "generate/table_generator.hpp"

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

BenchmarkTable decode_table(const Field& benchmark, const Field& table) {
    if (benchmark.one_of<bool>({{"tpch", false}, {"ssb", true}})) {
        return table.one_of<BenchmarkTable>({{"lineorder", BenchmarkTable::kSsbLineorder},
                                             {"customer", BenchmarkTable::kSsbCustomer},
                                             {"supplier", BenchmarkTable::kSsbSupplier},
                                             {"part", BenchmarkTable::kSsbPart},
                                             {"date", BenchmarkTable::kSsbDate}});
    }
    return table.one_of<BenchmarkTable>({{"region", BenchmarkTable::kTpchRegion},
                                         {"nation", BenchmarkTable::kTpchNation},
                                         {"supplier", BenchmarkTable::kTpchSupplier},
                                         {"customer", BenchmarkTable::kTpchCustomer},
                                         {"part", BenchmarkTable::kTpchPart},
                                         {"partsupp", BenchmarkTable::kTpchPartsupp},
                                         {"orders", BenchmarkTable::kTpchOrders},
                                         {"lineitem", BenchmarkTable::kTpchLineitem}});
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

GeneratedTable decode_generated_table(const Napi::Value& value) {
    Fields fields(value, "spec");
    GeneratedTable generated;
    TableSpec& spec = generated.spec;
    const Field benchmark = fields["benchmark"];
    spec.table = decode_table(benchmark, fields["table"]);
    spec.scale = fields["scale"].number(0, kNumberMax);
    spec.seed = fields["seed"].bigint();
    spec.part = fields["part"].integer(1, kSafeInteger);
    spec.parts = fields["parts"].integer(1, kSafeInteger);
    const Field ids = fields["dictionaryIds"];
    for (const Field& id : ids.array()) generated.dictionary_ids.push_back(id.integer(0, kSafeInteger));
    spec.dictionary = !generated.dictionary_ids.empty();
    if (spec.dictionary && generated.dictionary_ids.size() != table_dictionaries(spec.table).size()) {
        throw ids.error("one id for each column that has a dictionary, or none for plain text");
    }
    spec.batch_rows = fields["batchRows"].integer(1, kSafeInteger);
    spec.workers = fields["workers"].int32(1, kWorkersMax);
    fields.finish();
    check_spec(spec);
    return generated;
}

BenchmarkTable decode_benchmark_table(const Napi::Value& benchmark, const Napi::Value& table) {
    return decode_table(Field(benchmark, "benchmark"), Field(table, "table"));
}

}  // namespace spillway::addon
