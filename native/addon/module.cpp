// SPDX-License-Identifier: Apache-2.0
#include <napi.h>

#include "addon/calls/calls.hpp"
#include "addon/jobs/addon_error.hpp"
#include "addon/jobs/job_registry.hpp"
#include "base/heap.hpp"

namespace {

// Runs once per environment (main thread and every worker_thread that loads the addon).
Napi::Object init(Napi::Env env, Napi::Object exports) {
    using namespace spillway::addon;
    try {
        spillway::share_arenas();
        init_registry(env);
    } catch (...) {
        throw to_js_error(env, current_error());
    }
    export_engine_calls(exports);
    export_source_calls(exports);
    export_file_calls(exports);
    export_stage_calls(exports);
    export_device_calls(exports);
    export_streaming_calls(exports);
    export_device_memory_calls(exports);
    export_sink_calls(exports);
    return exports;
}

}  // namespace

NODE_API_MODULE(spillway, init)
