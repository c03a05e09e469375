// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <napi.h>

#include <string>
#include <vector>

#include "device/gpu_operation.hpp"
#include "executor/device/deliver.hpp"
#include "executor/device/pieces.hpp"
#include "executor/device/upload.hpp"
#include "executor/streaming/group_by_spec.hpp"
#include "executor/streaming/join_spec.hpp"

namespace spillway::addon {

// As decode.hpp, for stages of the GPU: what is decoded here fits the tables that it names.

UploadSpec decode_upload(const Napi::Value& value, const Source& source);
GpuJoin decode_device_join(const Napi::Value& value, const GpuTable& build, const GpuTable& probe);
GpuGroupBy decode_device_group(const Napi::Value& value, const GpuTable& table);
// table: its columns.
DeliverSpec decode_deliver(const Napi::Value& value, const std::vector<GpuColumn>& table);
PiecesSpec decode_pieces(const Napi::Value& value, const std::vector<GpuColumn>& table);
GpuOutOfCoreSpec decode_out_of_core(const Napi::Value& value, const std::string& path);
OutOfCoreStage decode_out_of_core_stage(const Napi::Value& value, const Source& build, const Source& probe);
GpuOutOfCoreGroupSpec decode_out_of_core_group(const Napi::Value& value, const std::string& path);
OutOfCoreGroupStage decode_out_of_core_group_stage(const Napi::Value& value, const Source& source);

}  // namespace spillway::addon
