// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "addon/decode.hpp"
#include "addon/decode_device.hpp"

namespace spillway::addon {

namespace {

constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();
constexpr int32_t kRowBytesMax = 32;
constexpr int32_t kFirstPassBitsMax = 12;
constexpr int32_t kSlotsMax = 64;
constexpr uint8_t kPresenceMax = kBuildPresent | kProbePresent | kKeyPresent;

uint64_t count_of(const Field& field, int64_t min = 0) {
    return static_cast<uint64_t>(field.integer(min, kSafeInteger));
}

std::vector<uint32_t> decode_widths(const Field& field, uint32_t key_bytes) {
    std::vector<uint32_t> widths;
    uint64_t bytes = key_bytes;
    for (const Field& item : field.array()) {
        const auto width = static_cast<uint32_t>(item.int32(1, 16));
        if ((width & (width - 1)) != 0) throw item.error("1, 2, 4, 8 or 16 bytes");
        widths.push_back(width);
        bytes += width;
    }
    if (bytes > kRowBytesMax) throw field.error("columns of 32 bytes in all, with the key");
    return widths;
}

GpuOutputColumn decode_output(const Field& field, const GpuOutOfCoreSpec& spec) {
    Fields fields(field);
    GpuOutputColumn output;
    output.side = fields["side"].one_of<GpuOutputSide>({{"build", GpuOutputSide::kBuild},
                                                        {"probe", GpuOutputSide::kProbe},
                                                        {"key", GpuOutputSide::kKey},
                                                        {"presence", GpuOutputSide::kPresence}});
    const Field column = fields["column"];
    output.column = static_cast<uint32_t>(column.int32(0, kInt32Max));
    fields.finish();
    const bool of_side = output.side == GpuOutputSide::kBuild || output.side == GpuOutputSide::kProbe;
    const size_t side = output.side == GpuOutputSide::kBuild ? kBuildSide : kProbeSide;
    if (of_side && output.column >= spec.widths[side].size()) throw column.error("a column of the side");
    return output;
}

GpuOutOfCoreSizes decode_sizes(const Field& field) {
    Fields fields(field);
    GpuOutOfCoreSizes sizes;
    sizes.radix_bits = static_cast<uint32_t>(fields["radixBits"].int32(0, kFirstPassBitsMax));
    sizes.chunk_rows = count_of(fields["chunkRows"], 64);
    sizes.chunk_slots = static_cast<uint32_t>(fields["chunkSlots"].int32(1, kSlotsMax));
    sizes.page_rows = count_of(fields["pageRows"], 1);
    sizes.pages = count_of(fields["pages"], 1);
    sizes.resident_partitions = static_cast<uint32_t>(fields["residentPartitions"].int32(0, kInt32Max));
    sizes.spill_block_bytes = count_of(fields["spillBlockBytes"], 1);
    sizes.spill_bytes = count_of(fields["spillBytes"]);
    sizes.result_rows = count_of(fields["resultRows"], 1);
    sizes.result_slots = static_cast<uint32_t>(fields["resultSlots"].int32(1, kSlotsMax));
    sizes.disk_block_bytes = count_of(fields["diskBlockBytes"]);
    sizes.disk_blocks = static_cast<uint32_t>(fields["diskBlocks"].int32(0, kSlotsMax));
    fields.finish();
    return sizes;
}

OutOfCoreSide decode_side(const Field& field, const Source& source, const GpuOutOfCoreSpec& join, size_t side) {
    Fields fields(field);
    OutOfCoreSide made;
    const Field keys = fields["keys"];
    made.keys = decode_keys(keys, source.columns());
    uint64_t key_bytes = 0;
    for (const KeySpec& key : made.keys) {
        const bool fixed =
            key.kind == KeyKind::kInteger || key.kind == KeyKind::kFloat || key.kind == KeyKind::kFixedBytes;
        if (!fixed) throw keys.error("keys of fixed width without dictionaries");
        key_bytes += static_cast<uint64_t>(key.width);
    }
    if (key_bytes == 0 || key_bytes > join.key_bytes) throw keys.error("keys that fit 'keyBytes' together");
    const Field columns = fields["columns"];
    for (const Field& item : columns.array()) {
        Fields column(item);
        ChunkColumn chunk;
        chunk.column = column["column"].int32(0, static_cast<int32_t>(source.columns().size()) - 1);
        chunk.validity = column["validity"].boolean();
        column.finish();
        const ColumnType& type = *source.columns()[static_cast<size_t>(chunk.column)];
        const uint32_t width = chunk.validity ? 1 : chunk_width(type);
        const size_t at = made.columns.size();
        if (at >= join.widths[side].size() || width != join.widths[side][at]) {
            throw item.error("a column of the width that the join has there");
        }
        made.columns.push_back(chunk);
    }
    fields.finish();
    if (made.columns.size() != join.widths[side].size()) throw columns.error("a column for each width of the join");
    return made;
}

ResultPart decode_part(const Field& field, const OutOfCoreStage& stage, uint32_t width) {
    Fields fields(field);
    const auto outputs = static_cast<int32_t>(stage.join.outputs.size());
    ResultPart part;
    const Field value = fields["value"];
    const Field validity = fields["validity"];
    const Field offset = fields["offset"];
    part.value = value.int32(0, outputs - 1);
    part.validity = validity.int32(-1, outputs - 1);
    part.offset = static_cast<uint32_t>(offset.int32(0, kRowBytesMax));
    part.mask = static_cast<uint8_t>(fields["mask"].int32(0, kPresenceMax));
    fields.finish();
    const auto width_of = [&](int32_t output) {
        return stage.join.output_width(stage.join.outputs[static_cast<size_t>(output)]);
    };
    if (part.offset + width > width_of(part.value)) throw offset.error("a place where the value fits its output");
    if (part.validity >= 0 && width_of(part.validity) != 1) throw validity.error("an output of bytes");
    return part;
}

ResultColumn decode_result(const Field& field, const OutOfCoreStage& stage) {
    Fields fields(field);
    ResultColumn column;
    const Field type = fields["type"];
    column.type = decode_column(type);
    const uint32_t width = chunk_width(*column.type);
    if (width == 0) throw type.error("a type of fixed width");
    const Field parts = fields["parts"];
    for (const Field& part : parts.array()) column.parts.push_back(decode_part(part, stage, width));
    if (column.parts.empty()) throw parts.error("at least one part");
    fields.finish();
    return column;
}

}  // namespace

GpuOutOfCoreSpec decode_out_of_core(const Napi::Value& value, const std::string& path) {
    Fields fields(value, path);
    GpuOutOfCoreSpec spec;
    const Field key_bytes = fields["keyBytes"];
    spec.key_bytes = static_cast<uint32_t>(key_bytes.int32(4, 8));
    if (spec.key_bytes != 4 && spec.key_bytes != 8) throw key_bytes.error("4 or 8");
    spec.widths[kBuildSide] = decode_widths(fields["buildWidths"], spec.key_bytes);
    spec.widths[kProbeSide] = decode_widths(fields["probeWidths"], spec.key_bytes);
    spec.emit = fields["emit"].one_of<GpuJoinEmit>({{"pairs", GpuJoinEmit::kPairs},
                                                    {"buildOnce", GpuJoinEmit::kBuildOnce},
                                                    {"probeOnce", GpuJoinEmit::kProbeOnce}});
    spec.anti = fields["anti"].boolean();
    spec.keep_unmatched_build = fields["keepUnmatchedBuild"].boolean();
    spec.keep_unmatched_probe = fields["keepUnmatchedProbe"].boolean();
    spec.result = fields["result"].one_of<GpuOutOfCoreResult>(
        {{"count", GpuOutOfCoreResult::kCount}, {"rows", GpuOutOfCoreResult::kRows}});
    for (const Field& output : fields["outputs"].array()) spec.outputs.push_back(decode_output(output, spec));
    spec.sizes = decode_sizes(fields["sizes"]);
    fields.finish();
    return spec;
}

OutOfCoreStage decode_out_of_core_stage(const Napi::Value& value, const Source& build, const Source& probe) {
    Fields fields(value, "spec");
    OutOfCoreStage stage;
    stage.join = decode_out_of_core(fields["join"].value(), "spec.join");
    stage.sides[kBuildSide] = decode_side(fields["build"], build, stage.join, kBuildSide);
    stage.sides[kProbeSide] = decode_side(fields["probe"], probe, stage.join, kProbeSide);
    const Field presence = fields["presence"];
    stage.presence = presence.int32(-1, static_cast<int32_t>(stage.join.outputs.size()) - 1);
    const bool is_presence =
        stage.presence < 0 || stage.join.outputs[static_cast<size_t>(stage.presence)].side == GpuOutputSide::kPresence;
    if (!is_presence) throw presence.error("an output of presence bytes");
    for (const Field& column : fields["columns"].array()) stage.columns.push_back(decode_result(column, stage));
    stage.workers = fields["workers"].int32(1, kWorkersMax);
    fields.finish();
    return stage;
}

}  // namespace spillway::addon
