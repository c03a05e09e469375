// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "addon/calls/calls.hpp"
#include "addon/calls/stage_use.hpp"
#include "addon/decode/decode.hpp"
#include "addon/encode/encode.hpp"
#include "addon/jobs/addon_error.hpp"
#include "addon/jobs/handles.hpp"
#include "addon/jobs/stage_job.hpp"
#include "executor/cpu/group_by.hpp"
#include "executor/cpu/joins.hpp"
#include "executor/cpu/partition.hpp"
#include "executor/cpu/pipeline.hpp"
#include "generate/relation_generator.hpp"
#include "generate/table_generator.hpp"

namespace spillway::addon {

namespace {

using State = PartitionsHandle::State;
constexpr const char* kPartitions = "set of partitions";

Napi::Value create_partitions(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    PartitionPlan plan = decode_partition(info[1], "spec");
    const RowLayout layout = layout_of(plan);
    auto handle = std::make_unique<PartitionsHandle>(job, std::move(plan.columns));
    handle->make_rows(std::move(plan.spec), layout);
    return make_handle(info.Env(), registry_of(info.Env())->share(std::move(handle)));
}

// A set that a stage fills with the rows of a source.
struct Filled {
    Filled(const Napi::Value& set, const Napi::Value& rows)
        : handle(get_handle<PartitionsHandle>(set)), source(use_source(rows)) {
        handle->expect(State::kFilling);
        check_columns(handle->columns, source->source->columns());
        lease = Lease::take(handle, kPartitions);
    }
    void fill(Job& job, int64_t first_row, const KeyInterval* kept = nullptr) const {
        partition_source(*handle->partitioner, *handle->rows, *source->source, job.control,
                         static_cast<uint64_t>(first_row), kept);
    }
    // Fills the set with other rows of its source, after those that it has are gone.
    void refill(Job& job, const KeyInterval& kept) const {
        PartitionSpec spec = rows().spec();
        RowLayout layout = rows().layout();
        handle->partitioner.reset();
        handle->rows.reset();
        handle->make_rows(std::move(spec), std::move(layout));
        fill(job, 0, &kept);
        handle->partitioner->finish();
    }
    PartitionedRows& rows() const { return *handle->rows; }

    std::shared_ptr<PartitionsHandle> handle;
    std::shared_ptr<SourceHandle> source;
    std::shared_ptr<Lease> lease;
};

Napi::Value partition_source_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const Filled set(info[1], info[2]);
    const bool has_first_row = info.Length() > 3 && !info[3].IsUndefined();
    const int64_t first_row = has_first_row ? Field(info[3], "firstRow").integer(0, kSafeInteger) : 0;
    return start_stage(info.Env(), job, [job, set, first_row]() -> Encode {
        set.fill(*job, first_row);
        return undefined_result;
    });
}

Napi::Value finish_partitions(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto partitions = get_handle<PartitionsHandle>(info[1]);
    partitions->expect(State::kFilling);
    const auto lease = Lease::take(partitions, kPartitions);
    return start_stage(info.Env(), job, [partitions, lease]() -> Encode {
        partitions->partitioner->finish();
        return [partitions](Napi::Env env) {
            partitions->state = State::kFinished;
            return encode_sizes(env, *partitions->rows);
        };
    });
}

// What is told of a stage that runs in one call with others.
struct BuildStage {
    uint64_t rows_in = 0;
    uint64_t rows = 0;
    double elapsed_ms = 0;
};

// Fills a set and finishes it, as a part of some stage.
BuildStage fill_and_finish(const Filled& set, Job& job) {
    const auto begin = std::chrono::steady_clock::now();
    const uint64_t rows_before = job.control.rows_in.load(std::memory_order_relaxed);
    set.fill(job, 0);
    set.handle->partitioner->finish();
    BuildStage told;
    told.rows_in = job.control.rows_in.load(std::memory_order_relaxed) - rows_before;
    told.rows = set.rows().total_rows();
    told.elapsed_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    job.control.check();
    return told;
}

Napi::Value encode_joined(Napi::Env env, uint64_t rows, const std::vector<BuildStage>& builds) {
    auto told = Napi::Object::New(env);
    told.Set("rows", encode_count(env, rows));
    auto all = Napi::Array::New(env, builds.size());
    for (uint32_t i = 0; i < builds.size(); ++i) {
        auto one = Napi::Object::New(env);
        one.Set("rowsIn", encode_count(env, builds[i].rows_in));
        one.Set("rows", encode_count(env, builds[i].rows));
        one.Set("elapsedMs", Napi::Number::New(env, builds[i].elapsed_ms));
        all.Set(i, one);
    }
    told.Set("builds", all);
    return told;
}

// Sets of few rows, one after the other: filling each takes less time than another thread and another turn of the event
// loop.
Napi::Value fill_partitions(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    if (!info[1].IsArray()) throw field_error("sets", "an array of sets of partitions", info[1]);
    if (!info[2].IsArray()) throw field_error("sources", "an array of sources", info[2]);
    const auto handles = info[1].As<Napi::Array>();
    const auto sources = info[2].As<Napi::Array>();
    const auto sets = std::make_shared<std::vector<Filled>>();
    for (uint32_t i = 0; i < handles.Length(); ++i) sets->emplace_back(handles.Get(i), sources.Get(i));
    return start_stage(info.Env(), job, [job, sets]() -> Encode {
        const auto told = std::make_shared<std::vector<BuildStage>>();
        for (const Filled& set : *sets) told->push_back(fill_and_finish(set, *job));
        return [sets, told](Napi::Env env) -> Napi::Value {
            auto all = Napi::Array::New(env, sets->size());
            for (uint32_t i = 0; i < sets->size(); ++i) {
                const Filled& set = (*sets)[i];
                set.handle->state = State::kFinished;
                auto one = Napi::Object::New(env);
                one.Set("sizes", encode_sizes(env, set.rows()));
                one.Set("rowsIn", encode_count(env, (*told)[i].rows_in));
                one.Set("elapsedMs", Napi::Number::New(env, (*told)[i].elapsed_ms));
                all.Set(i, one);
            }
            return all;
        };
    });
}

Napi::Value close_partitions(const Napi::CallbackInfo& info) {
    close_handle<PartitionsHandle>(info[0]);
    return info.Env().Undefined();
}

// Finished partitions whose rows this stage uses up.
struct Consumed {
    explicit Consumed(const Napi::Value& value)
        : handle((get_handle<PartitionsHandle>(value)->expect(State::kFinished), get_handle<PartitionsHandle>(value))),
          lease(Lease::take(handle, kPartitions)) {}
    PartitionedRows& rows() const { return *handle->rows; }
    const PartitionSpec& spec() const { return handle->rows->spec(); }
    const RowLayout& layout() const { return handle->rows->layout(); }

