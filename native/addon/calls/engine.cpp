// SPDX-License-Identifier: Apache-2.0
#include "addon/calls/calls.hpp"
#include "addon/decode/fields.hpp"
#include "addon/encode/encode.hpp"
#include "addon/jobs/addon_error.hpp"
#include "addon/jobs/handles.hpp"
#include "base/machine.hpp"
#include "base/thread_cache.hpp"
#include "device/gpu_list.hpp"
#include "memory/spill_file.hpp"

namespace spillway::addon {

namespace {

constexpr int32_t kThreadsMax = 4096;

Napi::Value error_codes(const Napi::CallbackInfo& info) {
    auto names = Napi::Array::New(info.Env());
    for (uint32_t i = 0; i <= static_cast<uint32_t>(ErrorCode::kInternal); ++i) {
        names.Set(i, Napi::String::New(info.Env(), error_code_name(static_cast<ErrorCode>(i))));
    }
    return names;
}

Napi::Value machine(const Napi::CallbackInfo& info) {
    return encode_machine(info.Env(), read_machine());
}

Napi::Value devices(const Napi::CallbackInfo& info) {
    return encode_devices(info.Env(), find_gpus().devices);
}

Napi::Value gpu_unavailable_reason(const Napi::CallbackInfo& info) {
    const std::string reason = find_gpus().reason;
    return reason.empty() ? info.Env().Null() : Napi::String::New(info.Env(), reason);
}

Napi::Value shutdown(const Napi::CallbackInfo& info) {
    registry_of(info.Env())->shutdown();
    return info.Env().Undefined();
}

// The cache of freed blocks goes with the engine; unmapping it may take a while, so not on the JS thread. The last
// owner may be the thread that disposes of dropped blocks, and the registry belongs to the JS thread.
std::shared_ptr<Engine> share_engine(Napi::Env env, std::unique_ptr<Engine> engine) {
    return std::shared_ptr<Engine>(engine.release(), [registry = registry_of(env)](Engine* last) {
        const auto holder = std::make_shared<std::unique_ptr<Engine>>(last);
        if (registry->on_js_thread() && !registry->ended()) {
            registry->run_in_background([holder] { holder->reset(); });
        }
    });
}

Napi::Value create_engine(const Napi::CallbackInfo& info) {
    Fields fields(info[0], "spec");
    const auto memory_bytes = fields["memoryBytes"].count(1);
    const std::string directory = fields["spillDirectory"].string();
    const int32_t threads = fields["threads"].int32(1, kThreadsMax);
    fields.finish();
    remove_stale_spill_files(directory);
    auto engine = share_engine(info.Env(), std::make_unique<Engine>(memory_bytes, directory, threads));
    return make_handle(info.Env(), std::move(engine));
}

Napi::Value engine_memory(const Napi::CallbackInfo& info) {
    return encode_memory(info.Env(), *get_handle<Engine>(info[0]));
}

Napi::Value close_engine(const Napi::CallbackInfo& info) {
    const auto& engine = box_of<Engine>(info[0]).value;
    if (engine && engine->running_jobs > 0) {
        throw Error(ErrorCode::kInvalidArgument,
                    "the runtime cannot be closed: " + std::to_string(engine->running_jobs) +
                        " of its jobs still run; abort them and wait for their promises first",
                    {{"runningCount", std::to_string(engine->running_jobs)}});
    }
    close_handle<Engine>(info[0]);
    return info.Env().Undefined();
}

Napi::Value drain_engine(const Napi::CallbackInfo& info) {
    const auto engine = get_handle<Engine>(info[0]);
    if (!engine->has_disposals()) return resolved(info.Env(), info.Env().Undefined());
    const auto wait = [engine]() -> Encode {
        engine->wait_for_disposals();
        return undefined_result;
    };
    return start_stage_or_run(info.Env(), std::make_shared<Job>(engine), wait);
}

// Gives memory, spill files and threads that no job uses back to the system, on a thread of its own: 80 us per MiB.
Napi::Value trim_engine(const Napi::CallbackInfo& info) {
    const auto engine = get_handle<Engine>(info[0]);
    engine->keeps_dropped.store(false, std::memory_order_relaxed);
    return start_stage_or_run(info.Env(), std::make_shared<Job>(engine), [engine]() -> Encode {
        engine->wait_for_disposals();  // they hand their spill files in
        engine->budget.trim_cache();
        engine->spill_space->trim();
        ThreadCache::instance().trim();
        if (engine->kept_pinned) engine->kept_pinned->trim();
        return undefined_result;
    });
}

// A table that is being collected takes room beside the budget, which counts neither its blocks nor those it caches.
Napi::Value trim_cache(const Napi::CallbackInfo& info) {
    MemoryBudget& budget = get_handle<Engine>(info[0])->budget;
    const auto beside = Field(info[1], "besideBytes").count();
    const uint64_t unused = budget.unused();
    if (beside > unused) {
        const uint64_t cached = budget.cached();
        budget.trim_cache(cached - std::min(cached, beside - unused));
    }
    return info.Env().Undefined();
}

Napi::Value create_job(const Napi::CallbackInfo& info) {
    const auto engine = get_handle<Engine>(info[0]);
    engine->keeps_dropped.store(true, std::memory_order_relaxed);
    return make_handle(info.Env(), std::make_shared<Job>(engine));
}

Napi::Value cancel_job(const Napi::CallbackInfo& info) {
    get_handle<Job>(info[0])->cancel();
    return info.Env().Undefined();
}

Napi::Value wait_for_job(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const bool waited_for = Field(info[1], "waitedFor").boolean();
    if (waited_for == job->waited_for()) return info.Env().Undefined();
    const auto& js_thread = registry_of(info.Env())->js_thread();
    for (int64_t stages = job->set_waited_for(waited_for); stages > 0; --stages) {
        waited_for ? js_thread->hold() : js_thread->release();
    }
    return info.Env().Undefined();
}

Napi::Value run_stages_here(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    job->control.runs_on_event_loop.store(Field(info[1], "here").boolean(), std::memory_order_relaxed);
    return info.Env().Undefined();
}

Napi::Value job_progress(const Napi::CallbackInfo& info) {
    return encode_progress(info.Env(), get_handle<Job>(info[0])->control);
}

}  // namespace

void export_engine_calls(Napi::Object exports) {
    export_sync<error_codes>(exports, "errorCodes");
    export_sync<machine>(exports, "machine");
    export_sync<devices>(exports, "devices");
    export_sync<gpu_unavailable_reason>(exports, "gpuUnavailableReason");
    export_sync<shutdown>(exports, "shutdown");
    export_sync<create_engine>(exports, "createEngine");
    export_sync<engine_memory>(exports, "engineMemory");
    export_sync<close_engine>(exports, "closeEngine");
    export_async<drain_engine>(exports, "drainEngine");
    export_async<trim_engine>(exports, "trimEngine");
    export_sync<trim_cache>(exports, "trimCache");
    export_sync<create_job>(exports, "createJob");
    export_sync<cancel_job>(exports, "cancelJob");
    export_sync<wait_for_job>(exports, "waitForJob");
    export_sync<run_stages_here>(exports, "runStagesHere");
    export_sync<job_progress>(exports, "jobProgress");
}

}  // namespace spillway::addon
