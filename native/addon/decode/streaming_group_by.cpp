// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "addon/decode/decode.hpp"
#include "addon/decode/device.hpp"
#include "executor/streaming/key_tuples.hpp"

namespace spillway::addon {

namespace {

cuda::ValueKind decode_number(const Field& field) {
    return field.one_of<cuda::ValueKind>({{"signed", cuda::ValueKind::kSigned},
                                          {"unsigned", cuda::ValueKind::kUnsigned},
                                          {"float", cuda::ValueKind::kFloat}});
}

cuda::StagedAggregate decode_partial(const Field& field, const cuda::StagedGroupBySpec& spec) {
    Fields fields(field);
    cuda::StagedAggregate partial;
    partial.kind = fields["kind"].one_of<cuda::GroupAggregateKind>({{"countRows", cuda::GroupAggregateKind::kCountRows},
                                                                    {"sum", cuda::GroupAggregateKind::kSum},
                                                                    {"min", cuda::GroupAggregateKind::kMin},
                                                                    {"max", cuda::GroupAggregateKind::kMax},
                                                                    {"first", cuda::GroupAggregateKind::kFirst}});
    partial.value_kind = decode_number(fields["number"]);
    const Field column = fields["column"];
    partial.column = static_cast<uint32_t>(column.int32(0, kInt32Max));
    const Field decided_by = fields["decidedBy"];
    const auto last = static_cast<int32_t>(spec.widths.size()) - 1;
    if (!decided_by.is_null()) partial.decided_by = static_cast<uint32_t>(decided_by.int32(0, last));
    fields.finish();
    if (partial.kind != cuda::GroupAggregateKind::kCountRows && partial.column >= spec.widths.size()) {
        throw column.error("a column of the chunks");
    }
    return partial;
}

cuda::StreamSizes decode_sizes(const Field& field, bool draft) {
    Fields fields(field);
    cuda::StreamSizes sizes = decode_stream_sizes(fields, draft);
    sizes.merge_rows = fields["mergeRows"].count(draft ? 0 : 1);
    sizes.pre_aggregation =
        fields["preAggregation"].one_of<cuda::PreAggregation>({{"auto", cuda::PreAggregation::kAuto},
                                                               {"always", cuda::PreAggregation::kAlways},
                                                               {"never", cuda::PreAggregation::kNever}});
    fields.finish();
    return sizes;
}

// Has the key a fixed width on the GPU? Group-bys compare dictionaries by their unified indices, joins by their values;
// text is compared by its number.
bool is_fixed(const KeySpec& key, bool of_join) {
    if (is_text_key(key) || key.kind == KeyKind::kDictionaryIndex) return true;
    const KeyKind kind = of_join && key.kind == KeyKind::kDictionaryValue ? key.kind_of_value : key.kind;
    return kind == KeyKind::kInteger || kind == KeyKind::kFloat || kind == KeyKind::kFixedBytes;
}

// All bits of a number are set in place of a row that is not there.
uint32_t row_number_bytes(const Field& field, const Source& source, uint32_t width) {
    const bool narrow = static_cast<uint64_t>(source.rows()) <= std::numeric_limits<uint32_t>::max();
    if (width != 8 && (width != 4 || !narrow)) throw field.error("row numbers of a width that the source's have");
    return width;
}

// of_key: it is a word of the key, which no column of the source has, as those of numbers of rows, which have no NULLs.
ChunkColumn decode_chunk_column(const Field& field, const Source& source, uint32_t wanted_width, bool of_key) {
    Fields fields(field);
    ChunkColumn chunk;
    const Field column = fields["column"];
    const int32_t least = of_key ? kKeyWordColumn : kRowNumberColumn;
    const int32_t most = of_key ? kKeyWordColumn : static_cast<int32_t>(source.columns().size()) - 1;
    chunk.column = column.int32(least, most);
    chunk.validity = fields["validity"].boolean();
    chunk.part = decode_chunk_part(fields["part"]);
    const Field fill = fields["fill"];
    chunk.fill = decode_chunk_fill(fill);
    const Field distinct = fields["distinct"];
    fields.finish();
    if (!distinct.is_null()) {
        const bool values = chunk.column >= 0 && !chunk.validity && chunk.part == ChunkPart::kWhole;
        if (!values || chunk.fill != ChunkFill::kNone || wanted_width != 1) throw distinct.error("null");
        Fields key(distinct);
        if (key["column"].int32(0, most) != chunk.column) throw distinct.error("a key of the same column");
        chunk.distinct = decode_key(key, *source.columns()[static_cast<size_t>(chunk.column)]);
        chunk.distinct->column = chunk.column;
        return chunk;
    }
    if (chunk.column < 0) {
        const bool plain = !chunk.validity && chunk.part == ChunkPart::kWhole && chunk.fill == ChunkFill::kNone;
        if (!plain) throw field.error("a word of the key, or the row's number, as it is");
        if (!of_key) chunk.row_number_bytes = row_number_bytes(field, source, wanted_width);
        return chunk;
    }
    const uint32_t width = chunk_width(chunk, *source.columns()[static_cast<size_t>(chunk.column)]);
    if (width != wanted_width) throw field.error("a column of the width that the operator has there");
    check_fill(fill, chunk.fill, width);
    return chunk;
}

// Text is there as its number, or, as a key, as its bytes.
bool is_text_width(const GroupResultColumn& column) {
    const bool short_key = column.value == 0 && (column.bytes == 8 || column.bytes == 16);
    return column.bytes == kTextCodeBytes || short_key;
}

// Every value is read within the GPU's output that it comes from.
template <class Widths>
void check_result(const Field& field, const GroupResultColumn& column, const Widths& outputs, uint32_t tuple_bytes) {
    const bool text = is_text(*column.type);
    if (tuple_bytes > 0 && column.key >= 0) {
        const bool fixed = column.type->layout == Layout::kFixed;
        const uint32_t width = text    ? (is_text_width(column) ? column.bytes : 0)
                               : fixed ? static_cast<uint32_t>(column.type->byte_width)
                                       : chunk_width(*column.type);
        const bool copied = column.kind == GroupResultKind::kCopy && column.value == 0 && column.high < 0;
        const bool inside = uint64_t{column.offset} + column.bytes <= tuple_bytes && column.bytes == width;
        if (!copied || !inside || !column.between.empty()) throw field.error("a key as it lies among the others");
        return;
    }
    const uint32_t width = text ? kTextCodeBytes : chunk_width(*column.type);
    const auto width_of = [&](int32_t output) { return outputs[static_cast<size_t>(output)]; };
    if (width == 0) throw field.error("a column with a type of fixed width, or text");
    if (column.kind == GroupResultKind::kCopy) {
        const bool inside = uint64_t{column.offset} + column.bytes <= width_of(column.value);
        const bool fits = inside && (text ? is_text_width(column) : column.bytes <= width);
        if (!fits) throw field.error("a value that fits its output");
        const bool halves = width == 16 && column.bytes == 8 && !text && width_of(std::max(column.high, 0)) == 8;
        if ((column.high >= 0 && !halves) || !column.between.empty())
            throw field.error("a value in two halves at most");
        return;
    }
    if (text) throw field.error("a sum or mean of words");
    const bool is_sum = column.kind == GroupResultKind::kSum;
    const bool wide = is_sum && column.number != cuda::ValueKind::kFloat && width == 16;
    const bool words = width_of(column.value) == 8 && (column.high < 0 || width_of(column.high) == 8) &&
                       (is_sum || (column.count >= 0 && width_of(column.count) == 8));
    if (!words || column.offset != 0 || (width != 8 && !wide)) throw field.error("a sum or mean of words");
    if (column.between.empty()) return;
    const bool parts = column.between.size() == 2 && width_of(column.between[0]) == 8 &&
                       width_of(column.between[1]) == 8 && column.high >= 0 &&
                       column.number == cuda::ValueKind::kSigned && (wide || !is_sum);
    if (!parts) throw field.error("a sum or mean of decimals in four parts");
}

}  // namespace

ChunkPart decode_chunk_part(const Field& field) {
    return field.one_of<ChunkPart>({{"whole", ChunkPart::kWhole},
                                    {"narrow", ChunkPart::kNarrow},
                                    {"low", ChunkPart::kLow},
                                    {"high", ChunkPart::kHigh},
                                    {"leastText", ChunkPart::kLeastText},
                                    {"largestText", ChunkPart::kLargestText},
                                    {"half0", ChunkPart::kHalf0},
                                    {"half1", ChunkPart::kHalf1},
                                    {"quarter0", ChunkPart::kQuarter0},
                                    {"quarter1", ChunkPart::kQuarter1},
                                    {"quarter2", ChunkPart::kQuarter2},
                                    {"quarter3", ChunkPart::kQuarter3}});
}

ChunkFill decode_chunk_fill(const Field& field) {
    return field.one_of<ChunkFill>({{"none", ChunkFill::kNone},
                                    {"zero", ChunkFill::kZero},
                                    {"least", ChunkFill::kLeast},
                                    {"largest", ChunkFill::kLargest}});
}

void check_fill(const Field& field, ChunkFill fill, uint32_t width) {
    if (fill != ChunkFill::kNone && width > sizeof(uint64_t)) throw field.error("'none' for values of 16 bytes");
}

void check_key_bytes(const Field& field, const std::vector<KeySpec>& keys, int32_t null_byte, uint32_t key_bytes_max) {
    uint64_t key_bytes = 0;
    for (const KeySpec& key : keys) key_bytes += packed_key_width(key);
    // Flags of NULLs have a byte of their own behind the keys.
    const uint64_t end = null_byte < 0 ? key_bytes : static_cast<uint64_t>(null_byte) + 1;
    if (end > key_bytes_max || end < key_bytes + (null_byte < 0 ? 0 : 1) || keys.size() > cuda::kPipeKeysMax) {
        throw field.error("keys that fit 'keyBytes' together, with flags of NULLs");
    }
}

// Words of the keys of a group-by behind the first one, as many as columns that are such words; those come first.
uint32_t group_key_columns(const Field& columns) {
    uint32_t words = 0;
    for (const Field& item : columns.array()) {
        Fields fields(item);
        if (fields["column"].int32(kKeyWordColumn, kInt32Max) == kKeyWordColumn) ++words;
    }
    if (words >= kKeyWordsMax) throw columns.error("fewer words of keys");
    return words;
}

// Groups by the hash of a key of several words have the least and the greatest of each of the others.
uint32_t check_group_words(const Field& field, const OutOfCoreGroupStage& stage) {
    const auto is_word = [](const ChunkColumn& column) { return column.column == kKeyWordColumn; };
    const auto& columns = stage.side.columns;
    const auto words = static_cast<uint32_t>(std::count_if(columns.begin(), columns.end(), is_word));
    const auto& aggregates = stage.group.aggregates;
    bool fits = words == 0 || (stage.group.key_bytes == sizeof(uint64_t) && !stage.group.null_group &&
                               aggregates.size() >= 2 * words);
    for (uint32_t i = 0; fits && i < 2 * words; ++i) {
        const cuda::StagedAggregate& aggregate = aggregates[i];
        const auto kind = i % 2 == 0 ? cuda::GroupAggregateKind::kMin : cuda::GroupAggregateKind::kMax;
        fits = aggregate.kind == kind && aggregate.column == i / 2 && aggregate.decided_by == cuda::kNothingDecides &&
               aggregate.value_kind == cuda::ValueKind::kUnsigned;
    }
    if (!fits) throw field.error("first of all the least and the greatest of each word of the key");
    return words;
}

OutOfCoreSide decode_chunk_side(const Field& field, const Source& source, uint32_t key_bytes,
                                const cuda::ColumnWidths& widths, const cuda::StagedJoinSpec* join) {
    Fields fields(field);
    OutOfCoreSide side;
    const Field keys = fields["keys"];
    side.keys = decode_keys(keys, source.columns());
    const uint32_t key_columns = join == nullptr ? group_key_columns(fields["columns"]) : join->key_columns;
    side.null_byte = fields["nullByte"].int32(-1, null_byte_max(key_columns));
    const Field numbered = fields["numbered"];
    side.numbered = numbered.boolean();
    if (side.numbered && join != nullptr) throw numbered.error("false for rows of a join");
    for (const KeySpec& key : side.keys) {
        if (!is_fixed(key, join != nullptr)) throw keys.error("keys of fixed width, text or indices of dictionaries");
    }
    check_short_texts(keys, side.keys, source.columns(), join == nullptr && !side.numbered);
    if (side.numbered) {
        const bool fits = !side.keys.empty() && side.keys.size() <= kTupleKeysMax && side.null_byte < 0;
        if (!fits || key_bytes != sizeof(uint32_t) || key_columns > 0)
            throw keys.error("keys whose numbers have 4 bytes");
    } else if (key_columns == 0) {
        check_key_bytes(keys, side.keys, side.null_byte, key_bytes);
    } else {
        check_key_words(keys, side.keys, side.null_byte, key_columns);
    }
    const Field columns = fields["columns"];
    for (const Field& item : columns.array()) {
        const size_t at = side.columns.size();
        if (at >= widths.size()) throw columns.error("a column for each width of the operator");
        side.columns.push_back(decode_chunk_column(item, source, widths[at], at < key_columns));
    }
    side.packed = fields["packed"].boolean();
    fields.finish();
    if (side.columns.size() != widths.size()) throw columns.error("a column for each width of the operator");
    return side;
}

GroupResultColumn decode_group_result(const Field& field, const cuda::StagedGroupBySpec& group, uint32_t tuple_bytes) {
    Fields fields(field);
    const auto outputs = group.output_widths();
    const auto last = static_cast<int32_t>(outputs.size()) - 1;
    GroupResultColumn column;
    column.type = decode_column(fields["type"]);
    column.kind = fields["kind"].one_of<GroupResultKind>(
        {{"copy", GroupResultKind::kCopy}, {"sum", GroupResultKind::kSum}, {"mean", GroupResultKind::kMean}});
    column.value = fields["value"].int32(0, last);
    column.high = fields["high"].int32(-1, last);
    for (const Field& part : fields["between"].array()) column.between.push_back(part.int32(0, last));
    column.count = fields["count"].int32(-1, last);
    column.present = fields["present"].int32(-1, last);
    column.offset = static_cast<uint32_t>(fields["offset"].int32(0, tuple_bytes > 0 ? kInt32Max : 8));
    column.bytes = static_cast<uint32_t>(fields["bytes"].int32(1, tuple_bytes > 0 ? kInt32Max : 16));
    column.key = fields["key"].int32(-1, tuple_bytes > 0 ? static_cast<int32_t>(kTupleKeysMax) - 1 : 7);
    column.number = decode_number(fields["number"]);
    column.decimal_scale = fields["decimalScale"].int32(-kDecimalDigitsMax, kDecimalDigitsMax);
    column.name = fields["name"].string();
    fields.finish();
    check_result(field, column, outputs, tuple_bytes);
    return column;
}

cuda::StagedGroupBySpec decode_out_of_core_group(const Napi::Value& value, const std::string& path, bool draft) {
    Fields fields(value, path);
    cuda::StagedGroupBySpec spec;
    spec.key_bytes = decode_key_bytes(fields["keyBytes"]);
    const Field widths = fields["widths"];
    for (const Field& item : widths.array()) {
        const auto width = static_cast<uint32_t>(item.int32(0, kInt32Max));
        if (!cuda::is_value_width(width, cuda::kAggregatedBytesMax)) throw item.error("1, 2, 4 or 8 bytes");
        if (spec.widths.size() == spec.widths.capacity()) {
            throw widths.error(std::to_string(spec.widths.capacity()) + " columns at most");
        }
        spec.widths.push_back(width);
    }
    const Field aggregates = fields["aggregates"];
    for (const Field& item : aggregates.array()) {
        if (spec.aggregates.size() == spec.aggregates.capacity()) {
            throw aggregates.error(std::to_string(spec.aggregates.capacity()) + " aggregates at most");
        }
        spec.aggregates.push_back(decode_partial(item, spec));
    }
    spec.null_group = fields["nullGroup"].boolean();
    spec.sizes = decode_sizes(fields["sizes"], draft);
    fields.finish();
    return spec;
}

OutOfCoreGroupStage decode_out_of_core_group_stage(const Napi::Value& value, const Source& source) {
    Fields fields(value, "spec");
    OutOfCoreGroupStage stage;
    stage.group = decode_out_of_core_group(fields["group"].value(), "spec.group", false);
    stage.side = decode_chunk_side(fields["side"], source, stage.group.key_bytes, stage.group.widths);
    stage.key_words = check_group_words(fields["group"], stage);
    const uint32_t word_bytes = stage.key_words == 0 ? 0 : 8 * (1 + stage.key_words);
    const uint32_t tuple_bytes = stage.side.numbered ? TuplePlaces(stage.side.keys).bytes : word_bytes;
    for (const Field& column : fields["columns"].array()) {
        stage.columns.push_back(decode_group_result(column, stage.group, tuple_bytes));
    }
    stage.workers = fields["workers"].int32(1, kWorkersMax);
    fields.finish();
    return stage;
}

}  // namespace spillway::addon