    std::shared_ptr<PartitionsHandle> handle;
    std::shared_ptr<Lease> lease;
};

Napi::Value join_partitions_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const Consumed build(info[1]);
    const Consumed probe(info[2]);
    const JoinSpec spec = decode_join(info[3]);
    check_join_sides(build.spec(), build.layout(), probe.spec(), probe.layout(), spec);
    check_schedule(spec.schedule, build.spec().radix_bits);
    const StageSink sink(get_handle<SinkHandle>(info[4]));
    build.handle->state = State::kConsumed;
    probe.handle->state = State::kConsumed;
    return start_sink_stage(info.Env(), job, sink, [=](BatchSink& rows) {
        return join_partitions(build.rows(), probe.rows(), spec, rows, job->control);
    });
}

Napi::Value join_streaming_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const Consumed build(info[1]);
    const auto probe = use_source(info[2]);
    const PartitionPlan plan = decode_partition(info[3], "probeSpec");
    const JoinSpec spec = decode_join(info[4]);
    check_columns(plan.columns, probe->source->columns());
    const RowLayout layout = layout_of(plan);
    check_join_sides(build.spec(), build.layout(), plan.spec, layout, spec);
    const StageSink sink(get_handle<SinkHandle>(info[5]));
    build.handle->state = State::kConsumed;
    return start_sink_stage(info.Env(), job, sink, [=](BatchSink& rows) {
        return join_streaming(build.rows(), *probe->source, probe->stream.get(), plan.spec, spec, rows, job->control);
    });
}

// The build side is partitioned by the same call: for few rows, of which either stage takes less time than another
// thread and another turn of the event loop.
Napi::Value partition_and_join_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const Filled build(info[1], info[2]);
    const auto probe = use_source(info[3]);
    const PartitionPlan plan = decode_partition(info[4], "probeSpec");
    const JoinSpec spec = decode_join(info[5]);
    check_columns(plan.columns, probe->source->columns());
    const RowLayout layout = layout_of(plan);
    check_join_sides(build.rows().spec(), build.rows().layout(), plan.spec, layout, spec);
    const StageSink sink(get_handle<SinkHandle>(info[6]));
    build.handle->state = State::kConsumed;
    const auto built = std::make_shared<std::vector<BuildStage>>();
    const auto stage = [=](BatchSink& rows) {
        built->push_back(fill_and_finish(build, *job));
        return join_streaming(build.rows(), *probe->source, nullptr, plan.spec, spec, rows, job->control);
    };
    return start_sink_stage(info.Env(), job, sink, stage,
                            [built](Napi::Env env, uint64_t rows) { return encode_joined(env, rows, *built); });
}

