// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <optional>

#include "addon/decode.hpp"
#include "addon/decode_device.hpp"

namespace spillway::addon {

namespace {

constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();
constexpr int32_t kRowBytesMax = 32;
constexpr int32_t kFirstPassBitsMax = 12;
constexpr int32_t kSlotsMax = 64;
constexpr int32_t kBlocksMax = 1 << 16;
constexpr int64_t kFilterWordsMax = int64_t{1} << 40;

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

// 0, or a power of two of words; the GPU takes 2^40 of them at most.
uint64_t decode_filter_words(const Field& field) {
    const auto words = static_cast<uint64_t>(field.integer(0, kFilterWordsMax));
    if (words == 1 || (words & (words - 1)) != 0) throw field.error("0 or a power of two from 2 on");
    return words;
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
    sizes.filter_words = decode_filter_words(fields["filterWords"]);
    fields.finish();
    return sizes;
}

// null: copy engines bring chunks in and packed rows out.
std::optional<GpuCoherent> decode_coherent(const Field& field, const GpuOutOfCoreSpec& spec) {
    if (field.is_null()) return std::nullopt;
    Fields fields(field);
    GpuCoherent coherent;
    coherent.device_bytes = count_of(fields["deviceBytes"], 1);
    coherent.partitioner =
        fields["partitioner"].one_of<GpuPartitioner>({{"auto", GpuPartitioner::kBest},
                                                      {"standard", GpuPartitioner::kStandard},
                                                      {"linear", GpuPartitioner::kLinear},
                                                      {"shared", GpuPartitioner::kShared},
                                                      {"hierarchical", GpuPartitioner::kHierarchical},
                                                      {"bulk", GpuPartitioner::kBulk}});
    coherent.partition_blocks = static_cast<uint32_t>(fields["partitionBlocks"].int32(0, kBlocksMax));
    coherent.gather_blocks = static_cast<uint32_t>(fields["gatherBlocks"].int32(0, kBlocksMax));
    fields.finish();
    const bool plain = spec.sizes.filter_words == 0 && spec.sizes.disk_blocks == 0;
    if (!plain || !spec.can_be_coherent()) {
        throw field.error(
            "null, where a join gives other rows than pairs of a key and a column of its width, has a "
            "filter or spills to disk");
    }
    return coherent;
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
    const Field sizes = fields["sizes"];
    spec.sizes = decode_sizes(sizes);
    if (spec.sizes.filter_words > 0 && spec.keeps_lone_probe_rows()) {
        throw sizes.error("no filter where probe rows without a partner come out");
    }
    spec.coherent = decode_coherent(fields["coherent"], spec);
    fields.finish();
    return spec;
}

}  // namespace spillway::addon
