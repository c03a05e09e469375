// SPDX-License-Identifier: Apache-2.0
#include "addon/decode/device.hpp"

#include <optional>

#include "addon/calls/calls.hpp"
#include "addon/calls/stage_use.hpp"
#include "addon/decode/fields.hpp"
#include "addon/encode/encode.hpp"
#include "addon/jobs/addon_error.hpp"
#include "addon/jobs/handles.hpp"
#include "addon/jobs/stage_job.hpp"
#include "device/gpu_list.hpp"

namespace spillway::addon {

namespace {

constexpr int32_t kOrdinalMax = 1023;

// The driver may take its time to answer, and the JS thread must not wait for it.
Napi::Value look_for_devices(const Napi::CallbackInfo& info) {
    const auto engine = get_handle<Engine>(info[0]);
    return start_stage(
        info.Env(), std::make_shared<Job>(engine),
        []() -> Encode {
            find_gpus();
            return [](Napi::Env env) { return env.Undefined(); };
        },
        StageMemory::kNone);
}

Napi::Value open_device(const Napi::CallbackInfo& info) {
    const auto engine = get_handle<Engine>(info[0]);
    Fields fields(info[1], "spec");
    const int32_t ordinal = fields["ordinal"].int32(0, kOrdinalMax);
    const auto memory_bytes = fields["memoryBytes"].count();
    const auto pinned_bytes = fields["pinnedBytes"].count();
    const auto kept_bytes = fields["keptPinnedBytes"].count();
    const auto peer_bytes = fields["peerBytes"].count();
    const int32_t peer_ordinal = fields["peerOrdinal"].int32(-1, kOrdinalMax);
    fields.finish();
    if (engine->gpu) throw Error(ErrorCode::kInvalidArgument, "this runtime has opened a GPU before");
    return start_stage(
        info.Env(), std::make_shared<Job>(engine),
        [=]() -> Encode {
            const auto gpu = std::make_shared<OpenedGpu>(GpuDevice::open(ordinal, memory_bytes, pinned_bytes));
            GpuPeer peer;
            if (peer_bytes > 0) peer = gpu->device.open_peer(peer_ordinal, peer_bytes);
            return [engine, gpu, kept_bytes, peer](Napi::Env env) {
                engine->gpu = gpu;
                engine->kept_pinned = std::make_unique<KeptPinned>(gpu->device, engine->budget, kept_bytes);
                Napi::Object told = encode_gpu_memory(env, gpu->device.memory());
                told.Set("peerBytes", encode_count(env, peer.memory_bytes));
                told.Set("peerReadBytesPerMs", peer.read_bytes_per_ms);
                told.Set("peerWriteBytesPerMs", peer.write_bytes_per_ms);
                return told;
            };
        },
        StageMemory::kNone);
}

Napi::Value device_memory(const Napi::CallbackInfo& info) {
    return encode_gpu_memory(info.Env(), gpu_of(*get_handle<Engine>(info[0]))->device.memory());
}

Napi::Value reset_device_peak(const Napi::CallbackInfo& info) {
    gpu_of(*get_handle<Engine>(info[0]))->device.reset_peak();
    return info.Env().Undefined();
}

// A new table, and what the operation took that made it.
Encode made_table(const std::shared_ptr<Engine>& engine, GpuTable rows,
                  const std::optional<cuda::TableReport>& report = {}) {
    const auto made = std::make_shared<GpuTable>(std::move(rows));
    return [engine, made, report](Napi::Env env) -> Napi::Value {
        auto object = Napi::Object::New(env);
        object.Set("rows", encode_count(env, made->rows()));
        object.Set("bytes", encode_count(env, made->bytes()));
        if (report) object.Set("report", encode_gpu_report(env, *report));
        auto handle = std::make_unique<DeviceTableHandle>(engine, std::move(*made));
        object.Set("table", make_handle(env, registry_of(env)->share(std::move(handle))));
        return object;
    };
}

Napi::Value upload_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto source = use_source(info[1]);
    const UploadSpec spec = decode_upload(info[2], *source->source);
    const auto gpu = gpu_of(*job->engine);
    return start_stage(info.Env(), job, [job, source, spec, gpu]() -> Encode {
        Uploaded made = upload_table(*source->source, spec, *job->engine->kept_pinned, job->control);
        const Encode encode = made_table(job->engine, std::move(made.table));
        return [encode, sent_bytes = made.sent_bytes](Napi::Env env) -> Napi::Value {
            const Napi::Value object = encode(env);
            object.As<Napi::Object>().Set("sentBytes", encode_count(env, sent_bytes));
            return object;
        };
    });
}

Napi::Value join_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto build = get_handle<DeviceTableHandle>(info[1]);
    const auto probe = get_handle<DeviceTableHandle>(info[2]);
    const cuda::OwnedTableJoin join = decode_device_join(info[3], build->table, probe->table);
    const auto gpu = gpu_of(*job->engine);
    return start_stage(info.Env(), job, [job, build, probe, join, gpu]() -> Encode {
        cuda::TableReport report;
        GpuTable rows = gpu->operate(
            job->control, [&] { return GpuTable::join(gpu->device, build->table, probe->table, join, report); });
        return made_table(job->engine, std::move(rows), report);
    });
}

