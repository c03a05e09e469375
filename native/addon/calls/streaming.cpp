// SPDX-License-Identifier: Apache-2.0
#include "addon/calls/calls.hpp"
#include "addon/calls/stage_use.hpp"
#include "addon/decode/device.hpp"
#include "addon/encode/encode.hpp"
#include "addon/jobs/addon_error.hpp"
#include "addon/jobs/handles.hpp"
#include "addon/jobs/stage_job.hpp"
#include "executor/streaming/group_by.hpp"
#include "executor/streaming/join.hpp"
#include "executor/streaming/tree.hpp"

namespace spillway::addon {

namespace {

ChunkInput input_of(const SourceHandle& handle) {
    return {handle.source.get(), handle.stream.get()};
}

Napi::Value join_out_of_core_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto build = use_source(info[1]);
    const auto probe = use_source(info[2]);
    const OutOfCoreStage stage = decode_out_of_core_stage(info[3], *build->source, *probe->source);
    const size_t partitions = size_t{1} << stage.join.sizes.radix_bits;
    const auto gpu = gpu_of(*job->engine);
    const auto join = [=](BatchSink* sink) {
        const DevicePause pause = [&](const std::function<void()>& wait) { gpu->pause(job->control, wait); };
        return gpu->operate(job->control, [&] {
            return join_out_of_core(input_of(*build), input_of(*probe), stage, *job->engine->kept_pinned, pause, sink,
                                    job->control, job->engine->spill_space);
        });
    };
    const bool wants_rows = stage.join.result == cuda::JoinResultKind::kRows;
    if (!wants_rows) {
        return start_stage(info.Env(), job, [join, partitions]() -> Encode {
            const cuda::StreamReport done = join(nullptr);
            return [done, partitions](Napi::Env env) { return encode_join_report(env, done, partitions); };
        });
    }
    const StageSink sink(get_handle<SinkHandle>(info[4]));
    return start_sink_stage(
        info.Env(), job, sink, [join](BatchSink& rows) { return join(&rows); },
        [partitions](Napi::Env env, const cuda::StreamReport& done) {
            return encode_join_report(env, done, partitions);
        });
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
            return group_out_of_core(input_of(*source), stage, *job->engine->kept_pinned, pause, sink, job->control,
                                     job->engine->spill_space);
        });
    };
    if (info[3].IsUndefined()) {
        return start_stage(info.Env(), job, [group, partitions]() -> Encode {
            const cuda::StreamReport done = group(nullptr);
            return [done, partitions](Napi::Env env) { return encode_group_report(env, done, partitions); };
        });
    }
    const StageSink sink(get_handle<SinkHandle>(info[3]));
    return start_sink_stage(
        info.Env(), job, sink, [group](BatchSink& rows) { return group(&rows); },
        [partitions](Napi::Env env, const cuda::StreamReport& done) {
            return encode_group_report(env, done, partitions);
        });
}

// Sources by the numbers that flows have for them; one may be several of them.
std::vector<std::shared_ptr<SourceHandle>> use_sources(const Napi::Value& value) {
    std::vector<std::shared_ptr<SourceHandle>> sources;
    for (const Field& item : Field(value, "sources").array()) sources.push_back(use_source(item.value()));
    return sources;
}

Napi::Value encode_tree_report(Napi::Env env, const OutOfCoreTreeReport& report,
                               const std::vector<OutOfCoreOperator>& operators) {
    auto reports = Napi::Array::New(env);
    for (size_t i = 0; i < operators.size(); ++i) {
        const size_t partitions = size_t{1} << sizes_of(operators[i]).radix_bits;
        const bool is_join = join_of(operators[i]) != nullptr;
        const auto encode = is_join ? encode_join_report : encode_group_report;
        // A tree that was stopped at the last row that was wanted reports nothing else.
        const cuda::StreamReport& done = i < report.operators.size() ? report.operators[i] : cuda::StreamReport{};
        reports.Set(static_cast<uint32_t>(i), encode(env, done, partitions));
    }
    auto object = Napi::Object::New(env);
    object.Set("rows", encode_count(env, report.rows));
    object.Set("operators", reports);
    return object;
}

// A sink where rows are wanted; without one they are counted.
Napi::Value run_tree_out_of_core_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const std::vector<std::shared_ptr<SourceHandle>> handles = use_sources(info[1]);
    std::vector<const Source*> described;
    for (const auto& handle : handles) described.push_back(handle->source.get());
    // Its pipes alone are a kilobyte each, and the stage is copied.
    const auto tree = std::make_shared<const OutOfCoreTree>(decode_out_of_core_tree(info[2], described));
    const auto gpu = gpu_of(*job->engine);
    const auto run = [=](BatchSink* sink) {
        std::vector<ChunkInput> inputs;
        for (const auto& handle : handles) inputs.push_back(input_of(*handle));
        const DevicePause pause = [&](const std::function<void()>& wait) { gpu->pause(job->control, wait); };
        return gpu->operate(job->control, [&] {
            return tree_out_of_core(inputs, *tree, *job->engine->kept_pinned, pause, sink, job->control,
                                    job->engine->spill_space);
        });
    };
    const auto* const join = tree->root_join();
    const bool counts = join != nullptr ? join->result != cuda::JoinResultKind::kRows : info[3].IsUndefined();
    const auto encode = [tree](Napi::Env env, const OutOfCoreTreeReport& done) {
        return encode_tree_report(env, done, tree->operators);
    };
    if (counts) {
        return start_stage(info.Env(), job, [run, encode]() -> Encode {
            const OutOfCoreTreeReport done = run(nullptr);
            return [done, encode](Napi::Env env) { return encode(env, done); };
        });
    }
    const StageSink sink(get_handle<SinkHandle>(info[3]));
    return start_sink_stage(
        info.Env(), job, sink, [run](BatchSink& rows) { return run(&rows); }, encode);
}

}  // namespace

void export_streaming_calls(Napi::Object exports) {
    export_async<join_out_of_core_call>(exports, "joinOutOfCore");
    export_async<group_out_of_core_call>(exports, "groupOutOfCore");
    export_async<run_tree_out_of_core_call>(exports, "runTreeOutOfCore");
}

}  // namespace spillway::addon
