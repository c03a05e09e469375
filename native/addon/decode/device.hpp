// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <napi.h>

#include <string>
#include <vector>

#include "addon/decode/decode.hpp"
#include "cuda/api/table_spec.hpp"
#include "executor/device/deliver.hpp"
#include "executor/device/pieces.hpp"
#include "executor/device/upload.hpp"
#include "executor/streaming/group_by_spec.hpp"
#include "executor/streaming/join_spec.hpp"

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
// 4 or 8.
uint32_t decode_key_bytes(const Field& field);
cuda::JoinKind decode_join_kind(Fields& fields);
cuda::FarPartitioner decode_partitioner(const Field& field);
OutOfCoreStage decode_out_of_core_stage(const Napi::Value& value, const Source& build, const Source& probe);
cuda::StagedGroupBySpec decode_out_of_core_group(const Napi::Value& value, const std::string& path, bool draft);
OutOfCoreGroupStage decode_out_of_core_group_stage(const Napi::Value& value, const Source& source);

constexpr int32_t kSlotsMax = 64;
constexpr int32_t kBlocksMax = 1 << 16;

// What sizes of joins and group-bys have in common.
inline cuda::StreamSizes decode_stream_sizes(Fields& fields, bool draft) {
    const int64_t least = draft ? 0 : 1;
    cuda::StreamSizes sizes;
    sizes.radix_bits = fields["radixBits"].int32(0, cuda::kFirstPassBitsMax);
    sizes.chunk_rows = fields["chunkRows"].count(draft ? 0 : 64);
    sizes.chunk_slots = static_cast<uint32_t>(fields["chunkSlots"].int32(1, kSlotsMax));
    sizes.page_rows = fields["pageRows"].count(least);
    sizes.pages = fields["pages"].count(least);
    sizes.spill_block_bytes = fields["spillBlockBytes"].count(least);
    sizes.spill_bytes = fields["spillBytes"].count();
    sizes.result_rows = fields["resultRows"].count(least);
    sizes.result_slots = static_cast<uint32_t>(fields["resultSlots"].int32(1, kSlotsMax));
    sizes.disk_block_bytes = fields["diskBlockBytes"].count();
    sizes.disk_blocks = static_cast<uint32_t>(fields["diskBlocks"].int32(0, kSlotsMax));
    return sizes;
}

}  // namespace spillway::addon
