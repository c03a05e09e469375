// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "addon/decode/decode.hpp"
#include "addon/decode/device.hpp"

namespace spillway::addon {

namespace {

constexpr size_t kAggregatesMax = 24;
constexpr int32_t kFirstPassBitsMax = 12;
constexpr int32_t kSlotsMax = 64;

GpuNumberKind decode_number(const Field& field) {
    return field.one_of<GpuNumberKind>(
        {{"signed", GpuNumberKind::kSigned}, {"unsigned", GpuNumberKind::kUnsigned}, {"float", GpuNumberKind::kFloat}});
}

GpuPartial decode_partial(const Field& field, const GpuOutOfCoreGroupSpec& spec) {
    Fields fields(field);
    GpuPartial partial;
    partial.kind = fields["kind"].one_of<GpuPartialKind>({{"countRows", GpuPartialKind::kCountRows},
                                                          {"sum", GpuPartialKind::kSum},
                                                          {"min", GpuPartialKind::kMin},
                                                          {"max", GpuPartialKind::kMax}});
    partial.number = decode_number(fields["number"]);
    const Field column = fields["column"];
    partial.column = static_cast<uint32_t>(column.int32(0, kInt32Max));
    fields.finish();
    if (partial.kind != GpuPartialKind::kCountRows && partial.column >= spec.widths.size()) {
        throw column.error("a column of the chunks");
    }
    return partial;
}

GpuOutOfCoreGroupSizes decode_sizes(const Field& field) {
    Fields fields(field);
    GpuOutOfCoreGroupSizes sizes;
    sizes.radix_bits = static_cast<uint32_t>(fields["radixBits"].int32(0, kFirstPassBitsMax));
    sizes.chunk_rows = count_of(fields["chunkRows"], 64);
    sizes.chunk_slots = static_cast<uint32_t>(fields["chunkSlots"].int32(1, kSlotsMax));
    sizes.page_rows = count_of(fields["pageRows"], 1);
    sizes.pages = count_of(fields["pages"], 1);
    sizes.merge_rows = count_of(fields["mergeRows"], 1);
    sizes.spill_block_bytes = count_of(fields["spillBlockBytes"], 1);
    sizes.spill_bytes = count_of(fields["spillBytes"]);
    sizes.result_rows = count_of(fields["resultRows"], 1);
    sizes.result_slots = static_cast<uint32_t>(fields["resultSlots"].int32(1, kSlotsMax));
    sizes.pre_aggregation = fields["preAggregation"].one_of<GpuPreAggregation>({{"auto", GpuPreAggregation::kAuto},
                                                                                {"always", GpuPreAggregation::kAlways},
                                                                                {"never", GpuPreAggregation::kNever}});
    sizes.disk_block_bytes = count_of(fields["diskBlockBytes"]);
    sizes.disk_blocks = static_cast<uint32_t>(fields["diskBlocks"].int32(0, kSlotsMax));
    fields.finish();
    return sizes;
}

void check_keys(const Field& field, const OutOfCoreSide& side, uint32_t key_bytes_max) {
    uint64_t key_bytes = 0;
    for (const KeySpec& key : side.keys) {
        const bool fixed =
            key.kind == KeyKind::kInteger || key.kind == KeyKind::kFloat || key.kind == KeyKind::kFixedBytes;
        if (!fixed) throw field.error("keys of fixed width without dictionaries");
        key_bytes += static_cast<uint64_t>(key.width);
    }
    // Flags of NULLs have a byte of their own behind the keys.
    const uint64_t end = side.null_byte < 0 ? key_bytes : static_cast<uint64_t>(side.null_byte) + 1;
    if (end > key_bytes_max || end < key_bytes + (side.null_byte < 0 ? 0 : 1) || side.keys.size() > 8) {
        throw field.error("keys that fit 'keyBytes' together, with flags of NULLs");
    }
}

ChunkColumn decode_chunk_column(const Field& field, const Source& source, uint32_t wanted_width) {
    Fields fields(field);
    ChunkColumn chunk;
    const Field column = fields["column"];
    chunk.column = column.int32(0, static_cast<int32_t>(source.columns().size()) - 1);
    chunk.validity = fields["validity"].boolean();
    chunk.part = fields["part"].one_of<ChunkPart>(
        {{"whole", ChunkPart::kWhole}, {"low", ChunkPart::kLow}, {"high", ChunkPart::kHigh}});
    chunk.fill = fields["fill"].one_of<ChunkFill>({{"none", ChunkFill::kNone},
                                                   {"zero", ChunkFill::kZero},
                                                   {"least", ChunkFill::kLeast},
                                                   {"largest", ChunkFill::kLargest}});
    fields.finish();
    // Widths of groups' columns are 8 at most, which is what can stand for NULL.
    const uint32_t width = chunk_width(chunk, *source.columns()[static_cast<size_t>(chunk.column)]);
    if (width != wanted_width) throw field.error("a column of the width that the group-by has there");
    return chunk;
}

OutOfCoreSide decode_side(const Field& field, const Source& source, const GpuOutOfCoreGroupSpec& spec) {
    Fields fields(field);
    OutOfCoreSide side;
    const Field keys = fields["keys"];
    side.keys = decode_keys(keys, source.columns());
    side.null_byte = fields["nullByte"].int32(-1, 7);
    check_keys(keys, side, spec.key_bytes);
    const Field columns = fields["columns"];
    for (const Field& item : columns.array()) {
        const size_t at = side.columns.size();
        if (at >= spec.widths.size()) throw columns.error("a column for each width of the group-by");
        side.columns.push_back(decode_chunk_column(item, source, spec.widths[at]));
    }
    fields.finish();
    if (side.columns.size() != spec.widths.size()) throw columns.error("a column for each width of the group-by");
    return side;
}

// Every value is read within the GPU's output that it comes from.
void check_result(const Field& field, const GroupResultColumn& column, const std::vector<uint32_t>& outputs) {
    const uint32_t width = chunk_width(*column.type);
    const auto width_of = [&](int32_t output) { return outputs[static_cast<size_t>(output)]; };
    if (width == 0) throw field.error("a column with a type of fixed width");
    if (column.kind == GroupResultKind::kCopy) {
        if (column.offset + width > width_of(column.value)) throw field.error("a value that fits its output");
        return;
    }
    const bool is_sum = column.kind == GroupResultKind::kSum;
    const bool wide = is_sum && column.number != GpuNumberKind::kFloat && width == 16;
    const bool words = width_of(column.value) == 8 && (column.high < 0 || width_of(column.high) == 8) &&
                       (is_sum || (column.count >= 0 && width_of(column.count) == 8));
    if (!words || column.offset != 0 || (width != 8 && !wide)) throw field.error("a sum or mean of words");
}

GroupResultColumn decode_result(const Field& field, const OutOfCoreGroupStage& stage, const Source& source) {
    Fields fields(field);
    const std::vector<uint32_t> outputs = stage.group.output_widths();
    const auto last = static_cast<int32_t>(outputs.size()) - 1;
    GroupResultColumn column;
    column.type = decode_column(fields["type"]);
    column.kind = fields["kind"].one_of<GroupResultKind>(
        {{"copy", GroupResultKind::kCopy}, {"sum", GroupResultKind::kSum}, {"mean", GroupResultKind::kMean}});
    column.value = fields["value"].int32(0, last);
    column.high = fields["high"].int32(-1, last);
    column.count = fields["count"].int32(-1, last);
    column.present = fields["present"].int32(-1, last);
    column.offset = static_cast<uint32_t>(fields["offset"].int32(0, 8));
    column.key = fields["key"].int32(-1, 7);
    column.number = decode_number(fields["number"]);
    column.decimal_scale = fields["decimalScale"].int32(-kDecimalDigitsMax, kDecimalDigitsMax);
    column.column = fields["column"].int32(-1, static_cast<int32_t>(source.columns().size()) - 1);
    fields.finish();
    check_result(field, column, outputs);
    return column;
}

}  // namespace

GpuOutOfCoreGroupSpec decode_out_of_core_group(const Napi::Value& value, const std::string& path) {
    Fields fields(value, path);
    GpuOutOfCoreGroupSpec spec;
    const Field key_bytes = fields["keyBytes"];
    spec.key_bytes = static_cast<uint32_t>(key_bytes.int32(4, 8));
    if (spec.key_bytes != 4 && spec.key_bytes != 8) throw key_bytes.error("4 or 8");
    for (const Field& item : fields["widths"].array()) {
        const auto width = static_cast<uint32_t>(item.int32(1, 8));
        if ((width & (width - 1)) != 0) throw item.error("1, 2, 4 or 8 bytes");
        spec.widths.push_back(width);
    }
    const Field aggregates = fields["aggregates"];
    for (const Field& item : aggregates.array()) spec.aggregates.push_back(decode_partial(item, spec));
    if (spec.aggregates.size() > kAggregatesMax) throw aggregates.error("24 aggregates at most");
    spec.null_group = fields["nullGroup"].boolean();
    spec.sizes = decode_sizes(fields["sizes"]);
    fields.finish();
    return spec;
}

OutOfCoreGroupStage decode_out_of_core_group_stage(const Napi::Value& value, const Source& source) {
    Fields fields(value, "spec");
    OutOfCoreGroupStage stage;
    stage.group = decode_out_of_core_group(fields["group"].value(), "spec.group");
    stage.side = decode_side(fields["side"], source, stage.group);
    for (const Field& column : fields["columns"].array()) {
        stage.columns.push_back(decode_result(column, stage, source));
    }
    stage.workers = fields["workers"].int32(1, kWorkersMax);
    fields.finish();
    return stage;
}

}  // namespace spillway::addon
