// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <optional>
#include <string>

#include "addon/decode/decode.hpp"
#include "addon/decode/device.hpp"
#include "executor/streaming/key_tuples.hpp"

namespace spillway::addon {

namespace {

constexpr int32_t kRowBytesMax = 4 * cuda::kJoinWordsMax;
constexpr uint8_t kPresenceMax = cuda::kBuildPresent | cuda::kProbePresent | cuda::kKeyPresent;

cuda::ColumnWidths decode_widths(const Field& field, uint32_t key_bytes) {
    cuda::ColumnWidths widths;
    uint64_t bytes = key_bytes;
    for (const Field& item : field.array()) {
        const auto width = static_cast<uint32_t>(item.int32(1, kInt32Max));
        if (!cuda::is_value_width(width)) throw item.error("1, 2, 4, 8 or 16 bytes");
        bytes += width;
        if (bytes > kRowBytesMax) {
            throw field.error("columns of " + std::to_string(kRowBytesMax) + " bytes in all, with the key");
        }
        widths.push_back(width);
    }
    return widths;
}

uint32_t decode_key_columns(const Field& field, const cuda::StagedJoinSpec& spec) {
    const auto columns = static_cast<uint32_t>(field.int32(0, kKeyWordsMax - 1));
    for (const cuda::ColumnWidths& widths : spec.widths) {
        for (uint32_t c = 0; c < columns; ++c) {
            if (spec.key_bytes == 8 && c < widths.size() && widths[c] == 8) continue;
            throw field.error("a number of columns of 8 bytes on either side, beside a key of 8 bytes");
        }
    }
    return columns;
}

cuda::JoinOutputColumn decode_output(const Field& field, const cuda::StagedJoinSpec& spec) {
    Fields fields(field);
    cuda::JoinOutputColumn output;
    output.side = fields["side"].one_of<cuda::OutputSide>({{"build", cuda::OutputSide::kBuild},
                                                           {"probe", cuda::OutputSide::kProbe},
                                                           {"key", cuda::OutputSide::kKey},
                                                           {"presence", cuda::OutputSide::kPresence}});
    const Field column = fields["column"];
    output.column = static_cast<uint32_t>(column.int32(0, kInt32Max));
    fields.finish();
    const bool of_side = output.side == cuda::OutputSide::kBuild || output.side == cuda::OutputSide::kProbe;
    const size_t side = output.side == cuda::OutputSide::kBuild ? kBuildSide : kProbeSide;
    if (of_side && output.column >= spec.widths[side].size()) throw column.error("a column of the side");
    return output;
}

uint64_t decode_filter_words(const Field& field) {
    const auto words = static_cast<uint64_t>(field.integer(0, cuda::kFilterWordsMax));
    if (words == 1 || (words & (words - 1)) != 0) throw field.error("0 or a power of two from 2 on");
    return words;
}

cuda::StreamSizes decode_sizes(const Field& field, bool draft) {
    Fields fields(field);
    cuda::StreamSizes sizes = decode_stream_sizes(fields, draft);
    sizes.resident_partitions = static_cast<uint32_t>(fields["residentPartitions"].int32(0, kInt32Max));
    sizes.filter_words = decode_filter_words(fields["filterWords"]);
    fields.finish();
    return sizes;
}

// null: none of the joins that others are compared with.
std::optional<BaselineChoice> decode_baseline(const Field& field, const OutOfCoreStage& stage) {
    if (field.is_null()) return std::nullopt;
    Fields fields(field);
    BaselineChoice baseline;
    baseline.algorithm = decode_baseline_join(fields["algorithm"]);
    baseline.shares = decode_interleave(fields["interleave"]);
    baseline.stream_probe = decode_stream_probe(fields["streamProbe"]);
    baseline.overlap = fields["overlap"].boolean();
    fields.finish();
    const cuda::StreamSizes& sizes = stage.join.sizes;
    const bool plain = !stage.coherent && sizes.filter_words == 0 && sizes.disk_blocks == 0;
    if (!plain || !stage.join.kind.inner() || stage.join.key_columns > 0) {
        throw field.error(
            "null, where a join is no inner one, is a coherent one, has a filter, keys of more than 8 "
            "bytes, or spills to disk");
    }
    return baseline;
}

using Sources = const Source* const[2];

void check_keys(const Field& field, const OutOfCoreStage& stage, const std::vector<KeySpec>& keys) {
    bool fixed = true;
    for (const KeySpec& key : keys) {
        const KeyKind kind = key.kind == KeyKind::kDictionaryValue ? key.kind_of_value : key.kind;
        // Encoded keys are the CPU engine's, which has no numbers for text.
        fixed = fixed && (stage.keys != OutOfCoreKeys::kEncoded || kind != KeyKind::kBytes) &&
                kind != KeyKind::kDictionaryIndex;
    }
    const bool equal = stage.null_keys == NullKeys::kEqual;
    if (stage.keys == OutOfCoreKeys::kNumbered) {
        const bool one_number = stage.join.key_bytes == sizeof(uint32_t) && stage.join.key_columns == 0;
        if (!fixed || keys.empty() || keys.size() > kTupleKeysMax || !one_number) {
            throw field.error("up to " + std::to_string(kTupleKeysMax) + " keys with a number of 4 bytes for all");
        }
        return;
    }
    if (stage.keys == OutOfCoreKeys::kHashed) {
        const bool pairs = stage.join.kind.inner() && stage.join.result == cuda::JoinResultKind::kRows;
        if (!pairs || keys.empty()) throw field.error("keys of a join that gives pairs alone");
    } else if (!fixed || keys.empty()) {
        throw field.error("keys of fixed width");
    } else {
        check_packed_keys(field, keys, stage.join, equal ? (static_cast<uint32_t>(keys.size()) + 7) / 8 : 0);
    }
    const bool packed = stage.keys == OutOfCoreKeys::kPacked;
    if (packed ? equal : stage.join.key_bytes != 8) throw field.error("keys of 8 bytes, or NULLs that are no keys");
}

ChunkColumn decode_chunk_column(const Field& field, const Source& source, uint32_t width, bool of_key) {
    Fields fields(field);
    ChunkColumn chunk;
    const Field column = fields["column"];
    const int32_t least = of_key ? kKeyWordColumn : kRowNumberColumn;
    const int32_t most = of_key ? kKeyWordColumn : static_cast<int32_t>(source.columns().size()) - 1;
    chunk.column = column.int32(least, most);
    chunk.validity = fields["validity"].boolean();
    fields.finish();
    bool fits = false;
    if (of_key) {
        fits = !chunk.validity;
    } else if (chunk.column == kRowNumberColumn) {
        const bool narrow = static_cast<uint64_t>(source.rows()) <= std::numeric_limits<uint32_t>::max();
        fits = !chunk.validity && (width == 8 || (width == 4 && narrow));
        chunk.row_number_bytes = width;
    } else {
        const ColumnType& type = *source.columns()[static_cast<size_t>(chunk.column)];
        fits = width == chunk_width(chunk, type);
    }
    if (!fits) throw field.error("a column of the width that the join has there");
    return chunk;
}

OutOfCoreSide decode_side(const Field& field, const Source& source, const OutOfCoreStage& stage, size_t side) {
    Fields fields(field);
    OutOfCoreSide made;
    const Field keys = fields["keys"];
    made.keys = decode_keys(keys, source.columns());
    check_keys(keys, stage, made.keys);
    check_short_texts(keys, made.keys, source.columns(), stage.keys == OutOfCoreKeys::kPacked);
    const Field columns = fields["columns"];
    const cuda::ColumnWidths& widths = stage.join.widths[side];
    for (const Field& item : columns.array()) {
        if (made.columns.size() >= widths.size()) throw item.error("a column of the width that the join has there");
        const size_t at = made.columns.size();
        made.columns.push_back(decode_chunk_column(item, source, widths[at], at < stage.join.key_columns));
    }
    const Field packed = fields["packed"];
    made.packed = packed.boolean();
    if (made.packed && (stage.coherent || stage.baseline))
        throw packed.error("false for a join whose kernels read chunks");
    fields.finish();
    if (made.columns.size() != widths.size()) throw columns.error("a column for each width of the join");
    return made;
}

// Output with the row numbers of a side; -1: none.
int32_t decode_row_numbers(const Field& field, const OutOfCoreStage& stage, size_t side) {
    const int32_t output = field.int32(-1, static_cast<int32_t>(stage.join.output.size()) - 1);
    if (output < 0) return output;
    const cuda::JoinOutputColumn& found = stage.join.output[static_cast<size_t>(output)];
    const cuda::OutputSide wanted = side == kBuildSide ? cuda::OutputSide::kBuild : cuda::OutputSide::kProbe;
    const auto& columns = stage.sides[side].columns;
    if (found.side != wanted || columns[found.column].column != kRowNumberColumn) {
        throw field.error("an output with the side's row numbers");
    }
    return output;
}

// Views come out as offsets and bytes; dictionaries have unified indices, whatever theirs were.
bool gives(const ColumnType& source, const ColumnType& result) {
    if (source.is_bytes()) return result.is_bytes();
    const bool width_matters = source.layout != Layout::kDictionary;
    return source.layout == result.layout && (!width_matters || source.byte_width == result.byte_width);
}

ResultPart decode_part(const Field& field, const OutOfCoreStage& stage, const Sources& sources,
                       const ColumnType& type) {
    Fields fields(field);
    const Field from = fields["from"];
    const auto source = from.one_of<int32_t>({{"gpu", kOfGpu}, {"build", kBuildSide}, {"probe", kProbeSide}});
    if (source == kOfGpu) {
        return decode_gpu_part(fields, stage.join, is_text(type) ? kTextCodeBytes : chunk_width(type));
    }
    if (stage.row_numbers[source] < 0) throw from.error("a side with row numbers");
    ResultPart part = decode_source_part(fields, stage.join, *sources[source], type);
    part.source = source;
    return part;
}

ResultColumn decode_result(const Field& field, const OutOfCoreStage& stage, const Sources& sources) {
    Fields fields(field);
    ResultColumn column;
    column.type = decode_column(fields["type"]);
    const Field parts = fields["parts"];
    for (const Field& part : parts.array()) column.parts.push_back(decode_part(part, stage, sources, *column.type));
    if (column.parts.empty()) throw parts.error("at least one part");
    for (const ResultPart& part : column.parts) {
        if ((part.source != kOfGpu) != column.is_gathered()) throw parts.error("parts of one origin");
        // A hash leaves nothing of the keys, and of columns that came with it, rows may be dropped.
        if (stage.keys == OutOfCoreKeys::kHashed && !column.is_gathered()) throw parts.error("parts of the sources");
    }
    fields.finish();
    return column;
}

}  // namespace

ResultPart decode_gpu_part(Fields& fields, const cuda::StagedJoinSpec& join, uint32_t width) {
    const auto last = static_cast<int32_t>(join.output.size()) - 1;
    const Field offset = fields["offset"];
    const Field validity = fields["validity"];
    ResultPart part;
    part.value = fields["value"].int32(0, last);
    part.offset = static_cast<uint32_t>(offset.int32(0, kRowBytesMax));
    part.validity = validity.int32(-1, last);
    part.mask = static_cast<uint8_t>(fields["mask"].int32(0, kPresenceMax));
    fields.finish();
    const auto width_of = [&](int32_t output) { return join.output_width(join.output[static_cast<size_t>(output)]); };
    if (width == 0 || part.offset + width > width_of(part.value)) {
        throw offset.error("a place where the value fits its output");
    }
    if (part.validity >= 0 && width_of(part.validity) != 1) throw validity.error("an output of bytes");
    return part;
}

ResultPart decode_source_part(Fields& fields, const cuda::StagedJoinSpec& join, const Source& source,
                              const ColumnType& type) {
    const Field value = fields["value"];
    ResultPart part;
    part.value = value.int32(0, static_cast<int32_t>(source.columns().size()) - 1);
    part.offset = static_cast<uint32_t>(fields["offset"].int32(0, kRowBytesMax));
    part.validity = fields["validity"].int32(-1, static_cast<int32_t>(join.output.size()) - 1);
    part.mask = static_cast<uint8_t>(fields["mask"].int32(0, kPresenceMax));
    fields.finish();
    const ColumnType& found = *source.columns()[static_cast<size_t>(part.value)];
    if (!gives(found, type)) throw value.error("a column of the result's type");
    return part;
}

int32_t decode_presence(const Field& field, const cuda::StagedJoinSpec& join) {
    const int32_t output = field.int32(-1, static_cast<int32_t>(join.output.size()) - 1);
    if (output >= 0 && join.output[static_cast<size_t>(output)].side != cuda::OutputSide::kPresence) {
        throw field.error("an output of presence bytes");
    }
    return output;
}

void check_packed_keys(const Field& field, const std::vector<KeySpec>& keys, const cuda::StagedJoinSpec& join,
                       uint32_t more_bytes) {
    for (const KeySpec& key : keys) {
        if (packed_key_width(key) == 0) throw field.error("keys of fixed width");
    }
    const uint32_t words = packed_key_words(keys);
    const KeyPlace last = packed_key_places(keys).back();
    const uint32_t bytes = last.word * 8 + last.shift / 8 + packed_key_width(keys.back()) + more_bytes;
    if (words != 1 + join.key_columns || (words == 1 && bytes > join.key_bytes) || (words > 1 && more_bytes > 0)) {
        throw field.error("keys of fixed width that fit 'keyBytes' and 'keyColumns' together");
    }
}

void check_short_texts(const Field& field, const std::vector<KeySpec>& keys, const std::vector<TypePtr>& columns,
                       bool allowed) {
    for (const KeySpec& key : keys) {
        if (!is_text_key(key) || key.width == 0) continue;
        const bool is_plain =
            key.kind == KeyKind::kBytes && columns[static_cast<size_t>(key.column)]->layout == Layout::kBinary;
        if (!allowed || !is_plain || (key.width != 8 && key.width != 16)) {
            throw field.error("text with offsets in keys of 8 or 16 bytes, where keys are packed");
        }
    }
}

void check_key_words(const Field& field, const std::vector<KeySpec>& keys, int32_t null_byte, uint32_t key_columns) {
    bool fits = !keys.empty();
    for (const KeySpec& key : keys) fits = fits && packed_key_width(key) > 0;
    if (fits) {
        const KeyPlace last = packed_key_places(keys).back();
        const auto end = static_cast<int32_t>(last.word * 8 + last.shift / 8 + packed_key_width(keys.back()));
        fits = packed_key_words(keys, null_byte) <= 1 + key_columns && (null_byte < 0 || null_byte >= end);
    }
    if (!fits) throw field.error("keys of fixed width that fit the words of the key, with flags of NULLs behind them");
}

cuda::StagedJoinSpec decode_staged_join(Fields& fields, bool draft) {
    cuda::StagedJoinSpec spec;
    spec.key_bytes = decode_key_bytes(fields["keyBytes"]);
    spec.widths[kBuildSide] = decode_widths(fields["buildWidths"], spec.key_bytes);
    spec.widths[kProbeSide] = decode_widths(fields["probeWidths"], spec.key_bytes);
    spec.key_columns = decode_key_columns(fields["keyColumns"], spec);
    spec.kind = decode_join_kind(fields);
    spec.result = fields["result"].one_of<cuda::JoinResultKind>(
        {{"count", cuda::JoinResultKind::kCount}, {"rows", cuda::JoinResultKind::kRows}});
    const Field outputs = fields["outputs"];
    for (const Field& output : outputs.array()) {
        if (spec.output.size() == spec.output.capacity()) {
            throw outputs.error(std::to_string(spec.output.capacity()) + " columns at most");
        }
        spec.output.push_back(decode_output(output, spec));
    }
    const Field sizes = fields["sizes"];
    spec.sizes = decode_sizes(sizes, draft);
    if (spec.sizes.filter_words > 0 && spec.kind.keeps_unmatched_probe()) {
        throw sizes.error("no filter where probe rows without a partner come out");
    }
    return spec;
}

cuda::FarPartitioner decode_partitioner(const Field& field) {
    return field.one_of<cuda::FarPartitioner>(cuda::kFarPartitionerNames);
}

cuda::BaselineJoin decode_baseline_join(const Field& field) {
    return field.one_of<cuda::BaselineJoin>(cuda::kBaselineJoinNames);
}

cuda::StreamProbe decode_stream_probe(const Field& field) {
    return field.is_null() ? cuda::StreamProbe::kSorted : field.one_of<cuda::StreamProbe>(cuda::kStreamProbeNames);
}

int32_t decode_split_bits(const Field& field) {
    return field.is_null() ? 0 : field.int32(1, cuda::kSecondPassBitsMax);
}

cuda::StripeShares decode_interleave(const Field& field) {
    cuda::StripeShares shares;
    if (field.is_null()) return shares;
    Fields fields(field);
    shares.device = static_cast<uint32_t>(fields["device"].int32(0, kInt32Max));
    shares.host = static_cast<uint32_t>(fields["far"].int32(0, kInt32Max));
    fields.finish();
    if (shares.device + uint64_t{shares.host} == 0) throw field.error("pages of some memory");
    return shares;
}

namespace {

// null: as many as fit shared memory.
uint32_t decode_table_buckets(const Field& field) {
    return field.is_null() ? 0 : static_cast<uint32_t>(field.int32(kTableBucketsMin, kInt32Max));
}

}  // namespace

std::optional<cuda::CoherentOptions> decode_coherent(const Field& field, const cuda::StagedJoinSpec& spec) {
    if (field.is_null()) return std::nullopt;
    Fields fields(field);
    cuda::CoherentOptions coherent;
    coherent.device_bytes = fields["deviceBytes"].count(1);
    coherent.partitioner = decode_partitioner(fields["partitioner"]);
    coherent.partition_grid = static_cast<uint32_t>(fields["partitionBlocks"].int32(0, kBlocksMax));
    coherent.gather_grid = static_cast<uint32_t>(fields["gatherBlocks"].int32(0, kBlocksMax));
    coherent.split_bits = decode_split_bits(fields["secondRadixBits"]);
    coherent.shares = decode_interleave(fields["interleave"]);
    coherent.mapped = fields["mapped"].boolean();
    coherent.table_buckets = decode_table_buckets(fields["tableBuckets"]);
    coherent.perfect_hash = fields["perfectHash"].boolean();
    fields.finish();
    const bool plain = spec.sizes.filter_words == 0 && spec.sizes.disk_blocks == 0;
    if (!plain || !spec.can_be_coherent()) {
        throw field.error(
            "null, where rows are more than a key and a column of its width, and where a join has a filter or "
            "spills to disk");
    }
    if (coherent.perfect_hash && (spec.result == cuda::JoinResultKind::kRows || !spec.kind.inner())) {
        throw field.error("no perfect hashing of other joins than inner ones that are counted");
    }
    return coherent;
}

OutOfCoreStage decode_out_of_core_stage(const Napi::Value& value, const Source& build, const Source& probe) {
    Fields fields(value, "spec");
    const Sources sources = {&build, &probe};
    OutOfCoreStage stage;
    Fields join(fields["join"]);
    stage.join = decode_staged_join(join, false);
    stage.coherent = decode_coherent(join["coherent"], stage.join);
    stage.baseline = decode_baseline(join["baseline"], stage);
    join.finish();
    stage.keys = fields["keys"].one_of<OutOfCoreKeys>({{"packed", OutOfCoreKeys::kPacked},
                                                       {"encoded", OutOfCoreKeys::kEncoded},
                                                       {"hashed", OutOfCoreKeys::kHashed},
                                                       {"numbered", OutOfCoreKeys::kNumbered}});
    stage.null_keys = fields["nullsEqual"].boolean() ? NullKeys::kEqual : NullKeys::kKeep;
    stage.sides[kBuildSide] = decode_side(fields["build"], build, stage, kBuildSide);
    stage.sides[kProbeSide] = decode_side(fields["probe"], probe, stage, kProbeSide);
    const Field numbers = fields["rowNumbers"];
    Fields number_fields(numbers);
    stage.row_numbers[kBuildSide] = decode_row_numbers(number_fields["build"], stage, kBuildSide);
    stage.row_numbers[kProbeSide] = decode_row_numbers(number_fields["probe"], stage, kProbeSide);
    number_fields.finish();
    if (stage.keys == OutOfCoreKeys::kHashed && (stage.row_numbers[0] < 0 || stage.row_numbers[1] < 0)) {
        throw numbers.error("row numbers of both sides, whose keys are compared");
    }
    stage.presence = decode_presence(fields["presence"], stage.join);
    stage.packs_results = fields["packsResults"].boolean();
    for (const Field& column : fields["columns"].array()) {
        stage.columns.push_back(decode_result(column, stage, sources));
    }
    stage.workers = fields["workers"].int32(1, kWorkersMax);
    fields.finish();
    return stage;
}

}  // namespace spillway::addon
