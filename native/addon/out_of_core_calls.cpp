// SPDX-License-Identifier: Apache-2.0
#include "addon/addon_error.hpp"
#include "addon/calls.hpp"
#include "addon/decode_device.hpp"
#include "addon/encode.hpp"
#include "addon/gpu_of.hpp"
#include "addon/handle_types.hpp"
#include "addon/sink_stage.hpp"
#include "addon/source_use.hpp"
#include "addon/stage_job.hpp"
#include "executor/streaming/join.hpp"

namespace spillway::addon {

namespace {

Napi::Value number(Napi::Env env, uint64_t value) {
    return Napi::Number::New(env, static_cast<double>(value));
}

Napi::Value both_sides(Napi::Env env, const uint64_t (&of)[2]) {
    auto object = Napi::Object::New(env);
    object.Set("build", number(env, of[kBuildSide]));
    object.Set("probe", number(env, of[kProbeSide]));
    return object;
}

Napi::Value encode_run(Napi::Env env, const OutOfCoreRun& run) {
    const GpuOutOfCoreReport& report = run.report;
    auto object = Napi::Object::New(env);
    object.Set("rows", number(env, report.result_rows));
    object.Set("h2dBytes", number(env, report.h2d_bytes));
    object.Set("d2hBytes", number(env, report.d2h_bytes));
    object.Set("spilledRows", both_sides(env, report.spilled_rows));
    object.Set("spilledBytes", both_sides(env, report.spilled_bytes));
    object.Set("diskWrittenBytes", number(env, report.disk_written_bytes));
    object.Set("diskReadBytes", number(env, report.disk_read_bytes));
    object.Set("partitions", number(env, run.partition_rows.size()));
    object.Set("residentPartitions", number(env, report.resident_partitions));
    object.Set("buildMs", report.build_ms);
    object.Set("probeMs", report.probe_ms);
    object.Set("spilledMs", report.spilled_ms);
    object.Set("peakBytes", number(env, report.peak_bytes));
    object.Set("droppedRows", number(env, report.dropped_rows));
    return object;
}

Napi::Value out_of_core_bytes_call(const Napi::CallbackInfo& info) {
    const auto gpu = gpu_of(*get_handle<Engine>(info[0]));
    const GpuOutOfCoreSpec spec = decode_out_of_core(info[1], "spec");
    return number(info.Env(), GpuOutOfCoreJoin::device_bytes(gpu->device, spec));
}

Napi::Value join_out_of_core_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto build = use_source(info[1]);
    const auto probe = use_source(info[2]);
    const OutOfCoreStage stage = decode_out_of_core_stage(info[3], *build->source, *probe->source);
    const auto gpu = gpu_of(*job->engine);
    const auto join = [=](BatchSink* sink) {
        const DevicePause pause = [&](const std::function<void()>& wait) { gpu->pause(job->control, wait); };
        return gpu->operate(job->control, [&] {
            return join_out_of_core(*build->source, *probe->source, stage, *job->engine->kept_pinned, pause, sink,
                                    job->control, job->engine->spill_space);
        });
    };
    const bool wants_rows = stage.join.result == GpuOutOfCoreResult::kRows;
    if (!wants_rows) {
        return start_stage(info.Env(), job, [join]() -> Encode {
            const OutOfCoreRun done = join(nullptr);
            return [done](Napi::Env env) { return encode_run(env, done); };
        });
    }
    const StageSink sink(get_handle<SinkHandle>(info[4]));
    return start_sink_stage(
        info.Env(), job, sink, [join](BatchSink& rows) { return join(&rows); },
        [](Napi::Env env, const OutOfCoreRun& done) { return encode_run(env, done); });
}

}  // namespace

void export_out_of_core_calls(Napi::Object exports) {
    export_sync<out_of_core_bytes_call>(exports, "outOfCoreBytes");
    export_async<join_out_of_core_call>(exports, "joinOutOfCore");
}

}  // namespace spillway::addon
