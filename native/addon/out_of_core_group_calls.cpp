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
#include "executor/streaming/group_by.hpp"

namespace spillway::addon {

namespace {

Napi::Value number(Napi::Env env, uint64_t value) {
    return Napi::Number::New(env, static_cast<double>(value));
}

Napi::Value encode_report(Napi::Env env, const GpuOutOfCoreGroupReport& report, size_t partitions) {
    auto object = Napi::Object::New(env);
    object.Set("rows", number(env, report.groups));
    object.Set("h2dBytes", number(env, report.h2d_bytes));
    object.Set("d2hBytes", number(env, report.d2h_bytes));
    object.Set("partialRows", number(env, report.partial_rows));
    object.Set("chunks", number(env, report.chunks));
    object.Set("groupedChunks", number(env, report.grouped_chunks));
    object.Set("compactedRows", number(env, report.compacted_rows));
    object.Set("spilledRows", number(env, report.spilled_rows));
    object.Set("spilledBytes", number(env, report.spilled_bytes));
    object.Set("diskWrittenBytes", number(env, report.disk_written_bytes));
    object.Set("diskReadBytes", number(env, report.disk_read_bytes));
    object.Set("partitions", number(env, partitions));
    object.Set("residentPartitions", number(env, report.resident_partitions));
    object.Set("readMs", report.read_ms);
    object.Set("residentMs", report.resident_ms);
    object.Set("spilledMs", report.spilled_ms);
    object.Set("peakBytes", number(env, report.peak_bytes));
    return object;
}

Napi::Value out_of_core_group_bytes_call(const Napi::CallbackInfo& info) {
    const auto gpu = gpu_of(*get_handle<Engine>(info[0]));
    const GpuOutOfCoreGroupSpec spec = decode_out_of_core_group(info[1], "spec");
    return number(info.Env(), GpuOutOfCoreGroupBy::device_bytes(gpu->device, spec));
}

// A sink where groups are wanted; without one they are counted.
Napi::Value group_out_of_core_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto source = use_source(info[1]);
    const OutOfCoreGroupStage stage = decode_out_of_core_group_stage(info[2], *source->source);
    const size_t partitions = size_t{1} << stage.group.sizes.radix_bits;
    const auto gpu = gpu_of(*job->engine);
    const auto group = [=](BatchSink* sink) {
        const DevicePause pause = [&](const std::function<void()>& wait) { gpu->pause(job->control, wait); };
        return gpu->operate(job->control, [&] {
            return group_out_of_core(*source->source, stage, *job->engine->kept_pinned, pause, sink, job->control,
                                     job->engine->spill_space);
        });
    };
    if (info[3].IsUndefined()) {
        return start_stage(info.Env(), job, [group, partitions]() -> Encode {
            const GpuOutOfCoreGroupReport done = group(nullptr);
            return [done, partitions](Napi::Env env) { return encode_report(env, done, partitions); };
        });
    }
    const StageSink sink(get_handle<SinkHandle>(info[3]));
    return start_sink_stage(
        info.Env(), job, sink, [group](BatchSink& rows) { return group(&rows); },
        [partitions](Napi::Env env, const GpuOutOfCoreGroupReport& done) {
            return encode_report(env, done, partitions);
        });
}

}  // namespace

void export_out_of_core_group_calls(Napi::Object exports) {
    export_sync<out_of_core_group_bytes_call>(exports, "outOfCoreGroupBytes");
    export_async<group_out_of_core_call>(exports, "groupOutOfCore");
}

}  // namespace spillway::addon
