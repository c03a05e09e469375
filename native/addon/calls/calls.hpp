// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <napi.h>

namespace spillway::addon {

// The functions of Binding (src/native/binding.ts), by what they act on.
void export_engine_calls(Napi::Object exports);
void export_source_calls(Napi::Object exports);
void export_file_calls(Napi::Object exports);
void export_stage_calls(Napi::Object exports);
void export_device_calls(Napi::Object exports);
void export_streaming_calls(Napi::Object exports);
void export_device_memory_calls(Napi::Object exports);
void export_sink_calls(Napi::Object exports);

}  // namespace spillway::addon