Napi::Value count_join_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto build = get_handle<DeviceTableHandle>(info[1]);
    const auto probe = get_handle<DeviceTableHandle>(info[2]);
    const cuda::OwnedTableJoin join = decode_device_join(info[3], build->table, probe->table);
    const auto gpu = gpu_of(*job->engine);
    return start_stage(info.Env(), job, [job, build, probe, join, gpu]() -> Encode {
        cuda::TableReport report;
        const uint64_t rows = gpu->operate(
            job->control, [&] { return GpuTable::count_join(gpu->device, build->table, probe->table, join, report); });
        job->control.rows_out.fetch_add(rows, std::memory_order_relaxed);
        return [rows, report](Napi::Env env) -> Napi::Value {
            auto object = Napi::Object::New(env);
            object.Set("rows", encode_count(env, rows));
            object.Set("report", encode_gpu_report(env, report));
            return object;
        };
    });
}

Napi::Value group_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto input = get_handle<DeviceTableHandle>(info[1]);
    const cuda::OwnedTableGroupBy group = decode_device_group(info[2], input->table);
    const auto gpu = gpu_of(*job->engine);
    return start_stage(info.Env(), job, [job, input, group, gpu]() -> Encode {
        cuda::TableReport report;
        GpuTable rows =
            gpu->operate(job->control, [&] { return GpuTable::group(gpu->device, input->table, group, report); });
        return made_table(job->engine, std::move(rows), report);
    });
}

Napi::Value deliver_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto input = get_handle<DeviceTableHandle>(info[1]);
    const DeliverSpec spec = decode_deliver(info[2], input->table.columns());
    const auto gpu = gpu_of(*job->engine);
    const StageSink sink(get_handle<SinkHandle>(info[3]));
    const auto deliver = [=](BatchSink& rows) {
        return deliver_table(input->table, spec, *job->engine->kept_pinned, rows, job->control);
    };
    const auto encode = [](Napi::Env env, const Delivered& done) -> Napi::Value {
        auto object = Napi::Object::New(env);
        object.Set("rows", encode_count(env, done.rows));
        object.Set("sentBytes", encode_count(env, done.sent_bytes));
        return object;
    };
    return start_sink_stage(info.Env(), job, sink, deliver, encode);
}

Napi::Value begin_pieces_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto build = get_handle<DeviceTableHandle>(info[1]);
    const auto probe = get_handle<DeviceTableHandle>(info[2]);
    const cuda::OwnedTableJoin join = decode_device_join(info[3], build->table, probe->table);
    const auto gpu = gpu_of(*job->engine);
    return start_stage(info.Env(), job, [job, build, probe, join, gpu]() -> Encode {
        cuda::TableReport report;
        const auto begun = std::make_shared<GpuPieces>(gpu->operate(
            job->control, [&] { return GpuPieces::begin(gpu->device, build->table, probe->table, join, report); }));
        return [job, build, probe, begun, report](Napi::Env env) -> Napi::Value {
            auto object = Napi::Object::New(env);
            object.Set("rows", encode_count(env, begun->rows()));
            object.Set("report", encode_gpu_report(env, report));
            auto handle = std::make_unique<DevicePiecesHandle>(job->engine, std::move(*begun), build, probe);
            object.Set("pieces", make_handle(env, registry_of(env)->share(std::move(handle))));
            return object;
        };
    });
}

Napi::Value deliver_pieces_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto join = get_handle<DevicePiecesHandle>(info[1]);
    const PiecesSpec spec = decode_pieces(info[2], join->pieces.columns());
    const auto gpu = gpu_of(*job->engine);
    const StageSink sink(get_handle<SinkHandle>(info[3]));
    const auto lease = Lease::take(join, "join in pieces");
    const auto deliver = [=](BatchSink& rows) {
        const DeviceTurn turn = [&](const std::function<void()>& operation) {
            gpu->operate(job->control, [&] { operation(); });
        };
        return deliver_pieces(join->pieces, spec, *job->engine->kept_pinned, turn, rows, job->control);
    };
    // The lease ends with the stage, on the JS thread.
    const auto encode = [lease](Napi::Env env, const DeliveredPieces& done) -> Napi::Value {
        auto object = Napi::Object::New(env);
        object.Set("rows", encode_count(env, done.rows));
        object.Set("pieces", encode_count(env, done.pieces));
        object.Set("sentBytes", encode_count(env, done.sent_bytes));
        object.Set("elapsedMs", done.elapsed_ms);
        return object;
    };
    return start_sink_stage(info.Env(), job, sink, deliver, encode);
}

Napi::Value close_pieces(const Napi::CallbackInfo& info) {
    close_handle<DevicePiecesHandle>(info[0]);
    return info.Env().Undefined();
}

Napi::Value close_table(const Napi::CallbackInfo& info) {
    close_handle<DeviceTableHandle>(info[0]);
    return info.Env().Undefined();
}

}  // namespace

void export_device_calls(Napi::Object exports) {
    export_async<look_for_devices>(exports, "lookForDevices");
    export_async<open_device>(exports, "openDevice");
    export_sync<device_memory>(exports, "deviceMemory");
    export_sync<reset_device_peak>(exports, "resetDevicePeak");
    export_async<upload_call>(exports, "uploadTable");
    export_async<join_call>(exports, "joinTables");
    export_async<count_join_call>(exports, "countTableJoin");
    export_async<group_call>(exports, "groupTable");
    export_async<deliver_call>(exports, "deliverTable");
    export_async<begin_pieces_call>(exports, "beginJoinPieces");
    export_async<deliver_pieces_call>(exports, "deliverPieces");
    export_sync<close_pieces>(exports, "closePieces");
    export_sync<close_table>(exports, "closeTable");
}

}  // namespace spillway::addon
