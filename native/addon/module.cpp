// SPDX-License-Identifier: Apache-2.0
#include <napi.h>

#include "addon/calls.hpp"
#include "addon/job_registry.hpp"

namespace {

// Runs once per environment (main thread and every worker_thread that loads the addon).
Napi::Object init(Napi::Env env, Napi::Object exports) {
    spillway::addon::init_registry(env);
    spillway::addon::export_engine_calls(exports);
    spillway::addon::export_source_calls(exports);
    spillway::addon::export_partition_calls(exports);
    spillway::addon::export_stage_calls(exports);
    spillway::addon::export_sink_calls(exports);
    return exports;
}

}  // namespace

NODE_API_MODULE(spillway, init)
