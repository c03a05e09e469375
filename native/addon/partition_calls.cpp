// SPDX-License-Identifier: Apache-2.0
#include "addon/addon_error.hpp"
#include "addon/calls.hpp"
#include "addon/decode.hpp"
#include "addon/encode.hpp"
#include "addon/handle_types.hpp"
#include "addon/source_use.hpp"
#include "addon/stage_job.hpp"
#include "executor/cpu/partition.hpp"

namespace spillway::addon {

namespace {

constexpr const char* kWhat = "set of partitions";

Napi::Value create_partitions(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    PartitionPlan plan = decode_partition(info[1], "spec");
    const RowLayout layout = RowLayout::make(plan.columns, plan.spec.keys, plan.spec.carry, plan.spec.null_keys);
    auto handle = std::make_unique<PartitionsHandle>(job, std::move(plan.columns));
    handle->rows = std::make_unique<PartitionedRows>(std::move(plan.spec), layout, job->engine->budget,
                                                     job->engine->spill_space, job->control);
    handle->partitioner = std::make_unique<RadixPartitioner>(*handle->rows);
    return make_handle(info.Env(), registry_of(info.Env())->share(std::move(handle)));
}

Napi::Value partition_source_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto partitions = get_handle<PartitionsHandle>(info[1]);
    const auto source = use_source(info[2]);
    const bool has_first_row = info.Length() > 3 && !info[3].IsUndefined();
    const int64_t first_row = has_first_row ? Field(info[3], "firstRow").integer(0, kSafeInteger) : 0;
    partitions->expect(PartitionsHandle::State::kFilling);
    check_columns(partitions->columns, source->source->columns());
    const auto lease = Lease::take(partitions, kWhat);
    return start_stage(info.Env(), job, [job, partitions, source, lease, first_row]() -> Encode {
        partition_source(*partitions->partitioner, *partitions->rows, *source->source, job->control,
                         static_cast<uint64_t>(first_row));
        return undefined_result;
    });
}

Napi::Value finish_partitions(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto partitions = get_handle<PartitionsHandle>(info[1]);
    partitions->expect(PartitionsHandle::State::kFilling);
    const auto lease = Lease::take(partitions, kWhat);
    return start_stage(info.Env(), job, [partitions, lease]() -> Encode {
        partitions->partitioner->finish();
        return [partitions](Napi::Env env) {
            partitions->state = PartitionsHandle::State::kFinished;
            return encode_sizes(env, *partitions->rows);
        };
    });
}

Napi::Value close_partitions(const Napi::CallbackInfo& info) {
    close_handle<PartitionsHandle>(info[0]);
    return info.Env().Undefined();
}

}  // namespace

void export_partition_calls(Napi::Object exports) {
    export_sync<create_partitions>(exports, "createPartitions");
    export_async<partition_source_call>(exports, "partitionSource");
    export_async<finish_partitions>(exports, "finishPartitions");
    export_sync<close_partitions>(exports, "closePartitions");
}

}  // namespace spillway::addon