Napi::Value join_array_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto build = use_source(info[1]);
    const PartitionPlan build_plan = decode_partition(info[2], "buildSpec");
    const auto probe = use_source(info[3]);
    const PartitionPlan probe_plan = decode_partition(info[4], "probeSpec");
    const ArrayJoinSpec spec = decode_array_join(info[5]);
    check_columns(build_plan.columns, build->source->columns());
    check_columns(probe_plan.columns, probe->source->columns());
    check_array_join(build_plan.spec, probe_plan.spec, spec);
    const StageSink sink(get_handle<SinkHandle>(info[6]));
    return start_sink_stage(info.Env(), job, sink, [=](BatchSink& rows) {
        return join_array(*build->source, build_plan.spec, *probe->source, probe_plan.spec, spec, rows,
                          job->engine->budget, job->control);
    });
}

Napi::Value group_partitions_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const Consumed partitions(info[1]);
    const GroupBySpec spec = decode_group_by(info[2]);
    check_fields(spec, partitions.spec());
    check_schedule(spec.schedule, partitions.spec().radix_bits);
    const StageSink sink(get_handle<SinkHandle>(info[3]));
    partitions.handle->state = State::kConsumed;
    return start_sink_stage(info.Env(), job, sink, [=](BatchSink& rows) {
        return group_partitions(partitions.rows(), spec, rows, job->control);
    });
}

Napi::Value group_source_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto source = use_source(info[1]);
    const PartitionPlan plan = decode_partition(info[2], "partitionSpec");
    const GroupBySpec spec = decode_group_by(info[3]);
    check_columns(plan.columns, source->source->columns());
    check_fields(spec, plan.spec);
    const StageSink sink(get_handle<SinkHandle>(info[4]));
    return start_sink_stage(info.Env(), job, sink, [=](BatchSink& rows) {
        return group_source(*source->source, plan.spec, spec, job->engine->budget, job->control, rows);
    });
}

// What a pipeline reads: partitions of its build sides, used up, and the source that streams past their tables. Sets of
// few rows are filled by the same call, one after the other, with the sources of `fills`; where the pipeline has passes
// one build side is, before each of them.
struct PipelineUse {
    PipelineUse(const Napi::CallbackInfo& info, const Napi::Value& fills)
        : source(use_source(info[2])), plan(decode_pipeline(info[3])) {
        if (!info[1].IsArray()) throw field_error("builds", "an array of sets of partitions", info[1]);
        if (!fills.IsArray()) throw field_error("fills", "an array of sources", fills);
        const auto builds = info[1].As<Napi::Array>();
        const auto sources = fills.As<Napi::Array>();
        const auto& passes = plan.spec.passes;
        const uint32_t count = builds.Length();
        if (passes ? sources.Length() != 1 : sources.Length() != 0 && sources.Length() != count) {
            throw field_error("fills", passes ? "the source of the passes" : "one source for each build", fills);
        }
        for (uint32_t i = 0; i < count; ++i) {
            if (passes ? i == passes->join : sources.Length() > 0) {
                filled.emplace_back(builds.Get(i), sources.Get(passes ? 0 : i));
                sets.push_back(filled.back().handle);
            } else {
                consumed.emplace_back(builds.Get(i));
                sets.push_back(consumed.back().handle);
            }
        }
        check_columns(plan.columns, source->source->columns());
        std::vector<const RowLayout*> layouts;
        for (const auto& set : sets) layouts.push_back(&set->rows->layout());
        outputs = check_pipeline(plan, layouts);
    }
    void begin() const {
        for (const auto& set : sets) set->state = State::kConsumed;
    }
    PipelineBuilds builds(Job& job) {
        const auto& passes = plan.spec.passes;
        return {passes ? passes->intervals.size() : 1, [this, &job](size_t pass) {
                    fill(job, pass);
                    std::vector<PartitionedRows*> rows;
                    for (const auto& set : sets) rows.push_back(set->rows.get());
                    return rows;
                }};
    }

    std::vector<std::shared_ptr<PartitionsHandle>> sets;  // of each join
    std::vector<Consumed> consumed;
    std::vector<Filled> filled;
    std::shared_ptr<SourceHandle> source;
    PipelinePlan plan;
    std::vector<TypePtr> outputs;
    std::vector<BuildStage> built;

  private:
    void fill(Job& job, size_t pass) {
        if (plan.spec.passes) return filled.front().refill(job, plan.spec.passes->intervals[pass]);
        for (const Filled& build : filled) built.push_back(fill_and_finish(build, job));
    }
};

