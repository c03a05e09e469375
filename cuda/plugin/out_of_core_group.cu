// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "device/guard.hpp"
#include "out_of_core_group_by/out_of_core_group_by.hpp"
#include "plugin/handles.hpp"
#include "plugin/out_of_core_callbacks.hpp"
#include "plugin/out_of_core_group.hpp"

// The child is the first member, so that it is counted until the memory is back in its pools.
struct spillway_cuda_out_of_core_group {
    spillway_cuda_out_of_core_group(spillway_cuda_gpu* gpu, const spillway::cuda::OutOfCoreGroupBySpec& spec,
                                    const spillway_cuda_disk* given, spillway::cuda::PoolClaim claim)
        : child(gpu),
          open(gpu),
          columns(spec.widths.size()),
          outputs(spillway::cuda::OutOfCoreGroupBy::result_widths(spec).size()),
          disk(given),
          memory(std::move(claim)),
          group_by(gpu->device, spec, disk.usable()) {}
    spillway::cuda::Child child;
    spillway::cuda::OpenOperation open;
    size_t columns;  // of chunks
    size_t outputs;  // columns of the result
    spillway::cuda::CallbackDisk disk;
    spillway::cuda::PoolClaim memory;  // all that it will take: between callbacks it has less
    spillway::cuda::OutOfCoreGroupBy group_by;
};

namespace spillway::cuda {

namespace {

OutOfCoreGroupSizes sizes_of(const spillway_cuda_out_of_core_group_sizes& given) {
    OutOfCoreGroupSizes sizes;
    require(given.radix_bits < 32, "a group-by out of core has too many radix bits");
    require(given.chunk_slots > 0, "a group-by out of core has no room for a chunk");
    sizes.radix_bits = static_cast<int>(given.radix_bits);
    sizes.chunk_rows = given.chunk_rows;
    sizes.chunk_slots = given.chunk_slots;
    sizes.page_rows = given.page_rows;
    sizes.pages = given.pages;
    sizes.merge_rows = given.merge_rows;
    sizes.spill_block_bytes = given.spill_block_bytes;
    sizes.spill_bytes = given.spill_bytes;
    sizes.result_rows = given.result_rows;
    sizes.result_slots = given.result_slots;
    sizes.pre_aggregation =
        enumerator(given.pre_aggregation, PreAggregation::kNever, "chunks are aggregated in no known way");
    sizes.disk_block_bytes = given.disk_block_bytes;
    sizes.disk_blocks = given.disk_blocks;
    return sizes;
}

OutOfCoreGroupBySpec spec_of(const spillway_cuda_out_of_core_group_spec& given) {
    OutOfCoreGroupBySpec spec;
    spec.key_bytes = given.key_bytes;
    spec.null_group = given.null_group != 0;
    spec.widths.assign(given.widths.width, given.widths.width + given.widths.count);
    for (uint64_t i = 0; i < given.aggregate_count; ++i) {
        const spillway_cuda_out_of_core_aggregate& from = given.aggregates[i];
        OutOfCoreAggregate aggregate;
        aggregate.kind = enumerator(from.kind, GroupAggregateKind::kMax, "an aggregate is of no known kind");
        aggregate.value_kind = enumerator(from.value_kind, ValueKind::kFloat, "values are of no known kind");
        aggregate.column = from.column;
        spec.aggregates.push_back(aggregate);
    }
    spec.sizes = sizes_of(given.sizes);
    return spec;
}

void tell(const OutOfCoreGroupByReport& from, Device& device, spillway_cuda_out_of_core_group_report* report) {
    report->rows = from.rows;
    report->groups = from.groups;
    report->partial_rows = from.partial_rows;
    report->chunks = from.chunks;
    report->grouped_chunks = from.grouped_chunks;
    report->compacted_rows = from.compacted_rows;
    report->h2d_bytes = from.h2d_bytes;
    report->d2h_bytes = from.d2h_bytes;
    report->spilled_rows = from.spilled_rows;
    report->spilled_bytes = from.spilled_bytes;
    report->resident_partitions = from.resident_partitions;
    report->read_ms = from.read_ms;
    report->resident_ms = from.resident_ms;
    report->spilled_ms = from.spilled_ms;
    report->peak_bytes = device.memory().peak_bytes();
    report->disk_written_bytes = from.disk_written_bytes;
    report->disk_read_bytes = from.disk_read_bytes;
}

}  // namespace

void out_of_core_group_bytes_call(const spillway_cuda_out_of_core_group_spec* spec, uint64_t* bytes,
                                  spillway_cuda_status* status) {
    *bytes = 0;
    guarded(status, [&] { *bytes = OutOfCoreGroupBy::device_bytes(spec_of(*spec)); });
}

void begin_out_of_core_group_call(spillway_cuda_gpu* gpu, const spillway_cuda_out_of_core_group_spec* spec,
                                  spillway_cuda_out_of_core_group** group, spillway_cuda_status* status) {
    *group = nullptr;
    guarded(status, [&] {
        const OutOfCoreGroupBySpec wanted = spec_of(*spec);
        std::lock_guard<std::mutex> lock(gpu->mutex);
        gpu->device.make_current();
        gpu->device.check_cancelled();
        const uint64_t bytes = OutOfCoreGroupBy::device_bytes(wanted);
        PoolClaim memory = gpu->device.memory().claim(bytes, "a group-by out of core");
        const PoolClaim::User user(memory);
        *group =
            std::make_unique<spillway_cuda_out_of_core_group>(gpu, wanted, spec->disk, std::move(memory)).release();
    });
}

// With the device to itself, but for the time in callbacks.
void run_out_of_core_group_call(spillway_cuda_out_of_core_group* group, const spillway_cuda_source* source,
                                const spillway_cuda_sink* sink, spillway_cuda_out_of_core_group_report* report,
                                spillway_cuda_status* status) {
    *report = {};
    guarded(status, [&] {
        spillway_cuda_gpu* const gpu = group->child.gpu();
        std::unique_lock<std::mutex> lock(gpu->mutex);
        gpu->device.make_current();
        gpu->device.check_cancelled();
        const PoolClaim::User user(group->memory);
        CallbackSource chunks(*source, group->columns, lock);
        std::optional<CallbackSink> groups;
        if (sink != nullptr) groups.emplace(*sink, group->outputs, lock);
        tell(group->group_by.run(chunks, groups ? &*groups : nullptr), gpu->device, report);
    });
}

// Its destructors wait for the device, which others may use meanwhile but not take memory of in between.
void free_out_of_core_group(spillway_cuda_out_of_core_group* group) {
    if (group == nullptr) return;
    guarded(nullptr, [&] {
        spillway_cuda_gpu* const gpu = group->child.gpu();
        std::lock_guard<std::mutex> lock(gpu->mutex);
        gpu->device.make_current();
        delete group;
    });
}

}  // namespace spillway::cuda
