// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <napi.h>

#include <optional>
#include <string>
#include <vector>

#include "addon/decode/decode.hpp"
#include "cuda/api/table_spec.hpp"
#include "executor/device/deliver.hpp"
#include "executor/device/pieces.hpp"
#include "executor/device/upload.hpp"
#include "executor/streaming/group_by_spec.hpp"
#include "executor/streaming/join_spec.hpp"
#include "executor/streaming/tree_spec.hpp"

namespace spillway::addon {

// As decode.hpp, for stages of the GPU: what is decoded here fits the tables that it names.

UploadSpec decode_upload(const Napi::Value& value, const Source& source);
cuda::OwnedTableJoin decode_device_join(const Napi::Value& value, const GpuTable& build, const GpuTable& probe);
cuda::OwnedTableGroupBy decode_device_group(const Napi::Value& value, const GpuTable& table);
// table: its columns.
DeliverSpec decode_deliver(const Napi::Value& value, const std::vector<cuda::ColumnSpec>& table);
PiecesSpec decode_pieces(const Napi::Value& value, const std::vector<cuda::ColumnSpec>& table);
// Reads the fields of a join, but not `coherent`. draft: the plan is still being made, and its sizes may be 0.
cuda::StagedJoinSpec decode_staged_join(Fields& fields, bool draft);
// Throws unless keys of a side fit the join's key and key columns, with so many bytes more.
void check_packed_keys(const Field& field, const std::vector<KeySpec>& keys, const cuda::StagedJoinSpec& join,
                       uint32_t more_bytes);
// Throws where a key is text in words of its own (short_text.hpp), and may not be or has no such words.
void check_short_texts(const Field& field, const std::vector<KeySpec>& keys, const std::vector<TypePtr>& columns,
                       bool allowed);
// Throws unless keys of a side, and the byte that says which are NULL, fit a word and so many more.
void check_key_words(const Field& field, const std::vector<KeySpec>& keys, int32_t null_byte, uint32_t key_columns);
// 4 or 8.
uint32_t decode_key_bytes(const Field& field);
cuda::JoinKind decode_join_kind(Fields& fields);
cuda::FarPartitioner decode_partitioner(const Field& field);
cuda::BaselineJoin decode_baseline_join(const Field& field);
// null: any, where it does not matter.
cuda::StreamProbe decode_stream_probe(const Field& field);
// Radix bits of a coherent join's second pass; null: the join's choice, which is 0.
int32_t decode_split_bits(const Field& field);
// Pages that take turns; null: none are named.
cuda::StripeShares decode_interleave(const Field& field);
// How kernels alone run the join; null: copy engines bring chunks in and packed rows out.
std::optional<cuda::CoherentOptions> decode_coherent(const Field& field, const cuda::StagedJoinSpec& spec);
OutOfCoreStage decode_out_of_core_stage(const Napi::Value& value, const Source& build, const Source& probe);
cuda::StagedGroupBySpec decode_out_of_core_group(const Napi::Value& value, const std::string& path, bool draft);
OutOfCoreGroupStage decode_out_of_core_group_stage(const Napi::Value& value, const Source& source);
// sources: those that flows name by their numbers.
OutOfCoreTree decode_out_of_core_tree(const Napi::Value& value, const std::vector<const Source*>& sources);

// Parts of these that several operators have.

// How rows of a source become chunks with such keys and columns. join: whose rows they are; nullptr: a group-by's.
OutOfCoreSide decode_chunk_side(const Field& field, const Source& source, uint32_t key_bytes,
                                const cuda::ColumnWidths& widths, const cuda::StagedJoinSpec* join = nullptr);
ChunkPart decode_chunk_part(const Field& field);
ChunkFill decode_chunk_fill(const Field& field);
// Something stands for NULL in columns of 8 bytes at most.
void check_fill(const Field& field, ChunkFill fill, uint32_t width);
// The keys' values fit a key, and so does the byte with their NULLs behind them.
void check_key_bytes(const Field& field, const std::vector<KeySpec>& keys, int32_t null_byte, uint32_t key_bytes_max);
// Reads all fields of a part but `from`: a value of so many bytes in an output of the join.
ResultPart decode_gpu_part(Fields& fields, const cuda::StagedJoinSpec& join, uint32_t width);
// The same of a part that is a column of the source, read by row number, for a result column of that type.
ResultPart decode_source_part(Fields& fields, const cuda::StagedJoinSpec& join, const Source& source,
                              const ColumnType& type);
// Output with the presence bytes; -1: there is none.
int32_t decode_presence(const Field& field, const cuda::StagedJoinSpec& join);
// tuple_bytes: of the keys of a group, where its key is their number; else 0.
GroupResultColumn decode_group_result(const Field& field, const cuda::StagedGroupBySpec& group,
                                      uint32_t tuple_bytes = 0);

constexpr int32_t kSlotsMax = 64;
constexpr int32_t kBlocksMax = 1 << 16;
constexpr int32_t kTableBucketsMin = 16;  // as those of CoherentOptions
// The last byte of a key with so many words more.
constexpr int32_t null_byte_max(uint32_t key_columns) {
    return static_cast<int32_t>(8 * (1 + key_columns)) - 1;
}

// What sizes of joins and group-bys have in common.
inline cuda::StreamSizes decode_stream_sizes(Fields& fields, bool draft) {
    const int64_t least = draft ? 0 : 1;
    cuda::StreamSizes sizes;
    sizes.radix_bits = fields["radixBits"].int32(0, cuda::kFirstPassBitsMax);
    sizes.chunk_rows = fields["chunkRows"].count(draft ? 0 : 64);
    sizes.chunk_slots = static_cast<uint32_t>(fields["chunkSlots"].int32(1, kSlotsMax));
    sizes.host_chunk_rows = fields["hostChunkRows"].count(draft ? 0 : 64);
    sizes.host_chunk_slots = static_cast<uint32_t>(fields["hostChunkSlots"].int32(1, kSlotsMax));
    sizes.page_rows = fields["pageRows"].count(least);
    sizes.pages = fields["pages"].count(least);
    sizes.spill_block_bytes = fields["spillBlockBytes"].count(least);
    sizes.peer_bytes = fields["peerBytes"].count();
    sizes.spill_bytes = fields["spillBytes"].count();
    sizes.result_rows = fields["resultRows"].count(least);
    sizes.result_slots = static_cast<uint32_t>(fields["resultSlots"].int32(1, kSlotsMax));
    sizes.disk_block_bytes = fields["diskBlockBytes"].count();
    sizes.disk_blocks = static_cast<uint32_t>(fields["diskBlocks"].int32(0, kSlotsMax));
    return sizes;
}

}  // namespace spillway::addon
