// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "addon/decode.hpp"

namespace spillway::addon {

namespace {

constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();
constexpr int32_t kDecimalDigitsMax = 76;  // of a 256-bit decimal
constexpr int32_t kPartitionMax = (1 << kRadixBitsMax) - 1;

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

JoinSpec decode_join(const Napi::Value& value) {
    Fields fields(value, "spec");
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
    spec.table_bytes = static_cast<uint64_t>(fields["tableBytes"].integer(0, kSafeInteger));
    spec.build_chunk_bytes = static_cast<uint64_t>(fields["buildChunkBytes"].integer(0, kSafeInteger));
    spec.perfect_range_max = static_cast<uint64_t>(fields["perfectRangeMax"].integer(0, kSafeInteger));
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
    spec.key_values = static_cast<uint64_t>(fields["keyValues"].integer(1, kSafeInteger));
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
    spec.table_bytes = static_cast<uint64_t>(fields["tableBytes"].integer(0, kSafeInteger));
    spec.workers = fields["workers"].int32(1, kWorkersMax);
    spec.hash_mask = fields["hashMask"].bigint();
    fields.finish();
    return spec;
}

}  // namespace spillway::addon
