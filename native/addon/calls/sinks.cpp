// SPDX-License-Identifier: Apache-2.0
#include "addon/calls/calls.hpp"
#include "addon/calls/stage_use.hpp"
#include "addon/decode/decode.hpp"
#include "addon/encode/encode.hpp"
#include "addon/jobs/addon_error.hpp"
#include "addon/jobs/handles.hpp"
#include "addon/jobs/stage_job.hpp"
#include "executor/cpu/partition.hpp"
#include "executor/sinks/count_sink.hpp"

namespace spillway::addon {

namespace {

constexpr int64_t kBatchesMax = 1 << 20;

Napi::Value share_sink(Napi::Env env, std::unique_ptr<SinkHandle> handle) {
    return make_handle(env, registry_of(env)->share(std::move(handle)));
}

BatchSize decode_batch_size(Fields& options) {
    const int64_t rows = options["batchRows"].integer(1, kSafeInteger);
    return {rows, options["batchBytes"].count(1)};
}

Napi::Value create_count_sink(const Napi::CallbackInfo& info) {
    auto handle = std::make_unique<SinkHandle>(get_handle<Job>(info[0]));
    handle->sink = std::make_unique<CountSink>(handle->job->control);
    return share_sink(info.Env(), std::move(handle));
}

Napi::Value create_queue_sink(const Napi::CallbackInfo& info) {
    auto handle = std::make_unique<SinkHandle>(get_handle<Job>(info[0]));
    decode_columns(Field(info[1], "columns"));
    Fields options(info[2], "options");
    const BatchSize size = decode_batch_size(options);
    const auto batches = static_cast<size_t>(options["maxBatches"].integer(1, kBatchesMax));
    const bool kept = options["kept"].boolean();
    options.finish();
    auto queue = std::make_unique<QueueSink>(size, batches, handle->job->control);
    handle->queue = queue.get();
    const auto& registry = registry_of(info.Env());
    const auto encode = [target = BatchTarget{handle->job->engine, registry->delivered_memory(), kept, !kept}](
                            Napi::Env env, OutputBatch&& batch) { return encode_batch(env, std::move(batch), target); };
    handle->delivery = std::make_shared<QueueDelivery>(info.Env(), registry->js_thread(), encode,
                                                       kept ? registry->delivered_memory() : nullptr);
    handle->delivery->attach(*queue);
    handle->sink = std::move(queue);
    return share_sink(info.Env(), std::move(handle));
}

Napi::Value next_batch(const Napi::CallbackInfo& info) {
    const auto sink = get_handle<SinkHandle>(info[0]);
    sink->queue_sink();
    return sink->delivery->next(info.Env());
}

Napi::Value delivered_memory(const Napi::CallbackInfo& info) {
    const auto engine = get_handle<Engine>(info[0]);
    return encode_delivered(info.Env(), *registry_of(info.Env())->delivered_memory(), *engine);
}

// Detached buffers give their memory back at once, and all views of them have no elements.
Napi::Value release_memory(const Napi::CallbackInfo& info) {
    const auto memory = info[0].As<Napi::Array>();
    const auto delivered = registry_of(info.Env())->delivered_memory();
    for (uint32_t i = 0; i < memory.Length(); ++i) {
        const Napi::HandleScope scope(info.Env());
        const Napi::Value buffer = memory.Get(i);
        if (!buffer.IsArrayBuffer()) continue;
        auto bytes = buffer.As<Napi::ArrayBuffer>();
        const uint64_t length = bytes.ByteLength();
        bytes.Detach();
        if (is_external_length(length)) delivered->released(info.Env(), length);
    }
    return info.Env().Undefined();
}

Napi::Value create_file_sink(const Napi::CallbackInfo& info) {
    auto handle = std::make_unique<SinkHandle>(get_handle<Job>(info[0]));
    auto columns = decode_columns(Field(info[1], "columns"));
    Fields options(info[2], "options");
    const std::string path = options["path"].string();
    auto schema_message = options["schemaMessage"].bytes();
    const bool overwrite = options["overwrite"].boolean();
    const BatchSize size = decode_batch_size(options);
    options.finish();
    JobControl& control = handle->job->control;
    const auto make_room = [space = handle->job->engine->spill_space] { return space->trim() > 0; };
    auto writer = std::make_unique<ArrowFileWriter>(path, std::move(schema_message), overwrite, control, make_room);
    auto file = std::make_unique<FileSink>(std::move(writer), std::move(columns), size, control);
    handle->file = file.get();
    handle->sink = std::move(file);
    return share_sink(info.Env(), std::move(handle));
}

Napi::Value divert_queue(const Napi::CallbackInfo& info) {
    const auto queue = get_handle<SinkHandle>(info[0]);
    QueueSink& from = queue->queue_sink();
    auto handle = std::make_unique<SinkHandle>(queue->job);
    auto columns = decode_columns(Field(info[1], "columns"));
    auto schema_message = Field(info[2], "schemaMessage").bytes();
    JobControl& control = queue->job->control;
    const auto space = queue->job->engine->spill_space;
    const auto make_room = [space] { return space->trim() > 0; };
    auto writer = std::make_unique<ArrowFileWriter>(PartialFile::Nameless{space->directory()},
                                                    std::move(schema_message), control, make_room);
    auto file = std::make_unique<FileSink>(std::move(writer), std::move(columns), from.batch_size(), control);
    handle->file = file.get();
    handle->sink = std::move(file);
    queue->diverted = registry_of(info.Env())->share(std::move(handle));
    from.divert(*queue->diverted->sink);
    return make_handle(info.Env(), queue->diverted);
}

Napi::Value write_dictionary(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto sink = get_handle<SinkHandle>(info[1]);
    const auto source = use_source(info[2]);
    const auto path = decode_dictionary_path(info[3], source->source->columns());
    const int64_t id = Field(info[4], "id").integer(0, kSafeInteger);
    sink->file_sink();
    // Without a lease: a stage that has the sink may wait for the end of a stream, and its rows for this dictionary.
    // The writer appends one batch at a time.
    return start_stage(info.Env(), job, [=]() -> Encode {
        sink->file_sink().writer().write_dictionary(id, dictionary_of(*source, path, *job));
        return undefined_result;
    });
}

Napi::Value file_blocks(const Napi::CallbackInfo& info) {
    const auto sink = get_handle<SinkHandle>(info[0]);
    const ArrowFileWriter& writer = sink->file_sink().writer();
    auto blocks = Napi::Object::New(info.Env());
    blocks.Set("dictionaries", encode_blocks(info.Env(), writer.dictionary_blocks()));
    blocks.Set("records", encode_blocks(info.Env(), writer.record_blocks()));
    return blocks;
}

Napi::Value finish_file_sink(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto sink = get_handle<SinkHandle>(info[1]);
    const auto footer = Field(info[2], "footer").bytes();
    sink->file_sink();
    const auto lease = Lease::take(sink, "sink");
    const auto disposer = registry_of(info.Env())->block_disposer();
    const auto finish = [=]() -> Encode {
        ArrowFileWriter& writer = sink->file_sink().writer();
        writer.finish(footer);
        disposer->close_file(writer.take_replaced());
        return [way = writer.way()](Napi::Env env) -> Napi::Value { return Napi::String::New(env, way); };
    };
    return start_stage(info.Env(), job, finish, StageMemory::kNone);
}

Napi::Value create_partition_sink(const Napi::CallbackInfo& info) {
    auto handle = std::make_unique<SinkHandle>(get_handle<Job>(info[0]));
    handle->partitions = get_handle<PartitionsHandle>(info[1]);
    PartitionsHandle& partitions = *handle->partitions;
    partitions.expect(PartitionsHandle::State::kFilling);
    // A batch of the one stage is a morsel of the other.
    const BatchSize size{partitions.rows->spec().morsel_rows, Field(info[2], "batchBytes").count(1)};
    handle->sink = std::make_unique<PartitionSink>(*partitions.partitioner, *partitions.rows, partitions.columns, size);
    return share_sink(info.Env(), std::move(handle));
}

// Before a stage has the sink; once more where another stage takes the place of one that has failed.
Napi::Value limit_sink(const Napi::CallbackInfo& info) {
    const auto handle = get_handle<SinkHandle>(info[0]);
    const uint64_t rows = Field(info[1], "rows").count();
    const bool all_or_none = Field(info[2], "allOrNone").boolean();
    const auto lease = Lease::take(handle, "sink");
    if (handle->limit != nullptr) {
        handle->limit->begin(rows, all_or_none);
    } else {
        auto limit = std::make_unique<LimitSink>(std::move(handle->sink), rows, all_or_none, handle->job->control);
        handle->limit = limit.get();
        handle->sink = std::move(limit);
    }
    return info.Env().Undefined();
}

Napi::Value close_sink(const Napi::CallbackInfo& info) {
    const auto sink = box_of<SinkHandle>(info[0]).value;
    if (sink && sink->delivery) sink->delivery->abandon(info.Env());
    close_handle<SinkHandle>(info[0]);
    return info.Env().Undefined();
}

}  // namespace

void export_sink_calls(Napi::Object exports) {
    export_sync<create_count_sink>(exports, "createCountSink");
    export_sync<create_queue_sink>(exports, "createQueueSink");
    export_async<next_batch>(exports, "nextBatch");
    export_sync<delivered_memory>(exports, "deliveredMemory");
    export_sync<release_memory>(exports, "releaseMemory");
    export_sync<create_file_sink>(exports, "createFileSink");
    export_sync<divert_queue>(exports, "divertQueue");
    export_async<write_dictionary>(exports, "writeDictionary");
    export_sync<file_blocks>(exports, "fileBlocks");
    export_async<finish_file_sink>(exports, "finishFileSink");
    export_sync<create_partition_sink>(exports, "createPartitionSink");
    export_sync<limit_sink>(exports, "limitSink");
    export_sync<close_sink>(exports, "closeSink");
}

}  // namespace spillway::addon