// Starts the stage of a pipeline: run(builds, rows).
template <class Run>
Napi::Value start_pipeline(const Napi::CallbackInfo& info, const std::shared_ptr<Job>& job,
                           const std::shared_ptr<PipelineUse>& use, const StageSink& sink, Run run) {
    use->begin();
    const auto stage = [=](BatchSink& rows) { return run(use->builds(*job), rows); };
    return start_sink_stage(info.Env(), job, sink, stage,
                            [use](Napi::Env env, uint64_t rows) { return encode_joined(env, rows, use->built); });
}

Napi::Value join_pipeline_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto use = std::make_shared<PipelineUse>(info, info[5]);
    const StageSink sink(get_handle<SinkHandle>(info[4]));
    return start_pipeline(info, job, use, sink, [=](const PipelineBuilds& builds, BatchSink& rows) {
        return join_pipeline(builds, *use->source->source, use->plan.spec, rows, job->engine->budget, job->control);
    });
}

Napi::Value group_pipeline_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto use = std::make_shared<PipelineUse>(info, info[7]);
    const PartitionPlan partition = decode_partition(info[4], "partitionSpec");
    const GroupBySpec spec = decode_group_by(info[5]);
    check_pipeline_columns(partition.columns, use->outputs);
    check_fields(spec, partition.spec);
    const StageSink sink(get_handle<SinkHandle>(info[6]));
    return start_pipeline(info, job, use, sink, [=](const PipelineBuilds& builds, BatchSink& rows) {
        return group_pipeline(builds, *use->source->source, use->plan.spec, partition.spec, spec, rows,
                              job->engine->budget, job->control);
    });
}

Napi::Value generate_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const GenerateSpec spec = decode_generate(info[1]);
    const StageSink sink(get_handle<SinkHandle>(info[2]));
    return start_sink_stage(info.Env(), job, sink, [=](BatchSink& rows) {
        return generate_relation(spec, job->engine->budget, job->control, rows);
    });
}

// A file gets the dictionaries before its rows.
Napi::Value generate_table_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const GeneratedTable table = decode_generated_table(info[1]);
    const auto handle = get_handle<SinkHandle>(info[2]);
    const StageSink sink(handle);
    return start_sink_stage(info.Env(), job, sink, [=](BatchSink& rows) {
        MemoryBudget& budget = job->engine->budget;
        if (handle->file != nullptr && table.spec.dictionary) {
            const auto dictionaries = table_dictionaries(table.spec.table);
            for (size_t i = 0; i < dictionaries.size(); ++i) {
                const OutputBatch values = vocabulary_batch(*dictionaries[i], budget);
                handle->file->writer().write_dictionary(table.dictionary_ids[i], values);
            }
        }
        return generate_table(table.spec, budget, job->control, rows);
    });
}

Napi::Value generated_dictionaries_call(const Napi::CallbackInfo& info) {
    const auto dictionaries = table_dictionaries(decode_benchmark_table(info[0], info[1]));
    auto result = Napi::Array::New(info.Env(), dictionaries.size());
    for (uint32_t i = 0; i < result.Length(); ++i) {
        const Vocabulary& words = *dictionaries[i];
        auto values = Napi::Array::New(info.Env(), words.size());
        for (uint32_t word = 0; word < words.size(); ++word) {
            values.Set(word, Napi::String::New(info.Env(), std::string(words[word])));
        }
        result.Set(i, values);
    }
    return result;
}

}  // namespace

void export_stage_calls(Napi::Object exports) {
    export_sync<create_partitions>(exports, "createPartitions");
    export_async<partition_source_call>(exports, "partitionSource");
    export_async<finish_partitions>(exports, "finishPartitions");
    export_sync<close_partitions>(exports, "closePartitions");
    export_async<join_partitions_call>(exports, "joinPartitions");
    export_async<join_streaming_call>(exports, "joinStreaming");
    export_async<fill_partitions>(exports, "fillPartitions");
    export_async<partition_and_join_call>(exports, "partitionAndJoin");
    export_async<join_array_call>(exports, "joinArray");
    export_async<join_pipeline_call>(exports, "joinPipeline");
    export_async<group_pipeline_call>(exports, "groupPipeline");
    export_async<group_partitions_call>(exports, "groupPartitions");
    export_async<group_source_call>(exports, "groupSource");
    export_async<generate_call>(exports, "generate");
    export_async<generate_table_call>(exports, "generateTable");
    export_sync<generated_dictionaries_call>(exports, "generatedDictionaries");
}

}  // namespace spillway::addon
